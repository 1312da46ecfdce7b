/// Copies between tensors and exchange buffers, on raw host memory. Buffers hold the blocks of all peers one
/// after the other, in rank order, rows in the order of the layout. Blocks are of a dense tensor
/// (layout.hpp); where the tensor itself is not, its shape and strides say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dit/exchange.h"
#include "layout/layout.hpp"
#include "wire/row_copy.hpp"

namespace dit {

/// Byte ranges of the peers' blocks in a buffer that holds them one after the other.
[[nodiscard]] std::vector<dit_block> packed_blocks(std::span<const PeerBlock> peers,
                                                   std::size_t element_bytes);
/// Bytes of all blocks together.
[[nodiscard]] std::size_t packed_bytes(std::span<const PeerBlock> peers, std::size_t element_bytes);

/// Throws std::length_error that names peer and run when one leaves a tensor of so many bytes.
void require_in_tensor(std::span<const PeerBlock> peers, std::size_t element_bytes, std::size_t tensor_bytes);
/// Likewise, and the tensor its memory; std::invalid_argument for strides below 0.
void require_in_tensor(std::span<const PeerBlock> peers, std::size_t element_bytes,
                       const SourceTensor& tensor);

/// Tensor -> buffer. Sizes are checked: throws std::length_error when a run leaves the tensor, the tensor its
/// memory, or the buffer is short; std::invalid_argument for strides below 0, and for blocks that are not of
/// whole heads of a tensor with strides.
void pack(std::span<const PeerBlock> peers, std::size_t element_bytes, const SourceTensor& tensor,
          std::span<std::byte> buffer);
/// Buffer -> tensor.
void unpack(std::span<const PeerBlock> peers, std::size_t element_bytes, std::span<const std::byte> buffer,
            const TargetTensor& tensor);

/// What pack and unpack copy, checked as they check it; the memory itself is not touched.
[[nodiscard]] std::vector<RowCopy> row_copies(std::span<const PeerBlock> peers, std::size_t element_bytes,
                                              const SourceTensor& tensor, std::size_t buffer_bytes);

/// A block of one tensor right into another, where it lies as `to`: the source is the copies' buffer. Checked
/// likewise; throws std::length_error, too, where the two have other rows.
[[nodiscard]] std::vector<RowCopy> row_copies(const PeerBlock& from, const SourceTensor& source,
                                              const PeerBlock& to, const TargetTensor& target,
                                              std::size_t element_bytes);

/// The blocks as they lie in the tensor itself, when each is one contiguous piece, so that an exchange can
/// write there (or read from there) without a copy; empty otherwise.
[[nodiscard]] std::vector<dit_block> blocks_in_place(std::span<const PeerBlock> peers,
                                                     std::size_t element_bytes);

}  // namespace dit
