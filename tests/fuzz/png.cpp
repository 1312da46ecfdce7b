// Pictures: refused in words, or read to a picture that is written and read back as it is. Checksums, which
// no fuzzer finds, are put right before the file is read again.
#include <zlib.h>

#include "fuzz.hpp"
#include "profile/check_image.hpp"
#include "profile/image.hpp"

namespace {

constexpr std::size_t kSignature = 8;
constexpr std::size_t kAround = 12;      // a chunk's length, type and checksum
constexpr std::int64_t kMost = 1 << 20;  // pixels: larger pictures are as right, and take long

std::size_t big_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

/// Whether the header asks for more pixels than are worth the time.
bool is_large(std::string_view file) {
  constexpr std::size_t width = 16;
  constexpr std::size_t height = 20;
  return file.size() >= height + 4 &&
         big_endian(file.substr(width)) * big_endian(file.substr(height)) > kMost;
}

std::string with_checksums(std::string file) {
  for (std::size_t begin = kSignature; begin + kAround <= file.size();) {
    const std::size_t length = big_endian(std::string_view(file).substr(begin));
    if (length > file.size() - begin - kAround) break;
    const auto* body = reinterpret_cast<const Bytef*>(file.data() + begin + 4);
    const auto sum = static_cast<std::uint32_t>(crc32(0, body, static_cast<uInt>(length + 4)));
    for (std::size_t i = 0; i < 4; ++i)
      file[begin + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i) & 0xff);
    begin += kAround + length;
  }
  return file;
}

/// A text may be read that may not be written: then it is left out.
std::string written(const dit::PngFile& file) {
  try {
    return dit::encode_png("written", file.image, file.text);
  } catch (const std::invalid_argument& error) {
    fuzz::require_words(error);
    return dit::encode_png("written", file.image, {});
  }
}

void read(std::string_view bytes) {
  try {
    const dit::PngFile file = dit::parse_png(bytes, "file");
    dit::check_image(file.image, "what was read");
    const dit::PngFile again = dit::parse_png(written(file), "written");
    fuzz::require(again.image == file.image, "a picture is read as it was written");
    fuzz::require(again.text.empty() || again.text == file.text, "texts are read as they were written");
  } catch (const std::runtime_error& error) {
    fuzz::require(std::string_view(error.what()).starts_with("file: "), "the error names the file");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file = fuzz::text_of(data, size);
  if (is_large(file)) return 0;
  read(file);
  const std::string repaired = with_checksums(std::string(file));
  if (repaired != file) read(repaired);
  return 0;
}
