/// @file
/// Text of a limited length, in place. Every process that inherits LD_PRELOAD loads the drop-in, and pays for
/// what it brings: so it uses nothing that the C++ library has to be linked for, as std::string, exceptions,
/// and statics that have to be guarded.
#pragma once

#include <limits.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>

namespace tapa::preload {

/// What does not fit is cut off.
template <std::size_t Capacity>
class Text {
 public:
  constexpr Text() = default;
  constexpr Text(std::string_view text) { *this += text; }
  constexpr Text(const char* text) : Text(std::string_view(text)) {}

  constexpr Text& operator+=(std::string_view more) {
    const auto fits = std::min(more.size(), Capacity - length_);
    std::copy_n(more.data(), fits, characters_.data() + length_);
    length_ += fits;
    characters_[length_] = '\0';
    return *this;
  }
  Text& operator+=(int number) {
    std::array<char, 12> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return *this += std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data()));
  }
  /// Appends all of them.
  template <class... Parts>
  constexpr Text& add(const Parts&... parts) {
    return (*this += ... += parts);
  }

  [[nodiscard]] constexpr bool empty() const { return length_ == 0; }
  [[nodiscard]] constexpr const char* c_str() const { return characters_.data(); }
  constexpr operator std::string_view() const { return {characters_.data(), length_}; }

 private:
  std::array<char, Capacity + 1> characters_{};
  std::size_t length_ = 0;
};

using Line = Text<1023>;  ///< a message
using Path = Text<PATH_MAX>;

}  // namespace tapa::preload
