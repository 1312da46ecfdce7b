/// dit_torch_attention, checked and kept.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <string>

#include "dit_torch.h"

namespace dit::operators {

struct Attention {
  /// Throws std::invalid_argument that names the member.
  explicit Attention(const dit_torch_attention& given);

  dit_attention_shape shape;
  int element_type;
  int memory_kind;
  int device;
  int slots;
  bool side_stream;
  std::string policy;  ///< "exact" when nothing else was said
  std::string off;
  int layers, steps, branches;

  [[nodiscard]] bool on_device() const { return memory_kind != DIT_MEMORY_HOST; }
  [[nodiscard]] bool exact() const { return policy == "exact"; }
  [[nodiscard]] std::size_t element_bytes() const { return element_type == DIT_ELEMENT_FP32 ? 4 : 2; }
  [[nodiscard]] c10::ScalarType dtype() const;
  [[nodiscard]] c10::Device torch_device() const;
};

class Group;
/// Collective; throws on all ranks when it is wrong on one.
[[nodiscard]] Attention agreed_attention(const Group& group, const dit_torch_attention& given);

}  // namespace dit::operators
