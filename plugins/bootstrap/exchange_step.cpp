#include "bootstrap/exchange_step.hpp"

#include <algorithm>
#include <cstring>

#include "bootstrap/gathered_exchange.hpp"

namespace dit {

ExchangeStep::ExchangeStep(const dit_exchange_call& call, const ContextPlace& place)
    : Step(StepKind::exchange, call.channel, call_name(call.label)),
      packed_(call.selection == nullptr ? nullptr : std::make_unique<PackedCall>(call, place)),
      rank_(static_cast<std::size_t>(place.rank)),
      send_(packed_ ? packed_->packed_send().data() : static_cast<const std::byte*>(call.send)),
      recv_(packed_ ? packed_->packed_recv().data() : static_cast<std::byte*>(call.recv)) {
  if (!packed_) {
    own_send_ = call.send_blocks[rank_];
    own_recv_ = call.recv_blocks[rank_];
  }
  add(to_, packed_ ? packed_->send_blocks() : std::span(call.send_blocks, place.size()));
  add(from_, packed_ ? packed_->recv_blocks() : std::span(call.recv_blocks, place.size()));
  for (const Side* side : {&to_, &from_})
    blocks_.insert(blocks_.end(), side->bytes.begin(), side->bytes.end());
}

void ExchangeStep::add(Side& side, std::span<const dit_block> of) const {
  for (std::size_t peer = 0; peer < of.size(); ++peer) {
    const bool travels = peer != rank_ && of[peer].bytes > 0;
    side.bytes.push_back(travels ? of[peer].bytes : 0);
    side.offsets.push_back(travels ? of[peer].offset : 0);
  }
}

void ExchangeStep::copy_own() const {
  if (packed_)
    packed_->unpack();  // what came from others, too
  else if (own_send_.bytes > 0)
    std::memcpy(recv_ + own_recv_.offset, send_ + own_send_.offset, own_send_.bytes);
}

void ExchangeStep::run(CallerFunctions& functions, std::span<const std::uint64_t> blocks) {
  const bool travels =
      std::any_of(blocks.begin(), blocks.end(), [](std::uint64_t bytes) { return bytes > 0; });
  if (travels && functions.has_alltoallv())
    functions.alltoallv(send_, to_.view(), recv_, from_.view());
  else if (travels)
    exchange_by_gathering(functions, send_, to_.view(), recv_, from_.view(), blocks);
  copy_own();
}

}  // namespace dit
