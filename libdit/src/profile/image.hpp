/// Pictures: 8-bit RGB in memory, PNG by libpng, colours for fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dit {

/// Rows of RGB pixels.
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> rgb;  ///< height * width * 3
  bool operator==(const Image&) const = default;
};

/// Writes atomically; `text` becomes tEXt chunks (keys of 1-79 Latin-1 characters).
void write_png(const std::filesystem::path& path, const Image& image,
               const std::map<std::string, std::string>& text = {});
/// The bytes of such a file; errors name it as `where`.
[[nodiscard]] std::string encode_png(const std::string& where, const Image& image,
                                     const std::map<std::string, std::string>& text);
struct PngFile {
  Image image;
  std::map<std::string, std::string> text;
};
/// Any PNG is brought to 8-bit RGB. At most 16384 pixels a side. Errors name the file and what is wrong with
/// it.
[[nodiscard]] PngFile read_png(const std::filesystem::path& path);
/// The same from a file's bytes; errors name it as `where`.
[[nodiscard]] PngFile parse_png(std::string_view bytes, const std::string& where);

/// A field [height, width] in a perceptually even colour map (viridis), `low` and below darkest, `high`
/// brightest.
[[nodiscard]] Image colour_map(std::span<const float> field, std::int64_t height, std::int64_t width,
                               float low, float high);
/// Pictures side by side in rows of `columns`, with a gap of white pixels.
[[nodiscard]] Image grid(const std::vector<Image>& images, std::int64_t columns, std::int64_t gap = 4);
/// |a - b| times `gain`, per channel.
[[nodiscard]] Image difference(const Image& a, const Image& b, double gain);

}  // namespace dit
