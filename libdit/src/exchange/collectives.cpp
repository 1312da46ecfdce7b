// Small collective operations, each made of exchanges.
#include <cstdint>
#include <cstring>
#include <numeric>

#include "exchange/exchange.hpp"

namespace dit {
namespace {

// Every rank's `own` to every rank; counts are known to all. The buffers live as long as a late rank uses
// them.
std::vector<std::byte> gather_blocks(ExchangeContext& context, std::span<const std::byte> own,
                                     std::span<const std::size_t> counts, const char* label,
                                     int channel = 0) {
  struct Buffers {
    std::vector<std::byte> own, all;
  };
  const auto buffers = std::make_shared<Buffers>();
  buffers->own.assign(own.begin(), own.end());
  buffers->all.resize(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  std::vector<dit_block> send(counts.size(), dit_block{0, own.size()});
  std::vector<dit_block> recv;
  std::size_t offset = 0;
  for (const std::size_t bytes : counts) {
    recv.push_back({offset, bytes});
    offset += bytes;
  }
  dit_exchange_call call{};
  call.send = buffers->own.data();
  call.recv = buffers->all.data();
  call.send_blocks = send.data();
  call.recv_blocks = recv.data();
  call.label = label;
  call.channel = channel;
  context.exchange(call, buffers);
  return std::move(buffers->all);
}

}  // namespace

void ExchangeContext::barrier() {
  const std::byte own{0};
  static_cast<void>(all_gather({&own, 1}));
}

std::vector<std::byte> ExchangeContext::all_gather(std::span<const std::byte> own, int channel) {
  const std::vector<std::size_t> counts(static_cast<std::size_t>(size()), own.size());
  return gather_blocks(*this, own, counts, "all_gather", channel);
}

std::string ExchangeContext::agree_on_error(std::string_view own) {
  const std::uint64_t length = own.size();
  const std::vector<std::byte> gathered = all_gather(std::as_bytes(std::span(&length, 1)));
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size()));
  std::memcpy(lengths.data(), gathered.data(), gathered.size());

  std::size_t first = 0, failed = 0;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    if (lengths[rank] == 0) continue;
    if (failed++ == 0) first = rank;
  }
  if (failed == 0) return {};
  if (lengths.size() == 1) return std::string(own);

  // Only the first message goes to everybody.
  std::vector<std::size_t> counts(lengths.size(), 0);
  counts[first] = lengths[first];
  const std::string_view sent = static_cast<std::size_t>(rank()) == first ? own : std::string_view();
  const std::vector<std::byte> message =
      gather_blocks(*this, std::as_bytes(std::span(sent)), counts, "agree_on_error");
  std::string words = "rank " + std::to_string(first) + ": " +
                      std::string(reinterpret_cast<const char*>(message.data()), message.size());
  if (failed > 1)
    words +=
        " (" + std::to_string(failed - 1) + (failed == 2 ? " other rank" : " other ranks") + " failed too)";
  return words;
}

}  // namespace dit
