// Channels: ranks start exchanges in different orders, and each finds its own. Under mpirun; every rank runs
// `channels PLUGIN orders [CONFIG]`.
#include <memory>

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

}  // namespace

int main(int argc, char** argv) {
  return run_case(argc, argv,
                  [](const std::string& name) -> Case { return name == "orders" ? orders : nullptr; });
}
