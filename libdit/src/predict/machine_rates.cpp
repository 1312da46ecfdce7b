#include "predict/machine_rates.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "predict/median.hpp"

namespace dit {

namespace {

constexpr int repetitions = 5;
constexpr std::size_t small_bytes = 64;
// Large exchanges grow until they take long enough to be told from small ones, on any link.
constexpr std::size_t first_bytes = std::size_t{1} << 16;
constexpr std::size_t most_bytes = std::size_t{1} << 22;
constexpr double long_enough = 0.02;  // seconds
constexpr std::size_t coded_numbers = std::size_t{1} << 16;
constexpr std::int64_t coded_row = 64;
constexpr double coding_seconds = 0.015;  // of each mode: longer than a turn on a core that ranks share

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Levels from the first to the last, both included.
struct LevelRange {
  int first = 0;
  int last = 0;
};

/// Exchanges with the peers of some levels only.
class LinkProbe {
 public:
  LinkProbe(ExchangeContext& context, LevelRange levels) : context_(context) {
    for (int peer = 0; peer < context.size(); ++peer) {
      const int level = context.level_of(peer);
      chosen_.push_back(peer != context.rank() && levels.first <= level && level <= levels.last);
    }
  }
  [[nodiscard]] int peers() const {
    return static_cast<int>(std::count(chosen_.begin(), chosen_.end(), true));
  }

  /// Median time of an exchange of so many bytes with each chosen peer; as many on all ranks, whatever the
  /// number of their peers.
  [[nodiscard]] double seconds(std::size_t part) {
    const auto buffers = std::make_shared<std::array<std::vector<std::byte>, 2>>();
    auto& [send, recv] = *buffers;
    send.resize(part * chosen_.size());
    recv.resize(send.size());
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
      context_.exchange(call, buffers);
      if (i > 0) times.push_back(seconds_since(begin));  // the first one opens connections
    }
    return median(times);
  }

 private:
  ExchangeContext& context_;
  std::vector<bool> chosen_;
};

template <typename Number>
Number largest(ExchangeContext& context, Number own) {
  const std::vector<std::byte> all = context.all_gather(std::as_bytes(std::span(&own, 1)));
  std::vector<Number> numbers(all.size() / sizeof(Number));
  std::memcpy(numbers.data(), all.data(), all.size());
  return *std::max_element(numbers.begin(), numbers.end());
}

/// The slowest rank's times as a rate and a time of a message; nothing where nobody has such peers.
/// `sharing`: ranks whose bytes go over one link.
std::optional<LinkRates> probe(ExchangeContext& context, LevelRange levels, int sharing) {
  LinkProbe link(context, levels);
  const auto peers = static_cast<std::size_t>(largest(context, link.peers()));
  if (peers == 0) return std::nullopt;
  const auto seconds = [&](std::size_t bytes) {  // that leave a rank with most peers
    return largest(context, link.seconds(std::max<std::size_t>(1, bytes / peers)));
  };
  const double small = seconds(small_bytes);
  std::size_t bytes = first_bytes;
  double large = seconds(bytes);
  while (large < long_enough && bytes < most_bytes) {
    bytes *= 4;
    large = seconds(bytes);
  }
  const double transfer = std::max(large - small, 1e-9);
  return LinkRates{static_cast<double>(bytes) * sharing / transfer, small / static_cast<double>(peers)};
}

/// Numbers that change a little from step to step, coded and decoded again and again.
double codec_seconds_a_byte(const WireMode& mode, WireElement element, float momentum) {
  if (mode.is_exact()) return 0;
  const auto rows = static_cast<std::int64_t>(coded_numbers) / coded_row;
  std::vector<float> numbers(coded_numbers);
  std::vector<std::uint16_t> values[2];
  std::vector<std::uint8_t> digits[2], changes[2];
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i * 2654435761U % 2048) / 1024.0F - 1.0F;
  }
  for (std::vector<std::uint16_t>& side : values) side.resize(coded_numbers);
  for (std::vector<std::uint8_t>& side : digits) side.resize(coded_numbers);
  for (std::vector<std::uint8_t>& side : changes) side.resize(momentum != 0 ? coded_numbers : 0);
  std::vector<std::uint16_t> ages[2];
  for (std::vector<std::uint16_t>& side : ages) side.resize(static_cast<std::size_t>(rows));
  BlockMemory sent{{values[0], digits[0], changes[0], momentum}, ages[0], 0};
  BlockMemory received{{values[1], digits[1], changes[1], momentum}, ages[1], 0};
  const BlockCodec codec(mode, element);
  std::vector<std::byte> tensor(coded_numbers * bytes_of(element));
  store_elements(numbers, element, tensor);
  std::vector<std::byte> code(codec.encoded_bytes(rows, coded_row)), back(tensor.size());
  BlockMemory* const from = mode.remembers(WireEnd::sender) ? &sent : nullptr;
  BlockMemory* const to = mode.remembers(WireEnd::receiver) ? &received : nullptr;
  std::vector<std::uint32_t> active(mode.stays ? static_cast<std::size_t>(codec.travelling_rows(rows)) : 0);
  std::iota(active.begin(), active.end(), 0U);  // V-Major's: any rows, as many as travel
  int times = -1;                               // the first one touches the memory
  std::chrono::steady_clock::time_point begin;
  do {
    if (++times == 0) begin = std::chrono::steady_clock::now();
    codec.encode(rows, coded_row, tensor, from, code, active);
    codec.decode(rows, coded_row, code, to, back);
    if (times == 0) begin = std::chrono::steady_clock::now();
  } while (times < 1 || seconds_since(begin) < coding_seconds);
  return seconds_since(begin) / times / static_cast<double>(tensor.size());
}

}  // namespace

