#include "trial.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "attention.hpp"
#include "streams.hpp"
#include "transfers.hpp"

namespace dit::operators {
namespace {

constexpr int kRounds = 6;         // steps that follow each other: a policy's differ
constexpr std::int64_t kPart = 8;  // an exact exchange of so much less is tried first

/// Memory of either kind. Its numbers do not matter.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Attention& attention, std::size_t bytes) {
    if (attention.on_device())
      device_ = DeviceMemory(bytes + 1);
    else
      host_.resize(bytes);
  }
  [[nodiscard]] void* data() { return host_.empty() ? static_cast<void*>(device_.data()) : host_.data(); }

 private:
  std::vector<std::byte> host_;
  DeviceMemory device_;
};

/// By rank. Collective.
std::vector<double> everybodys(const Group& group, double mine) {
  const std::vector<std::byte> all = group.context().all_gather(std::as_bytes(std::span(&mine, 1)));
  std::vector<double> numbers(all.size() / sizeof mine);
  std::memcpy(numbers.data(), all.data(), all.size());
  return numbers;
}

/// The four transfers of a layer, one time after the other.
class TimedLayer {
 public:
  /// Collective.
  TimedLayer(Group& group, const dit_torch_attention& attention)
      : group_(group),
        attention_(agreed_attention(group, attention)),
        current_(attention_.memory_kind, attention_.device),
        transfers_(group, attention_) {
    std::string words;
    try {
      for (int what = 0; what < kTransfers; ++what) {
        sources_[static_cast<std::size_t>(what)] = Buffer(attention_, bytes_of(transfers_.source(what)));
        if (!attention_.on_device())
          targets_[static_cast<std::size_t>(what)] = Buffer(attention_, bytes_of(transfers_.target(what)));
      }
    } catch (const std::runtime_error& error) {
      words = error.what();
    } catch (const std::bad_alloc&) {
      words = "no memory to try the policy";
    }
    group_.agree(words);
  }

  /// Whether a policy sends less to some of the other ranks.
  [[nodiscard]] bool codes() const {
    const ExchangeContext& context = group_.context();
    for (int peer = 0; peer < group_.size(); ++peer) {
      double share = 1;
      if (peer == group_.rank() || transfers_.wire() == nullptr) continue;
      require_ok(dit_wire_share(transfers_.wire(), context.level_of(peer), &share));
      if (share < 1) return true;
    }
    return false;
  }

  /// Of the slowest rank, the mean of some rounds behind one that does not count, and after which all begin
  /// together. Collective.
  [[nodiscard]] double seconds() {
    using Clock = std::chrono::steady_clock;
    Clock::time_point begin;
    for (int round = -1; round < kRounds; ++round) {
      if (round == 0) begin = Clock::now();
      run(std::min(attention_.steps / 2 + round + 1, attention_.steps - 1));
    }
    const std::chrono::duration<double> taken = Clock::now() - begin;
    return std::ranges::max(everybodys(group_, taken.count())) / kRounds;
  }

 private:
  [[nodiscard]] std::size_t bytes_of(const Sizes& sizes) const {
    return elements_of(sizes) * attention_.element_bytes();
  }

  [[nodiscard]] dit_transfer_call call_of(int what, int step) {
    const auto at = static_cast<std::size_t>(what);
    dit_transfer_call call{};
    call.struct_size = sizeof call;
    call.source = {sources_[at].data(), bytes_of(transfers_.source(what)), 0, 0, 0};
    call.target = attention_.on_device()
                      ? transfers_.slot(what, 0)
                      : dit_tensor{targets_[at].data(), bytes_of(transfers_.target(what)), 0, 0, 0};
    call.step = step;
    call.device = attention_.device;
    call.stream = attention_.on_device() ? current_stream(attention_.torch_device()) : nullptr;
    return call;
  }

  void wait(int what, void* stream) {
    require_ok(attention_.on_device() ? dit_transfer_wait_stream(transfers_.of(what), stream)
                                      : dit_transfer_wait(transfers_.of(what)));
  }

  // Together where that may be one exchange.
  void run(int step) {
    const dit_transfer_call back = call_of(DIT_GATHER_OUTPUT, step);
    void* const stream = back.stream;
    transfers_.start_together([&](int what) { return call_of(what, step); });
    for (const int what : kTogether) wait(what, stream);
    require_ok(dit_transfer_start(transfers_.of(DIT_GATHER_OUTPUT), &back));
    wait(DIT_GATHER_OUTPUT, stream);
    if (attention_.on_device()) synchronize(stream);
  }

  Group& group_;
  Attention attention_;
  CurrentDevice current_;
  std::array<Buffer, kTransfers> sources_, targets_;  // outlive what is under way after a failure
  Transfers transfers_;
};

bool is_preset(const char* policy) {
  std::istringstream presets(dit_wire_presets());
  for (std::string name; presets >> name;)
    if (policy != nullptr && name == policy) return name != "exact";
  return false;
}

/// The same attention with fewer tokens.
dit_torch_attention part_of(dit_torch_attention attention, int ranks) {
  attention.text_tokens /= kPart;
  attention.image_tokens = std::max<std::int64_t>(attention.image_tokens / kPart, ranks);
  return attention;
}

/// Ranks that differ would wait for each other. Collective.
void require_alike(const Group& group, const std::string& what, double mine) {
  const std::vector<double> all = everybodys(group, mine);
  const bool alike = std::ranges::all_of(all, [mine](double one) { return one == mine; });
  group.agree(alike ? "" : what + " differs between ranks: expected the same on all");
}

/// As little memory as it takes.
dit_torch_attention for_trial(dit_torch_attention attention) {
  attention.layers = 1;
  attention.side_stream = 0;
  attention.slots = 1;
  return attention;
}

}  // namespace

double exact_time(Group& group, const dit_torch_attention& given, double enough) {
  require_alike(group, "enough", enough);
  dit_torch_attention attention = for_trial(given);
  attention.policy = nullptr;
  const double part = TimedLayer(group, part_of(attention, group.size())).seconds();
  const double seconds = part > enough ? kPart * part : TimedLayer(group, attention).seconds();
  (void)group.newly_sent();  // by none of the group's exchanges
  return seconds;
}

// The policy first: an exact exchange may take a hundred times as long, and a part of it says so.
dit_torch_trial try_policy(Group& group, const dit_torch_attention& given) {
  dit_torch_trial trial{sizeof(dit_torch_trial), 1, 0, 0};
  const bool preset = is_preset(given.policy);
  require_alike(group, "policy is a preset", preset ? 1 : 0);
  if (!preset) return trial;
  {
    TimedLayer coded(group, for_trial(given));
    if (!coded.codes()) return trial;
    trial.policy_seconds = coded.seconds();
  }
  trial.exact_seconds = exact_time(group, given, trial.policy_seconds);
  trial.pays = policy_pays(trial.exact_seconds, trial.policy_seconds) ? 1 : 0;
  return trial;
}

}  // namespace dit::operators
