/// Norm and rotary position embedding on the way, as operators are given them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "attention.hpp"
#include "transfers.hpp"

namespace dit::operators {

using MaybeTensor = c10::optional<at::Tensor>;

/// Arguments of an operator.
struct Preparation {
  MaybeTensor weight, text_weight, cosine, sine;
  double epsilon = 0;
  std::int64_t norm = DIT_NORM_NONE;
  std::int64_t rope = DIT_ROPE_NONE;
  bool round_norm = false;
};

/// As dit.h has it, whose pointers are the tensors'; nothing when there is nothing to do. Throws
/// std::invalid_argument that names what is wrong. `source`: shape of the tensor that is prepared.
[[nodiscard]] std::optional<dit_prepare> to_prepare(const Preparation& given, const Attention& attention,
                                                    int what, const Sizes& source);

}  // namespace dit::operators
