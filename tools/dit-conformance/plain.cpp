// Exchanges in which everything travels.
#include <algorithm>
#include <array>
#include <memory>
#include <thread>

#include "checks.hpp"
#include "known_exchange.hpp"

namespace dit::conformance {
namespace {

using Rows = std::function<std::size_t(int, int)>;

std::uint64_t pair_of(int sender, int receiver) {
  return mix(static_cast<std::uint64_t>(sender), static_cast<std::uint64_t>(receiver));
}

Check shape_check(const std::string& name, const Rows& rows) {
  return {"plain: " + name, [rows](ExchangeContext& context, Findings& findings) {
            findings.problem(exchange_problem(context, {rows}, 1));
            findings.problem(exchange_problem(context, {rows}, 2));
          }};
}

// A ring knows the number of ranks.
void ring(ExchangeContext& context, Findings& findings) {
  const int size = context.size();
  const auto rows = [size](int sender, int receiver) -> std::size_t {
    return receiver == (sender + 1) % size ? 77 : 0;
  };
  findings.problem(exchange_problem(context, {rows}, 3));
}

// 1 MiB for the next two ranks, 64 KiB for the others: a rank's buffers stay small.
void big(ExchangeContext& context, Findings& findings) {
  const int size = context.size();
  const auto rows = [size](int sender, int receiver) {
    const int distance = (receiver - sender + size) % size;
    return std::size_t{1} << (distance == 1 || distance == 2 || size == 1 ? 20 : 16);
  };
  findings.problem(exchange_problem(context, {rows}, 4));
}

void null_buffers(ExchangeContext& context, Findings& findings) {
  KnownExchange exchange(context, {[](int, int) { return std::size_t{0}; }}, 0);
  exchange.call().send = nullptr;
  exchange.call().recv = nullptr;
  exchange.call().label = nullptr;
  context.start(exchange.call()).wait();
  findings.problem(exchange.problem());
}

void one_block_to_all(ExchangeContext& context, Findings& findings) {
  const std::array<std::byte, 2> own{std::byte{7}, static_cast<std::byte>(context.rank())};
  const std::vector<std::byte> all = context.all_gather(own);
  for (std::size_t rank = 0; rank < all.size() / 2; ++rank)
    findings.expect(all[2 * rank] == std::byte{7} && all[2 * rank + 1] == static_cast<std::byte>(rank),
                    "the bytes of rank " + std::to_string(rank) + " did not arrive");
}

void random_shapes(ExchangeContext& context, Findings& findings) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto rows = [seed](int sender, int receiver) -> std::size_t {
      const std::uint64_t bits = mix(seed, pair_of(sender, receiver));
      return bits % 3 == 0 ? 0 : (bits >> 8) % (std::uint64_t{1} << (seed % 14));
    };
    findings.problem(exchange_problem(context, {rows}, seed));
  }
}

void many_in_turn(ExchangeContext& context, Findings& findings) {
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    findings.problem(exchange_problem(context, {[](int, int) { return std::size_t{5}; }}, seed));
}

// Starts exchanges of different sizes, and finishes them by the given function.
void several_at_once(ExchangeContext& context, Findings& findings, bool last_first, bool by_test) {
  std::vector<std::unique_ptr<KnownExchange>> exchanges;
  std::vector<ExchangeRequest> requests;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto rows = [i](int sender, int receiver) {
      return static_cast<std::size_t>(mix(i, pair_of(sender, receiver)) % 3000);
    };
    exchanges.push_back(std::make_unique<KnownExchange>(context, Shape{rows}, i));
    requests.push_back(context.start(exchanges.back()->call()));
  }
  if (last_first) std::ranges::reverse(requests);
  for (ExchangeRequest& request : requests) {
    while (by_test && !request.test()) std::this_thread::yield();
    request.wait();
    findings.expect(!request.active(), "a request is still there after wait");
  }
  for (const auto& exchange : exchanges) findings.problem(exchange->problem());
}

