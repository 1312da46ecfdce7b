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
    return greatest(taken.count()) / kRounds;
  }

 private:
  [[nodiscard]] std::size_t bytes_of(const Sizes& sizes) const {
    return static_cast<std::size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3]) * attention_.element_bytes();
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
    std::array<dit_transfer*, kTogether.size()> transfers{};
    std::array<dit_transfer_call, kTogether.size()> calls{};
    for (std::size_t i = 0; i < kTogether.size(); ++i) {
      transfers[i] = transfers_.of(kTogether[i]);
      calls[i] = call_of(kTogether[i], step);
    }
    require_ok(dit_transfer_start_together(transfers.data(), calls.data(), calls.size()));
    void* const stream = calls[0].stream;
    for (const int what : kTogether) wait(what, stream);
    const dit_transfer_call back = call_of(DIT_GATHER_OUTPUT, step);
    require_ok(dit_transfer_start(transfers_.of(DIT_GATHER_OUTPUT), &back));
    wait(DIT_GATHER_OUTPUT, stream);
    if (attention_.on_device()) synchronize(stream);
  }

  [[nodiscard]] double greatest(double mine) {
    const std::vector<std::byte> all = group_.context().all_gather(std::as_bytes(std::span(&mine, 1)));
    double most = mine;
    for (std::size_t at = 0; at < all.size(); at += sizeof(double)) {
      double one = 0;
      std::memcpy(&one, all.data() + at, sizeof one);
      most = std::max(most, one);
    }
    return most;
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
  const std::vector<std::byte> all = group.context().all_gather(std::as_bytes(std::span(&mine, 1)));
  std::string words;
  for (std::size_t at = 0; at < all.size(); at += sizeof(double))
    if (std::memcmp(all.data() + at, &mine, sizeof mine) != 0)
      words = what + " differs between ranks: expected the same on all";
  group.agree(words);
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
