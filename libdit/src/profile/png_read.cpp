#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "json/strict_json.hpp"  // read_text_file
#include "profile/check_image.hpp"
#include "profile/image.hpp"
#include "profile/png_error.hpp"

namespace dit {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;
constexpr png_uint_32 kMostPixels = kMostImagePixels;
constexpr png_alloc_size_t kMostChunkBytes = png_alloc_size_t{8} << 20;
constexpr png_uint_32 kMostTexts = 1000;
constexpr std::uint64_t kMostCompression = 1032;  // deflate cannot do better

/// libpng's structures for one file in memory.
class Reader {
 public:
  Reader(std::string where, std::string_view bytes) : where_(std::move(where)), left_(bytes) {
    png_ =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, PngErrors::on_error, PngErrors::on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      fail("libpng has no memory");
    }
    png_set_user_limits(png_, kMostPixels, kMostPixels);
    png_set_chunk_malloc_max(png_, kMostChunkBytes);
    png_set_chunk_cache_max(png_, kMostTexts);
    png_set_read_fn(png_, &left_, on_read);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  [[nodiscard]] Image read_image() {
    const std::size_t file_bytes = left_.size();
    guarded([this] { png_read_info(png_, info_); });
    Image image;
    image.width = png_get_image_width(png_, info_);
    image.height = png_get_image_height(png_, info_);
    if (png_get_rowbytes(png_, info_) * static_cast<std::uint64_t>(image.height) / kMostCompression >
        file_bytes) {
      fail("the file is cut short");
    }
    guarded([this] { to_rgba(); });
    const auto width = static_cast<std::size_t>(image.width);
    const auto height = static_cast<std::size_t>(image.height);
    std::vector<png_byte> rgba(width * height * 4);
    std::vector<png_bytep> rows(height);
    for (std::size_t y = 0; y < height; ++y) {
      rows[y] = rgba.data() + y * width * 4;
    }
    guarded([this, &rows] {
      png_read_image(png_, rows.data());
      png_read_end(png_, info_);
    });
    image.rgb = on_white(rgba);
    return image;
  }

  [[nodiscard]] std::map<std::string, std::string> texts() const {
    png_textp entries = nullptr;
    const int count = png_get_text(png_, info_, &entries, nullptr);
    std::map<std::string, std::string> result;
    for (int i = 0; i < count; ++i) {
      result.emplace(entries[i].key, entries[i].text == nullptr ? "" : entries[i].text);
    }
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw std::runtime_error(where_ + ": " + what); }

  template <typename Section>
  void guarded(const Section& section) {
    if (!errors_.protect(png_, section)) {
      fail("not a readable PNG: " + errors_.message());
    }
  }

  /// Four bytes a pixel, whatever the file has.
  void to_rgba() {
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_add_alpha(png_, 0xff, PNG_FILLER_AFTER);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != std::size_t{4} * png_get_image_width(png_, info_)) {
      png_error(png_, "a pixel format that is not known");
    }
  }

  static std::vector<std::uint8_t> on_white(const std::vector<png_byte>& rgba) {
    std::vector<std::uint8_t> rgb(rgba.size() / 4 * 3);
    for (std::size_t pixel = 0; pixel < rgba.size() / 4; ++pixel) {
      const unsigned alpha = rgba[4 * pixel + 3];
      for (std::size_t c = 0; c < 3; ++c) {
        rgb[3 * pixel + c] =
            static_cast<std::uint8_t>((rgba[4 * pixel + c] * alpha + 255 * (255 - alpha) + 127) / 255);
      }
    }
    return rgb;
  }

  static void on_read(png_structp png, png_bytep data, std::size_t length) {
    auto& left = *static_cast<std::string_view*>(png_get_io_ptr(png));
    if (length > left.size()) {
      png_error(png, "the file is cut short");
    }
    std::copy_n(left.begin(), length, data);
    left.remove_prefix(length);
  }

  std::string where_;
  std::string_view left_;
  PngErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  return value;
}

/// What is wrong with the chunks' lengths, or nothing. libpng makes room for what a chunk's header claims,
/// and of its own limit for that it only warns.
std::string fault_of_chunks(std::string_view bytes) {
  constexpr std::size_t around = 12;  // length, type and checksum
  constexpr const char* cut_short = "the file is cut short";
  while (!bytes.empty()) {
    if (bytes.size() < around) return cut_short;
    const std::uint32_t length = big_endian(bytes);
    const std::string_view type = bytes.substr(4, 4);
    if (length > bytes.size() - around) return cut_short;
    if (type != "IDAT" && length > kMostChunkBytes) {
      return "chunk " + std::string(type) + " has " + std::to_string(length) + " bytes: expected at most " +
             std::to_string(kMostChunkBytes);
    }
    if (type == "IEND") return "";
    bytes.remove_prefix(around + length);
  }
  return cut_short;
}

}  // namespace

PngFile parse_png(std::string_view bytes, const std::string& where) {
  constexpr std::size_t signature = 8;
  if (bytes.size() < signature ||
      png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, signature) != 0) {
    throw std::runtime_error(where + ": not a PNG file");
  }
  const std::string fault = fault_of_chunks(bytes.substr(signature));
  if (!fault.empty()) throw std::runtime_error(where + ": not a readable PNG: " + fault);
  Reader reader(where, bytes);
  PngFile file;
  file.image = reader.read_image();
  file.text = reader.texts();
  return file;
}

PngFile read_png(const std::filesystem::path& path) {
  return parse_png(read_text_file(path, kMostFileBytes), path.string());
}

}  // namespace dit
