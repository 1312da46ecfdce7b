#include "run/memory_run.hpp"

#include "run/private_comm.hpp"

namespace tapa {

bool MemoryRun::is_dense(const Arguments& a) {
  return DenseBlocks::suit(a, a.send) && DenseBlocks::suit(a, a.recv);
}

void MemoryRun::begin(ShmBuffers& buffers, const Arguments& arguments, int ranks, Compare compare) {
  const auto members = static_cast<std::size_t>(ranks);
  if (send_.describe(arguments, arguments.send, buffers.self(), members) &&
      recv_.describe(arguments, arguments.recv, buffers.self(), members)) {
    exchange_.begin(buffers, send_.side(), recv_.side(), nullptr, false, compare, true);
    return;
  }
  normalise(arguments, ranks, normal_);
  static_cast<void>(describe(normal_));
  begin_described(buffers, false, false, compare, !normal_.uniform);
}

ShmBlocks& MemoryRun::describe(const Exchange& exchange) {
  blocks_.describe(exchange, alone_comm());
  return blocks_;
}

void MemoryRun::begin_described(ShmBuffers& buffers, bool overlap, bool overwrites, Compare compare,
                                bool known) {
  exchange_.begin(buffers, blocks_.send, blocks_.recv, &blocks_, overlap, compare, known);
  exchange_.take_rooms(overwrites);
}

}  // namespace tapa
