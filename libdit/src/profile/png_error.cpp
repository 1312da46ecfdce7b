#include "profile/png_error.hpp"

#include <cstdio>

namespace dit {

void PngErrors::on_error(png_structp png, png_const_charp words) {
  auto* const self = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::snprintf(self->words_.data(), self->words_.size(), "%s", words);
  png_longjmp(png, 1);
}

}  // namespace dit
