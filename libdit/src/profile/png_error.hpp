/// libpng's errors without leaks. libpng leaves by longjmp, which skips destructors: so a protected section
/// is a plain function object that creates nothing which needs one, and what it fills lies outside.
#pragma once

#include <png.h>

#include <array>
#include <csetjmp>
#include <string>
#include <type_traits>

namespace dit {

/// Where libpng's error callback leaves its words; one per libpng structure.
class PngErrors {
 public:
  /// Runs `section`; false after an error of libpng, whose words message() has then.
  template <typename Section>
  bool protect(png_structp png, const Section& section) {
    static_assert(std::is_trivially_destructible_v<Section>);
    if (setjmp(png_jmpbuf(png)) != 0) {
      return false;
    }
    section();
    return true;
  }
  [[nodiscard]] std::string message() const { return words_.data(); }

  /// Callbacks for png_create_*_struct, with a PngErrors as error pointer.
  static void on_error(png_structp png, png_const_charp words);
  static void on_warning(png_structp /*png*/, png_const_charp /*words*/) {}

 private:
  std::array<char, 200> words_{};
};

}  // namespace dit
