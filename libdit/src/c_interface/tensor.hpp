/// The caller's tensors, layouts and levels, checked.
#pragma once

#include <cstddef>

#include "dit/dit.h"
#include "layout/layout.hpp"

namespace dit::c_interface {

/// Throws std::invalid_argument that names the tensor, what is wrong with its memory or strides, and what was
/// expected.
[[nodiscard]] SourceTensor to_source(const char* name, const dit_tensor& tensor, const TensorShape& shape,
                                     std::size_t element_bytes);
[[nodiscard]] TargetTensor to_target(const char* name, const dit_tensor& tensor, const TensorShape& shape,
                                     std::size_t element_bytes);

void require_ranks(const UlyssesLayout& layout, int ranks);
void require_level(int level, int levels);

}  // namespace dit::c_interface
