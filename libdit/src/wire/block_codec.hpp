/// One block's bytes in any mode, and what both ends remember of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wire/wire_mode.hpp"

namespace dit {

/// What one end remembers of a block. The two ends' are equal, bit for bit, after every step.
struct BlockMemory {
  WireReference reference;
  std::span<std::uint16_t> ages;  ///< of each row: steps since it last travelled; empty: nobody asks
  int most_age = 0;               ///< rows of this age travel before all others; 0: any age will do
};

/// Bits of a number in a mode, in long blocks; of rows without their mask.
[[nodiscard]] double bits_of(const WireMode& mode, WireElement element);

/// The format in which a mode's numbers travel: that of the mode, but for fp16's that need not be shortened.
[[nodiscard]] WireFormat coded_format(const WireMode& mode, WireElement element);

class BlockCodec {
 public:
  /// `samples`: as many make the rows of a block, each as many of them; V-Major leaves its share of each.
  BlockCodec(const WireMode& mode, WireElement element, std::int64_t samples = 1,
             const CodecKernels& kernels = fastest_codec_kernels());

  /// Rows of the block that travel.
  [[nodiscard]] std::int64_t travelling_rows(std::int64_t rows) const;
  [[nodiscard]] std::size_t encoded_bytes(std::int64_t rows, std::int64_t row_elements) const;

  /// What is late is coded as the rest: which step uses it is the caller's. `memory` null: a mode that
  /// remembers nothing at this end. `active`: of V-Major, the rows that travel, ascending. Sizes as
  /// of Codec.
  /// Both throw std::invalid_argument for rows that are not as many as must travel.
  void encode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
              BlockMemory* memory, std::span<std::byte> out,
              std::span<const std::uint32_t> active = {}) const;
  void decode(std::int64_t rows, std::int64_t row_elements, std::span<const std::byte> in,
              BlockMemory* memory, std::span<std::byte> out) const;

 private:
  void require_memory(const BlockMemory* memory, WireEnd end) const;
  [[nodiscard]] std::vector<std::uint32_t> choose(std::int64_t rows, std::size_t row,
                                                  std::span<const std::byte> in,
                                                  const BlockMemory& memory) const;
  [[nodiscard]] std::vector<std::uint32_t> mask_rows(std::int64_t rows, std::span<const std::byte> in) const;
  void require_count(const char* what, std::size_t active, std::int64_t rows) const;
  void encode_rows(std::span<const std::uint32_t> active, std::size_t row, std::span<const std::byte> in,
                   BlockMemory* memory, std::span<std::byte> out) const;
  void decode_rows(std::span<const std::uint32_t> active, std::size_t row, std::span<const std::byte> in,
                   BlockMemory& memory, std::span<std::byte> out) const;

  WireMode mode_;
  WireElement element_;
  std::int64_t samples_;
  const CodecKernels* kernels_;
  Codec codec_;
};

}  // namespace dit
