/// Blocks as MPI wants them: an array of counts and one of displacements, of the types that a call takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "common/mpi_error.hpp"
#include "dit/exchange.h"

namespace dit {

template <class Count, class Displacement>
struct BlockArrays {
  std::vector<Count> counts;
  std::vector<Displacement> displacements;
  std::size_t first = 0;  ///< displacements count from this byte of the buffer

  /// `name` of the blocks for the error when something is too large for the types.
  BlockArrays(std::span<const dit_block> blocks, const char* name) {
    first = std::numeric_limits<std::size_t>::max();
    for (const dit_block& block : blocks)
      if (block.bytes > 0) first = std::min(first, block.offset);
    for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
      const dit_block& block = blocks[peer];
      const std::size_t offset = block.bytes > 0 ? block.offset - first : 0;
      const auto most = static_cast<std::size_t>(
          std::min<long long>(std::numeric_limits<Count>::max(), std::numeric_limits<Displacement>::max()));
      if (block.bytes > most || offset > most)
        throw PluginFailure(DIT_ERROR_UNSUPPORTED,
                            "call." + std::string(name) + "[" + std::to_string(peer) + "] has " +
                                std::to_string(block.bytes) + " bytes, " + std::to_string(offset) +
                                " bytes after the first block, expected at most " + std::to_string(most) +
                                " of each with this MPI; the exchange tapa takes more");
      counts.push_back(static_cast<Count>(block.bytes));
      displacements.push_back(static_cast<Displacement>(offset));
    }
    if (first == std::numeric_limits<std::size_t>::max()) first = 0;
  }

  template <class Byte>
  [[nodiscard]] Byte* base(Byte* buffer) const {
    return buffer == nullptr ? nullptr : buffer + first;
  }
};

}  // namespace dit
