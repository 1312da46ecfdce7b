// Channels keep exchanges apart; exchanges that are given up use their buffers until they are done.
#include <algorithm>
#include <array>
#include <memory>
#include <thread>

#include "checks.hpp"
#include "exchange/struct_sizes.hpp"
#include "known_exchange.hpp"

namespace dit::conformance {
namespace {

using Known = std::unique_ptr<KnownExchange>;

std::size_t rows_of(std::uint64_t seed, int sender, int receiver) {
  return static_cast<std::size_t>(
      mix(seed, static_cast<std::uint64_t>(sender), static_cast<std::uint64_t>(receiver)) % 2000);
}

Known known_exchange(ExchangeContext& context, std::uint64_t seed, int channel) {
  auto known = std::make_unique<KnownExchange>(
      context, Shape{[seed](int sender, int receiver) { return rows_of(seed, sender, receiver); }}, seed);
  known->call().channel = channel;
  return known;
}

// Each rank begins with another channel.
void own_orders(ExchangeContext& context, Findings& findings) {
  constexpr std::size_t count = 3;
  std::array<int, count> channels{};
  for (std::size_t i = 1; i < count; ++i) channels[i] = context.open_channel();
  if (channels[1] == 0) return findings.note("not supported");
  for (std::size_t i = 1; i < count; ++i)
    findings.expect(channels[i] > channels[i - 1], "open_channel gave a number twice");
  for (std::uint64_t round = 0; round < 6; ++round) {
    std::array<Known, count> exchanges;
    std::array<ExchangeRequest, count> requests;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (i + round + static_cast<std::size_t>(context.rank())) % count;
      exchanges[at] = known_exchange(context, 10 * round + at, channels[at]);
      if (round % 2 == 1) exchanges[at]->call().layout_id = 10 * round + at;
      requests[at] = context.start(exchanges[at]->call());
    }
    for (ExchangeRequest& request : requests) request.wait();
    for (const Known& exchange : exchanges) findings.problem(exchange->problem());
  }
}

// A channel's exchange goes on while another channel's has not been started everywhere.
void nobody_waits_for_another_channel(ExchangeContext& context, Findings& findings) {
  const int channel = context.open_channel();
  if (channel == 0) return findings.note("not supported");
  const Known held = known_exchange(context, 1, channel);
  ExchangeRequest request;
  if (context.rank() == 0) request = context.start(held->call());
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Known other = known_exchange(context, 2 + i, 0);
    context.start(other->call()).wait();
    findings.problem(other->problem());
  }
  if (context.rank() != 0) request = context.start(held->call());
  request.wait();
  findings.problem(held->problem());
}

// Starts an exchange, gives it up, and makes others until it has been released on all ranks.
void give_up(ExchangeContext& context, Findings& findings) {
  const auto cancel = entry_of(context.plugin().table(), &dit_exchange_plugin::cancel);
  if (cancel == nullptr) return findings.note("not supported");
  const dit_exchange_plugin& table = context.plugin().table();
  const dit_release count = [](void* user) { ++*static_cast<unsigned char*>(user); };
  unsigned char released = 0;
  dit_request* request = nullptr;
  findings.expect(cancel(context.handle(), &request, count, &released) == DIT_OK && released == 1,
                  "cancel of a null request does not release at once");
  released = 0;
  const Known known = known_exchange(context, 77, 0);
  if (table.start(context.handle(), &known->call(), &request) != DIT_OK)
    throw ExchangeError(DIT_ERROR_COMMUNICATION, "start failed");
  findings.expect(cancel(context.handle(), &request, count, &released) == DIT_OK, "cancel failed");
  findings.expect(request == nullptr, "cancel left the request");
  for (int i = 0; i < 10000; ++i) {
    const auto own = static_cast<std::byte>(released);
    const std::vector<std::byte> all = context.all_gather({&own, 1});
    if (std::ranges::find(all, std::byte{0}) == all.end()) break;
    std::this_thread::yield();
  }
  findings.expect(released == 1, released == 0 ? "an exchange that was given up is never released"
                                               : "an exchange that was given up is released twice");
  findings.problem(known->problem());
  context.barrier();
  findings.expect(released <= 1, "an exchange that was given up is released again");
}

}  // namespace

std::vector<Check> channel_checks() {
  return {{"channels: each rank has its own order", own_orders},
          {"channels: nobody waits for another one", nobody_waits_for_another_channel},
          {"cancel: releases once", give_up}};
}

}  // namespace dit::conformance
