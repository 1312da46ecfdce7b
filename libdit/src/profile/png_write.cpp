#include <algorithm>
#include <new>
#include <stdexcept>

#include "files/output_file.hpp"
#include "profile/check_image.hpp"
#include "profile/image.hpp"
#include "profile/png_error.hpp"

namespace dit {
namespace {

constexpr std::size_t kLongestKey = 79;

/// As the format has it: Latin-1 that can be printed, no spaces at the ends or in a row.
bool legal_key(const std::string& key) {
  const auto printable = [](unsigned char c) { return (c >= 32 && c <= 126) || c >= 161; };
  return !key.empty() && key.size() <= kLongestKey && key.front() != ' ' && key.back() != ' ' &&
         key.find("  ") == std::string::npos && std::all_of(key.begin(), key.end(), printable);
}

void check_text(const std::string& where, const std::map<std::string, std::string>& text) {
  for (const auto& [key, value] : text) {
    if (!legal_key(key)) {
      throw std::invalid_argument(
          where + ": text key '" + key +
          "': expected 1 to 79 printable Latin-1 characters, single spaces between words");
    }
    if (value.find('\0') != std::string::npos) {
      throw std::invalid_argument(where + ": text of key '" + key + "' has a zero byte");
    }
  }
}

/// libpng's structures for one file that grows in memory.
class Writer {
 public:
  explicit Writer(std::string where) : where_(std::move(where)) {
    png_ =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors_, PngErrors::on_error, PngErrors::on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_write_struct(&png_, nullptr);
      throw std::runtime_error(where_ + ": libpng has no memory");
    }
    png_set_write_fn(png_, &bytes_, on_write, on_flush);
  }
  ~Writer() { png_destroy_write_struct(&png_, &info_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  [[nodiscard]] const std::string& encode(const Image& image,
                                          const std::map<std::string, std::string>& text) {
    std::vector<png_text> entries = entries_of(text);
    const auto row_bytes = static_cast<std::size_t>(image.width) * 3;
    const bool written = errors_.protect(png_, [&] {
      png_set_IHDR(png_, info_, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
                   8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                   PNG_FILTER_TYPE_DEFAULT);
      if (!entries.empty()) {
        png_set_text(png_, info_, entries.data(), static_cast<int>(entries.size()));
      }
      png_write_info(png_, info_);
      for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
        png_write_row(png_, image.rgb.data() + y * row_bytes);
      }
      png_write_end(png_, nullptr);
    });
    if (!written) {
      throw std::runtime_error(where_ + ": cannot be written as PNG: " + errors_.message());
    }
    return bytes_;
  }

 private:
  /// Borrowed: libpng copies them, and does not change them although its types say so.
  static std::vector<png_text> entries_of(const std::map<std::string, std::string>& text) {
    std::vector<png_text> entries;
    for (const auto& [key, value] : text) {
      png_text entry{};
      entry.compression = PNG_TEXT_COMPRESSION_NONE;
      entry.key = const_cast<png_charp>(key.c_str());
      entry.text = const_cast<png_charp>(value.c_str());
      entry.text_length = value.size();
      entries.push_back(entry);
    }
    return entries;
  }

  static void on_write(png_structp png, png_bytep data, std::size_t length) {
    bool stored = true;
    try {
      static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(data), length);
    } catch (const std::bad_alloc&) {  // must not pass through libpng's frames
      stored = false;
    }
    if (!stored) {
      png_error(png, "out of memory");
    }
  }
  static void on_flush(png_structp /*png*/) {}

  std::string where_;
  std::string bytes_;
  PngErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

std::string encode_png(const std::string& where, const Image& image,
                       const std::map<std::string, std::string>& text) {
  check_image(image, "image of " + where);
  check_text(where, text);
  Writer writer(where);
  return writer.encode(image, text);
}

void write_png(const std::filesystem::path& path, const Image& image,
               const std::map<std::string, std::string>& text) {
  const std::string bytes = encode_png(path.string(), image, text);
  files::write_file(path, [&](std::ostream& file) { file << bytes; });
}

}  // namespace dit