void blocking_flag(ExchangeContext& context, Findings& findings) {
  KnownExchange exchange(context, {[](int, int) { return std::size_t{1000}; }}, 11);
  exchange.call().flags = DIT_EXCHANGE_BLOCKING;
  ExchangeRequest request = context.start(exchange.call());
  findings.expect(!request.active(), "start of a blocking exchange gave a request");
  findings.problem(exchange.problem());
}

// Arrays of a call belong to the caller again when start returns.
void arrays_are_copied(ExchangeContext& context, Findings& findings) {
  KnownExchange exchange(context, {[](int, int) { return std::size_t{64}; }}, 12);
  const auto size = static_cast<std::size_t>(context.size());
  std::vector<dit_block> send(exchange.call().send_blocks, exchange.call().send_blocks + size);
  std::vector<dit_block> recv(exchange.call().recv_blocks, exchange.call().recv_blocks + size);
  dit_exchange_call call = exchange.call();
  call.send_blocks = send.data();
  call.recv_blocks = recv.data();
  std::string label = "a label";
  call.label = label.c_str();
  ExchangeRequest request = context.start(call);
  std::ranges::fill(send, dit_block{std::size_t{1} << 60, 1});
  std::ranges::fill(recv, dit_block{std::size_t{1} << 60, 1});
  label.assign(label.size(), 'x');
  request.wait();
  findings.problem(exchange.problem());
}

// New ids and known ones, several at once, beside exchanges without; id 1 is new in a blocking exchange.
void layout_ids(ExchangeContext& context, Findings& findings) {
  std::vector<std::unique_ptr<KnownExchange>> exchanges;
  std::vector<ExchangeRequest> requests;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::uint64_t id = i % 5;
    const auto rows = [id](int sender, int receiver) {
      return static_cast<std::size_t>(mix(id, pair_of(sender, receiver)) % 2000);
    };
    exchanges.push_back(std::make_unique<KnownExchange>(context, Shape{rows}, i));
    exchanges.back()->call().layout_id = id;
    if (i % 5 == 1) exchanges.back()->call().flags = DIT_EXCHANGE_BLOCKING;
    requests.push_back(context.start(exchanges.back()->call()));
  }
  for (ExchangeRequest& request : requests) request.wait();
  for (const auto& exchange : exchanges) findings.problem(exchange->problem());
}

}  // namespace

std::vector<Check> plain_checks() {
  return {
      shape_check("a byte for everybody", [](int, int) { return 1; }),
      shape_check("uneven blocks", [](int sender, int receiver) { return pair_of(sender, receiver) % 777; }),
      shape_check("nothing at all", [](int, int) { return 0; }),
      shape_check("only oneself", [](int sender, int receiver) { return sender == receiver ? 333 : 0; }),
      shape_check("one rank to all", [](int sender, int) { return sender == 0 ? 500 : 0; }),
      shape_check("all to one rank", [](int, int receiver) { return receiver == 0 ? 500 : 0; }),
      {"plain: to the next rank only", ring},
      {"plain: big blocks", big},
      {"plain: null buffers where nothing travels", null_buffers},
      {"plain: one block to all", one_block_to_all},
      {"plain: 20 random shapes", random_shapes},
      {"plain: 200 exchanges in turn", many_in_turn},
      {"plain: 8 at once, waited for in order",
       [](ExchangeContext& c, Findings& f) { several_at_once(c, f, false, false); }},
      {"plain: 8 at once, waited for last first",
       [](ExchangeContext& c, Findings& f) { several_at_once(c, f, true, false); }},
      {"plain: 8 at once, by test",
       [](ExchangeContext& c, Findings& f) { several_at_once(c, f, false, true); }},
      {"plain: 8 at once, by test, last first",
       [](ExchangeContext& c, Findings& f) { several_at_once(c, f, true, true); }},
      {"plain: layout ids", layout_ids},
      {"plain: blocking flag", blocking_flag},
      {"plain: arrays are copied by start", arrays_are_copied}};
}

}  // namespace dit::conformance
