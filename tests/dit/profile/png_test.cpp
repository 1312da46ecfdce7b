#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <sys/resource.h>
#include <zlib.h>

#include "../message_of.hpp"
#include "../test_folder.hpp"
#include "profile/image.hpp"

namespace dit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Image coloured(std::int64_t width, std::int64_t height) {
  Image image{width, height, {}};
  for (std::int64_t i = 0; i < width * height * 3; ++i)
    image.rgb.push_back(static_cast<std::uint8_t>(i * 37 + i / 7));
  return image;
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}
std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(crc));
}
std::string deflated(const std::string& data) {
  uLongf size = compressBound(static_cast<uLong>(data.size()));
  std::string out(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
                     static_cast<uLong>(data.size())),
            Z_OK);
  out.resize(size);
  return out;
}
/// A PNG by hand: colour type as in the format; `rows` with their filter bytes.
std::string png_bytes(std::uint32_t width, std::uint32_t height, int depth, int type, const std::string& rows,
                      const std::string& before = "", bool interlaced = false) {
  const std::string header = big_endian(width) + big_endian(height) + static_cast<char>(depth) +
                             static_cast<char>(type) + std::string(2, '\0') +
                             static_cast<char>(interlaced ? 1 : 0);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + before + chunk("IDAT", deflated(rows)) +
         chunk("IEND", "");
}
std::string row(std::initializer_list<int> values) {
  std::string bytes(1, '\0');  // no filter
  for (const int value : values) bytes += static_cast<char>(value);
  return bytes;
}

class Png : public testing::Test {
 protected:
  std::vector<std::uint8_t> rgb(const std::string& bytes) {
    return read_png(folder_.file("in.png", bytes)).image.rgb;
  }
  /// Without the path.
  std::string error(const std::string& bytes) {
    const std::filesystem::path path = folder_.file("bad.png", bytes);
    const std::string message = message_of([&] { static_cast<void>(read_png(path)); });
    const std::string start = path.string() + ": ";
    return message.compare(0, start.size(), start) == 0 ? message.substr(start.size()) : message;
  }
  TestFolder folder_;
};

TEST_F(Png, ComesBackWithItsTexts) {
  const Image image = coloured(13, 7);
  const std::map<std::string, std::string> text = {
      {"dit seed", "7"}, {"json", "{\n \"a\": [1, 2]\n}"}, {"none", ""}};
  write_png(folder_ / "a.png", image, text);
  const PngFile file = read_png(folder_ / "a.png");
  EXPECT_EQ(file.image, image);
  EXPECT_EQ(file.text, text);
  write_png(folder_ / "b.png", image);
  EXPECT_TRUE(read_png(folder_ / "b.png").text.empty());
}

TEST_F(Png, EveryKindBecomesRgb) {
  EXPECT_THAT(rgb(png_bytes(2, 1, 8, PNG_COLOR_TYPE_RGB, row({1, 2, 3, 4, 5, 6}))),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(rgb(png_bytes(2, 1, 8, PNG_COLOR_TYPE_GRAY, row({7, 200}))),
              ElementsAre(7, 7, 7, 200, 200, 200));
  EXPECT_THAT(rgb(png_bytes(3, 1, 1, PNG_COLOR_TYPE_GRAY, row({0x40}))),
              ElementsAre(0, 0, 0, 255, 255, 255, 0, 0, 0));
  EXPECT_THAT(rgb(png_bytes(1, 1, 16, PNG_COLOR_TYPE_GRAY, row({0x80, 0xff}))), ElementsAre(128, 128, 128));
  EXPECT_THAT(rgb(png_bytes(1, 1, 16, PNG_COLOR_TYPE_RGB, row({0xff, 0xff, 0, 0, 1, 1}))),
              ElementsAre(255, 0, 1));
  const std::string palette = chunk("PLTE", std::string("\x0a\x14\x1e\x28\x32\x3c", 6));
  EXPECT_THAT(rgb(png_bytes(2, 1, 8, PNG_COLOR_TYPE_PALETTE, row({1, 0}), palette)),
              ElementsAre(40, 50, 60, 10, 20, 30));
}

TEST_F(Png, WhatIsTransparentShowsWhite) {
  EXPECT_THAT(
      rgb(png_bytes(3, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, row({9, 9, 9, 0, 10, 20, 30, 255, 0, 0, 200, 51}))),
      ElementsAre(255, 255, 255, 10, 20, 30, 204, 204, 244));
  EXPECT_THAT(rgb(png_bytes(1, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, row({10, 100}))), ElementsAre(159, 159, 159));
  const std::string palette =
      chunk("PLTE", std::string("\x0a\x14\x1e\x28\x32\x3c", 6)) + chunk("tRNS", std::string(1, '\0'));
  EXPECT_THAT(rgb(png_bytes(2, 1, 8, PNG_COLOR_TYPE_PALETTE, row({1, 0}), palette)),
              ElementsAre(40, 50, 60, 255, 255, 255));
  EXPECT_THAT(
      rgb(png_bytes(2, 1, 8, PNG_COLOR_TYPE_GRAY, row({7, 8}), chunk("tRNS", std::string("\0\x08", 2)))),
      ElementsAre(7, 7, 7, 255, 255, 255));
}

TEST_F(Png, Interlaced) {  // a 2 x 2 picture: passes 1, 6 and 7 have pixels
  EXPECT_THAT(rgb(png_bytes(2, 2, 8, PNG_COLOR_TYPE_GRAY, row({1}) + row({2}) + row({3, 4}), "", true)),
              ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4));
}

