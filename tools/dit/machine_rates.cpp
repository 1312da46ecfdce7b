#include "machine_rates.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "report.hpp"

namespace dit::tool {

namespace {

constexpr int repetitions = 5;
constexpr std::size_t small_bytes = 64;
constexpr std::size_t large_bytes = std::size_t{1} << 20;  // over a NIC of 100 Mbit/s: a twelfth of a second

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Exchanges with the peers of one kind only: nodes' own, or those beyond.
class LinkProbe {
 public:
  LinkProbe(ExchangeContext& context, bool slow) : context_(context) {
    for (int peer = 0; peer < context.size(); ++peer) {
      const bool beyond = context.level_of(peer) >= context.slow_level();
      chosen_.push_back(peer != context.rank() && beyond == slow);
    }
  }
  [[nodiscard]] int peers() const {
    return static_cast<int>(std::count(chosen_.begin(), chosen_.end(), true));
  }

  /// Median time of an exchange in which `bytes` leave this rank, in equal parts for the chosen peers.
  [[nodiscard]] double seconds(std::size_t bytes) {
    const std::size_t part = std::max<std::size_t>(1, bytes / static_cast<std::size_t>(std::max(1, peers())));
    std::vector<std::byte> send(part * chosen_.size());
    std::vector<std::byte> recv(send.size());
    std::vector<dit_block> blocks;
    for (std::size_t peer = 0; peer < chosen_.size(); ++peer)
      blocks.push_back({peer * part, chosen_[peer] ? part : 0});
    dit_exchange_call call{};
    call.send = send.data();
    call.recv = recv.data();
    call.send_blocks = blocks.data();
    call.recv_blocks = blocks.data();
    call.flags = DIT_EXCHANGE_BLOCKING;
    call.label = "link measurement";
    std::vector<double> times;
    for (int i = 0; i <= repetitions; ++i) {
      context_.barrier();
      const auto begin = std::chrono::steady_clock::now();
      context_.exchange(call);
      if (i > 0) times.push_back(seconds_since(begin));  // the first one opens connections
    }
    return median(times);
  }

 private:
  ExchangeContext& context_;
  std::vector<bool> chosen_;
};

/// The slowest rank's times as a rate and a time of a message. `sharing`: ranks whose bytes go over one link.
std::optional<LinkRates> probe(const Member& member, bool slow, int sharing) {
  LinkProbe link(*member.context(), slow);
  struct Seen {
    int peers;
    double small, large;
  };
  const Seen own{link.peers(), link.seconds(small_bytes), link.seconds(large_bytes)};
  Seen worst{0, 0, 0};
  for (const auto& rank : member.gather_values(std::span<const Seen>(&own, 1))) {
    worst.peers = std::max(worst.peers, rank[0].peers);
    worst.small = std::max(worst.small, rank[0].small);
    worst.large = std::max(worst.large, rank[0].large);
  }
  if (worst.peers == 0) return std::nullopt;
  const double transfer = std::max(worst.large - worst.small, 1e-9);
  return LinkRates{static_cast<double>(large_bytes) * sharing / transfer, worst.small / worst.peers};
}

bool counts_as_attention(StepRole role) {
  return role == StepRole::attention;
}

}  // namespace

ForwardShape forward_shape(const PixelDitConfig& network, const RunShape& run, const GenerateOptions& options,
                           int ranks_per_node) {
  ForwardShape shape;
  shape.attention = run.attention;
  shape.width = network.width;
  shape.mlp_ratio = static_cast<double>(network.mlp_ratio);
  shape.patch_elements = network.patch_elements();
  shape.element_bytes = static_cast<std::int64_t>(at::elementSize(options.dtype));
  shape.ranks = run.layout_ranks;
  shape.ranks_per_node = ranks_per_node;
  return shape;
}

ComputeRates measure_compute(const LoadedModel& model, const GenerateOptions& options) {
  GenerateOptions alone = options;
  alone.guidance_mode = GuidanceMode::sequential;
  alone.v_major.reset();
  alone.wire.reset();
  Engine engine(model, nullptr);
  const PixelDitConfig& network = model.config.network;
  const ForwardShape shape = forward_shape(network, shape_of(network, alone, 1), alone, 1);
  double linear_flops = 0, linear_seconds = 0, attention_flops = 0, attention_seconds = 0;
  const StepGraph graph = engine.measure(alone).full;
  for (const Step& step : graph.steps) {
    if (is_exchange(step.role)) continue;
    const double flops = step_flops(step.role, shape) / (counts_as_attention(step.role) ? graph.parts : 1);
    (counts_as_attention(step.role) ? attention_flops : linear_flops) += flops;
    (counts_as_attention(step.role) ? attention_seconds : linear_seconds) += step.seconds;
  }
  return {linear_flops / std::max(linear_seconds, 1e-9), attention_flops / std::max(attention_seconds, 1e-9)};
}

MeasuredLinks measure_links(const Member& member) {
  MeasuredLinks links;
  if (member.context() == nullptr) return links;
  const ExchangeContext& context = *member.context();
  int near = 0;
  for (int peer = 0; peer < context.size(); ++peer) {
    if (peer == context.rank() || context.level_of(peer) < context.slow_level()) ++near;
  }
  for (const auto& rank : member.gather_values(std::span<const int>(&near, 1))) {
    links.ranks_per_node = std::max(links.ranks_per_node, rank[0]);
  }
  links.fast = probe(member, false, 1);
  links.slow = probe(member, true, links.ranks_per_node);
  return links;
}

}  // namespace dit::tool