ComputeRates compute_rates(const StepGraph& measured, const ForwardShape& shape) {
  double linear_flops = 0, linear_seconds = 0, attention_flops = 0, attention_seconds = 0;
  for (const Step& step : measured.steps) {
    if (is_exchange(step.role)) continue;
    const bool attention = step.role == StepRole::attention;
    const double flops = step_flops(step.role, shape, step.group, measured.groups);
    (attention ? attention_flops : linear_flops) += flops;
    (attention ? attention_seconds : linear_seconds) += step.seconds;
  }
  return {linear_flops / std::max(linear_seconds, 1e-9), attention_flops / std::max(attention_seconds, 1e-9)};
}

MeasuredLinks measure_links(ExchangeContext* context) {
  MeasuredLinks links;
  if (context == nullptr) return links;
  const int slow = context->slow_level();
  int near = 0;
  for (int peer = 0; peer < context->size(); ++peer) {
    if (peer == context->rank() || context->level_of(peer) < slow) ++near;
  }
  links.ranks_per_node = largest(*context, near);
  links.fast = probe(*context, {0, slow - 1}, 1);
  links.slow = probe(*context, {slow, std::numeric_limits<int>::max()}, links.ranks_per_node);
  return links;
}

std::vector<LevelSeconds> measure_levels(ExchangeContext& context) {
  std::vector<LevelSeconds> levels;
  const std::vector<std::string> names = context.levels();
  for (int level = context.slow_level(); level < static_cast<int>(names.size()); ++level) {
    const std::optional<LinkRates> link = probe(context, {level, level}, 1);
    if (link) levels.push_back({level, names[static_cast<std::size_t>(level)], 1 / link->bytes_per_second});
  }
  return levels;
}

double measure_coding(ExchangeContext* context, const std::vector<ModeShare>& modes, WireElement element,
                      float momentum) {
  if (context != nullptr) context->barrier();  // ranks that share cores measure at the same time
  double seconds = 0;
  for (const ModeShare& each : modes) {
    seconds += each.share * codec_seconds_a_byte(each.mode, element, momentum);
  }
  return context != nullptr ? largest(*context, seconds) : seconds;
}

}  // namespace dit
