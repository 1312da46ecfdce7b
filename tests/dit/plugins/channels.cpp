// Channels: ranks start exchanges in different orders, and each finds its own. Under mpirun; every rank runs
// `channels PLUGIN orders|threads [CONFIG]`.
#include <atomic>
#include <memory>
#include <thread>

#include "expectations.hpp"

namespace {

using dit::ExchangeContext;
using dit::ExchangePlugin;
using dit::ExchangeRequest;

constexpr int kChannels = 4;  // channel 0 is one of them

// Layout ids, which plugins agree on first, in some rounds; a blocking exchange after each.
void orders(const ExchangePlugin& plugin, const std::string& config) {
  ExchangeContext context(plugin, {nullptr, 20, config});
  std::vector<int> channels{0};
  while (channels.size() < kChannels) channels.push_back(context.open_channel());
  for (std::size_t i = 0; i < channels.size(); ++i)
    expect(channels[i] == static_cast<int>(i), "channel " + std::to_string(channels[i]));
  for (int round = 0; round < 8; ++round) {
    std::vector<std::unique_ptr<Exchange>> exchanges;
    std::vector<ExchangeRequest> requests(kChannels);
    for (int i = 0; i < kChannels; ++i) {
      const std::size_t bytes = (round % 2 == 0 ? 100 : 200000) + static_cast<std::size_t>(i);
      exchanges.push_back(std::make_unique<Exchange>(context, bytes, "round", round * kChannels + i));
      exchanges.back()->call.channel = channels[static_cast<std::size_t>(i)];
      if (round < 4) exchanges.back()->call.layout_id = static_cast<std::uint64_t>(1 + round % 2);
    }
    const int first = context.rank() + round;
    for (int i = 0; i < kChannels; ++i) {
      const auto at = static_cast<std::size_t>((first + i) % kChannels);
      requests[at] = context.start(exchanges[at]->call);
    }
    for (ExchangeRequest& request : requests) request.wait();
    for (const auto& exchange : exchanges) expect(exchange->arrived(), "bytes of a channel");
    Exchange last(context, 1000, "after", round);
    last.call.channel = channels[static_cast<std::size_t>(round % kChannels)];
    context.exchange(last.call);
    expect(last.arrived(), "bytes of a blocking exchange");
  }
  Exchange wrong(context, 10, "wrong");
  wrong.call.channel = kChannels;
  refused(DIT_ERROR_ARGUMENT, {"call.channel is 4, expected 0 to 3"}, [&] { context.exchange(wrong.call); });
}

// A thread for each channel: the context is shared, its channels are not.
void threads(const ExchangePlugin& plugin, const std::string& config) {
  ExchangeContext context(plugin, {nullptr, 60, config});
  for (int channel = 1; channel < kChannels; ++channel)
    expect(context.open_channel() == channel, "number of a channel");
  std::atomic<int> wrong{0};
  const auto work = [&](int channel) {
    for (int i = 0; i < 30; ++i) {
      const std::size_t bytes = i % 3 == 0 ? 100000 : 1000;
      Exchange exchange(context, bytes, "thread", channel * 30 + i);
      exchange.call.channel = channel;
      if (i % 4 == 1) exchange.call.layout_id = static_cast<std::uint64_t>(100 * channel + i % 3 + 1);
      if (i % 5 == 2) {
        context.exchange(exchange.call);
      } else {
        ExchangeRequest request = context.start(exchange.call);
        if (i % 2 == 0)
          while (!request.test()) std::this_thread::yield();
        request.wait();
      }
      if (!exchange.arrived()) ++wrong;
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int channel = 0; channel < kChannels; ++channel) workers.emplace_back(work, channel);
  }
  expect(wrong == 0, std::to_string(wrong) + " exchanges with wrong bytes");
  expect(context.totals().exchanges == 30 * kChannels, "number of exchanges");
}

}  // namespace

int main(int argc, char** argv) {
  return run_case(argc, argv, [](const std::string& name) -> Case {
    return name == "orders" ? orders : name == "threads" ? threads : nullptr;
  });
}