TEST_F(Png, CompressedAndRepeatedTexts) {
  const std::string texts = chunk("zTXt", std::string("long\0\0", 6) + deflated("many words")) +
                            chunk("tEXt", std::string("a\0first", 7)) +
                            chunk("tEXt", std::string("a\0second", 8));
  const PngFile file =
      read_png(folder_.file("t.png", png_bytes(1, 1, 8, PNG_COLOR_TYPE_GRAY, row({0}), texts)));
  EXPECT_EQ(file.text, (std::map<std::string, std::string>{{"a", "first"}, {"long", "many words"}}));
}

TEST_F(Png, ErrorsNameFileAndFault) {
  EXPECT_EQ(message_of([&] { static_cast<void>(read_png(folder_ / "no.png")); }),
            (folder_ / "no.png").string() + ": cannot be read: No such file or directory");
  EXPECT_EQ(error(""), "not a PNG file");
  EXPECT_EQ(error("GIF89a and more"), "not a PNG file");
  EXPECT_EQ(error("\x89PNG\r\n\x1a\n"), "not a readable PNG: the file is cut short");
  EXPECT_THAT(error(png_bytes(16385, 1, 8, PNG_COLOR_TYPE_GRAY, "")),
              HasSubstr("not a readable PNG: Invalid IHDR data"));
  EXPECT_THAT(error(png_bytes(0, 1, 8, PNG_COLOR_TYPE_GRAY, "")),
              HasSubstr("not a readable PNG: Invalid IHDR data"));
  EXPECT_THAT(error(png_bytes(1, 1, 8, PNG_COLOR_TYPE_PALETTE, row({0}))), HasSubstr("not a readable PNG: "));
  EXPECT_EQ(error(png_bytes(16384, 16384, 16, PNG_COLOR_TYPE_RGB_ALPHA, row({0}))), "the file is cut short");
  EXPECT_THAT(error(png_bytes(4, 2, 8, PNG_COLOR_TYPE_GRAY, row({1, 2, 3, 4}))),
              HasSubstr("not a readable PNG: "));
}

/// The most memory that this process ever had, in bytes.
std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;
}

TEST_F(Png, AChunkIsNoLongerThanItsFile) {
  const std::string begin = png_bytes(1, 1, 8, PNG_COLOR_TYPE_GRAY, row({0})).substr(0, 33);
  const std::int64_t before = peak_memory();
  EXPECT_EQ(error(begin + big_endian(0x7fffffff) + "tEXt"), "not a readable PNG: the file is cut short");
  EXPECT_EQ(error(begin + big_endian(0x7ffffff0) + "zTXt" + std::string(100, 'k')),
            "not a readable PNG: the file is cut short");
  EXPECT_LT(peak_memory() - before, 100 << 20);
}

TEST_F(Png, AChunkOfManyBytesIsRefusedUnlessItHasThePixels) {
  const std::string text = "key" + std::string(1, '\0') + std::string(9 << 20, 'v');
  EXPECT_EQ(error(png_bytes(1, 1, 8, PNG_COLOR_TYPE_GRAY, row({0}), chunk("tEXt", text))),
            "not a readable PNG: chunk tEXt has 9437188 bytes: expected at most 8388608");
}

TEST_F(Png, DamageIsNoticedOrHarmless) {  // a sanitizer sees what leaks or is read beyond the end
  write_png(folder_ / "a.png", coloured(5, 4), {{"key", "value"}});
  const std::string whole = bytes_of(folder_ / "a.png");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error(whole.substr(0, length)), "") << length;
  }
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    refused += error(changed).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, whole.size() / 2);
}

TEST_F(Png, WritingMisuse) {
  const auto fault = [&](const Image& image, const std::map<std::string, std::string>& text) {
    return message_of([&] { write_png(folder_ / "w.png", image, text); });
  };
  const std::string path = (folder_ / "w.png").string();
  EXPECT_EQ(fault({0, 3, {}}, {}), "image of " + path + " is 0 x 3 pixels: expected 1 to 16384 a side");
  EXPECT_EQ(fault({2, 3, {}}, {}), "image of " + path + " has 0 values: expected 18 for 2 x 3 pixels");
  const std::string keys = "': expected 1 to 79 printable Latin-1 characters, single spaces between words";
  for (const std::string key : {"", " a", "a ", "a  b", "a\nb", "\x7f"}) {
    EXPECT_EQ(fault(coloured(1, 1), {{key, "x"}}), path + ": text key '" + key + keys);
  }
  EXPECT_EQ(fault(coloured(1, 1), {{std::string(80, 'k'), "x"}}),
            path + ": text key '" + std::string(80, 'k') + keys);
  EXPECT_EQ(fault(coloured(1, 1), {{"k", std::string(1, '\0')}}), path + ": text of key 'k' has a zero byte");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(message_of([&] { write_png(folder_ / "no/w.png", coloured(1, 1)); }),
            (folder_ / "no/w.png").string() + ": cannot be written: No such file or directory");
}

}  // namespace
}  // namespace dit
