#include "traffic.hpp"

#include "c_interface/handles.hpp"

namespace dit::operators {

std::array<LevelBytes, kTransfers> bytes_of_exact(const Group& group, const Transfers& transfers,
                                                  std::size_t element_bytes) {
  const UlyssesLayout& layout = transfers.layout()->layout;
  const int rank = group.rank();
  std::array<LevelBytes, kTransfers> bytes{};
  for (int what = 0; what < kTransfers; ++what) {
    const ExchangeLayout exchange = layout.exchange(static_cast<AttentionTensor>(what), rank);
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == rank) continue;
      const auto level = static_cast<std::size_t>(group.context().level_of(peer));
      bytes[static_cast<std::size_t>(what)].at(level) +=
          static_cast<std::uint64_t>(exchange.send[static_cast<std::size_t>(peer)].elements()) *
          element_bytes;
    }
  }
  return bytes;
}

}  // namespace dit::operators
