// Blocks with strides: heads of one tensor go to different ranks, out of a fused product, with a batch.
#include <cstdint>
#include <limits>

#include "checks.hpp"
#include "known_exchange.hpp"
#include "refusal.hpp"

namespace dit::conformance {
namespace {

// Tensors [batch][tokens][all ranks' columns]: a rank sends each peer its columns, and gets its own columns
// of each peer's tokens. Ranks have different numbers of tokens.
constexpr std::size_t batch = 2;

std::size_t tokens_of(int rank) {
  return 3 + static_cast<std::size_t>(rank);
}

std::uint32_t value(int sender, std::size_t plane, std::size_t token, int column) {
  return static_cast<std::uint32_t>(
      mix(static_cast<std::uint64_t>(sender), plane, token, static_cast<std::uint64_t>(column)));
}

struct Tensors {
  explicit Tensors(const ExchangeContext& context) : rank(context.rank()), size(context.size()) {
    const auto ranks = static_cast<std::size_t>(size);
    const std::size_t column = sizeof(std::uint32_t), own_tokens = tokens_of(rank);
    for (std::size_t plane = 0; plane < batch; ++plane)
      for (std::size_t token = 0; token < own_tokens; ++token)
        for (int peer = 0; peer < size; ++peer) sent.push_back(value(rank, plane, token, peer));
    std::size_t all_tokens = 0;
    for (int peer = 0; peer < size; ++peer) all_tokens += tokens_of(peer);
    received.assign(batch * all_tokens * 2, untouched);  // every second column is a gap
    std::size_t before = 0;
    for (int peer = 0; peer < size; ++peer) {
      send.push_back({static_cast<std::size_t>(peer) * column, column, own_tokens, ranks * column, batch,
                      own_tokens * ranks * column});
      recv.push_back(
          {before * 2 * column, column, tokens_of(peer), 2 * column, batch, all_tokens * 2 * column});
      before += tokens_of(peer);
    }
    call.send = sent.data();
    call.recv = received.data();
    call.send_strided = send.data();
    call.recv_strided = recv.data();
    call.label = "strided";
    call.struct_size = sizeof(call);
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  [[nodiscard]] bool right() const {
    auto at = received.begin();
    for (std::size_t plane = 0; plane < batch; ++plane)
      for (int peer = 0; peer < size; ++peer)
        for (std::size_t token = 0; token < tokens_of(peer); ++token) {
          if (*at++ != value(peer, plane, token, rank) || *at++ != untouched) return false;
        }
    return true;
  }

  static constexpr std::uint32_t untouched = 0xa5a5a5a5;
  int rank, size;
  std::vector<std::uint32_t> sent, received;
  std::vector<dit_strided_block> send, recv;
  dit_exchange_call call{};
};

void columns(ExchangeContext& context, Findings& findings) {
  if (!context.takes_strided()) return findings.note("not supported");
  Tensors tensors(context);
  ExchangeRequest request = context.start(tensors.call);
  tensors.send.assign(tensors.send.size(), {});  // start has copied it
  request.wait();
  findings.expect(tensors.right(), "wrong values, or values outside of the blocks");
}

// What lies together on one side and apart on the other.
void to_packed(ExchangeContext& context, Findings& findings) {
  if (!context.takes_strided()) return findings.note("not supported");
  Tensors tensors(context);
  std::vector<std::uint32_t> packed(tensors.received.size() / 2);
  std::vector<dit_block> blocks;
  std::size_t before = 0;
  for (int peer = 0; peer < tensors.size; ++peer) {
    blocks.push_back({before, batch * tokens_of(peer) * sizeof(std::uint32_t)});
    before += blocks.back().bytes;
  }
  tensors.call.recv = packed.data();
  tensors.call.recv_strided = nullptr;
  tensors.call.recv_blocks = blocks.data();
  context.exchange(tensors.call);
  auto at = packed.begin();
  bool right = true;
  for (int peer = 0; peer < tensors.size; ++peer)
    for (std::size_t plane = 0; plane < batch; ++plane)
      for (std::size_t token = 0; token < tokens_of(peer); ++token)
        right = *at++ == value(peer, plane, token, tensors.rank) && right;
  findings.expect(right, "wrong values");
}

// Refused, with words that say what for: as wrong, or by plugins without strides as something they cannot do.
void wrong(ExchangeContext& context, Findings& findings) {
  const dit_exchange_plugin& table = context.plugin().table();
  const bool supported = context.takes_strided();
  const auto refused = [&](const char* what, const char* argument, const auto& spoil) {
    Tensors tensors(context);
    spoil(tensors);
    dit_request* request = nullptr;
    const dit_status status = table.start(context.handle(), &tensors.call, &request);
    if (status == DIT_OK) {
      table.wait(context.handle(), &request);
      throw ExchangeError(DIT_ERROR_COMMUNICATION, std::string(what) + ": the exchange was started");
    }
    if (supported)
      expect_refusal(context, findings, what, status, argument);
    else
      findings.expect(status == DIT_ERROR_UNSUPPORTED || status == DIT_ERROR_ARGUMENT,
                      std::string(what) + ": status " + std::to_string(status));
  };
  // Plugins that were built before do not know these fields.
  if (table.struct_size <= offsetof(dit_exchange_plugin, capabilities)) return findings.note("not supported");
  refused("a row_stride of less than a row", "row_stride", [](Tensors& t) { t.send[0].row_stride = 1; });
  refused("a plane_stride of less than a row", "plane_stride",
          [](Tensors& t) { t.recv[0].plane_stride = 1; });
  refused("strides past the end of memory", "end of memory",
          [](Tensors& t) { t.send[0].row_stride = std::numeric_limits<std::size_t>::max() / 2; });
  refused("no buffer", "call.recv is null", [](Tensors& t) { t.call.recv = nullptr; });
  refused("another size for oneself", "recv_strided",
          [](Tensors& t) { ++t.recv[static_cast<std::size_t>(t.rank)].rows; });
}

}  // namespace

std::vector<Check> strided_checks() {
  return {{"strides: columns of a tensor", columns},
          {"strides: to blocks that lie together", to_packed},
          {"strides: wrong ones", wrong}};
}

}  // namespace dit::conformance
