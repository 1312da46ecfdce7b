/// dit_prepare as the job that carries it out.
#pragma once

#include <cstddef>

#include "dit/dit.h"
#include "layout/layout.hpp"
#include "transfer/device/prepare.hpp"

namespace dit::c_interface {

/// A rank's tensor and what is done to it, without parts. `prepare`: null: it goes as it is. Throws
/// std::invalid_argument for what is wrong in it.
[[nodiscard]] PrepareJob job_of(const dit_prepare* prepare, const UlyssesLayout& layout,
                                AttentionTensor tensor, int rank, const SourceTensor& source,
                                std::size_t element_bytes);
/// A dit_element_type for numbers that go as they are: any of their size. Throws std::invalid_argument where
/// there is none.
[[nodiscard]] int element_type_of(std::size_t element_bytes);
/// All of the source into a dense tensor of its shape.
void add_dense_part(PrepareJob& job, std::byte* target);

}  // namespace dit::c_interface
