// Guards of wire policies: what they decide is the same wherever blocks are coded, in whole runs of
// transfers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "../message_of.hpp"
#include "exchange/exchange.hpp"
#include "exchange/local/local_ranks.hpp"
#include "host_launcher.hpp"
#include "transfer/coded_transfer.hpp"
#include "transfer/device/device_coder.hpp"

namespace dit {
namespace {

constexpr int kLayers = 2, kSteps = 8;
constexpr AttentionTensor kTensors[] = {AttentionTensor::value, AttentionTensor::output};
const AttentionShape kShape{2, 3, 29, 6, 3, 8};

WirePolicy policy_of(double guard) {
  WirePolicy policy;
  policy.momentum = 0.5F;
  policy.most_age = 3;
  policy.guard = guard;
  int first = 0;
  for (const char* mode :
       {"residual int4", "rows 0.5 residual int8", "late residual int2", "skip", "residual int1"}) {
    WireRule rule;
    rule.mode = parse_wire_mode(mode);
    rule.steps.first = first++;
    policy.rules.push_back(rule);
  }
  return policy;
}

/// Memory of the host that counts as a device's: its streams are captured when the test says so.
class Captured final : public TransferMemory {
 public:
  TransferBuffer allocate(std::size_t bytes) const override { return host_.allocate(bytes); }
  TransferBuffer allocate_on_host(std::size_t bytes) const override { return host_.allocate_on_host(bytes); }
  void copy(std::span<const std::byte> from, std::byte* to, void* stream) const override {
    host_.copy(from, to, stream);
  }
  void clear(std::span<std::byte> bytes, void* stream) const override { host_.clear(bytes, stream); }
  void pack(std::span<const PeerBlock> peers, std::size_t element_bytes, const SourceTensor& tensor,
            const TransferBuffer& buffer, void* stream) const override {
    host_.pack(peers, element_bytes, tensor, buffer, stream);
  }
  void unpack(std::span<const PeerBlock> peers, std::size_t element_bytes, const TransferBuffer& buffer,
              const TargetTensor& tensor, void* stream) const override {
    host_.unpack(peers, element_bytes, buffer, tensor, stream);
  }
  void unpack_rows(const std::vector<RowCopy>& copies, const TransferBuffer& buffer,
                   const TargetTensor& tensor, void* stream) const override {
    host_.unpack_rows(copies, buffer, tensor, stream);
  }
  void fetch(const std::byte* from, std::span<std::byte> to) const override { host_.fetch(from, to); }
  std::shared_ptr<void> make_current(int device) const override { return host_.make_current(device); }
  int current_device() const override { return 0; }
  bool is_capturing(void* /*stream*/) const override { return capturing; }
  void follow(void* stream, void* other, void* mark) const override { host_.follow(stream, other, mark); }
  std::shared_ptr<void> make_mark() const override { return host_.make_mark(); }
  void wait(void* stream) const override { host_.wait(stream); }

  bool capturing = false;

 private:
  const TransferMemory& host_ = TransferMemory::of(DIT_MEMORY_HOST);
};

/// Numbers that stand almost still but for a jump of one rank's in one layer and step.
std::vector<float> numbers(std::int64_t count, int rank, int layer, int step) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float jump = rank == 1 && layer == 1 && step >= 5 ? 0.3F * static_cast<float>(i % 7) : 0;
    values[i] = std::sin(0.1F * static_cast<float>(i) + 0.02F * static_cast<float>(step) + jump);
  }
  return values;
}

/// What arrives of all exchanges of a run, and how often the guard spoke in each.
struct Outcome {
  std::vector<float> arrived;
  std::vector<int> guarded;
  bool operator==(const Outcome&) const = default;
};

class Ends {
 public:
  Ends(ExchangeContext& context, double guard, bool on_device)
      : layout_(kShape, context.size()),
        run_(policy_of(guard), kLayers, kSteps, context, context, layout_, 1, WireElement::fp32),
        rank_(context.rank()) {
    for (const AttentionTensor tensor : kTensors) {
      const TransferPart part{tensor, 0, 1, context.open_channel()};
      std::unique_ptr<BlockCoder> coder;
      if (on_device) {
        coder = std::make_unique<DeviceCoder>(run_.blocks(tensor), WireElement::fp32,
                                              run_.sample_rows(tensor), memory, launcher_);
      }
      transfers_.push_back(
          std::make_unique<CodedTransfer>(context, run_, part, 1, DIT_MEMORY_HOST, std::move(coder)));
    }
  }

  void step(int step, Outcome& outcome, float spoilt = 0) {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const auto& transfer : transfers_) {
        std::vector<float> source = numbers(transfer->source_shape().elements(), rank_, layer, step);
        if (spoilt != 0 && rank_ == 1) source[source.size() / 2] = spoilt;
        std::vector<float> target(static_cast<std::size_t>(transfer->target_shape().elements()));
        const std::span<const std::byte> from = std::as_bytes(std::span(source));
        transfer->pack({from, transfer->source_shape(), dense_strides(transfer->source_shape())},
                       {layer, step, 0}, {}, nullptr);
        transfer
            ->start({std::as_writable_bytes(std::span(target)), transfer->target_shape(),
                     dense_strides(transfer->target_shape())},
                    {})
            .wait();
        transfer->finish();
        outcome.arrived.insert(outcome.arrived.end(), target.begin(), target.end());
        outcome.guarded.push_back(transfer->take_times().guarded);
      }
    }
  }
  [[nodiscard]] CodedTransfer& transfer() { return *transfers_.front(); }
  void forget() {
    for (const auto& transfer : transfers_) transfer->forget(nullptr);
  }
  void have_travelled() {
    for (const auto& transfer : transfers_) transfer->have_travelled(0);
  }

  Captured memory;

 private:
  HostLauncher launcher_;
  UlyssesLayout layout_;
  WireRun run_;
  int rank_;
  std::vector<std::unique_ptr<CodedTransfer>> transfers_;
};

LocalGroupOptions far_ranks(int ranks) {
  LocalGroupOptions group;
  group.ranks = ranks;
  group.ranks_per_node = 1;
  return group;
}

int sum(const std::vector<int>& of) {
  int all = 0;
  for (const int number : of) all += number;
  return all;
}

// 0.000001: always; 0.1: the first steps, and where numbers jump; 1000: never.
TEST(GuardedTransfer, DevicesDecideAsHostsDo) {
  for (const int ranks : {2, 3, 5}) {
    for (const double guard : {0.000001, 0.1, 1000.0}) {
      run_local_ranks(far_ranks(ranks), [&](ExchangeContext& context) {
        Ends host(context, guard, false), device(context, guard, true);
        Outcome on_host, on_device;
        for (int step = 0; step < kSteps; ++step) {
          host.step(step, on_host);
          device.step(step, on_device);
          ASSERT_EQ(on_device.guarded, on_host.guarded) << "step " << step << ", guard " << guard;
          ASSERT_EQ(on_device, on_host) << "step " << step << ", guard " << guard;
        }
        const auto all = static_cast<int>(on_host.guarded.size());
        const bool sometimes = guard > 0.01 && guard < 1;
        EXPECT_GE(sum(on_host.guarded), guard > 1 ? 0 : sometimes ? all / 10 : all);
        EXPECT_LE(sum(on_host.guarded), guard > 1 ? 0 : sometimes ? all * 2 / 3 : all);
      });
    }
  }
}

// What has no relative error is beyond all bounds.
TEST(GuardedTransfer, SpeaksOfNumbersThatAreNone) {
  for (const float spoilt :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const bool on_device : {false, true}) {
      run_local_ranks(far_ranks(2), [&](ExchangeContext& context) {
        Ends ends(context, 1000, on_device);
        Outcome outcome;
        ends.step(0, outcome);
        EXPECT_EQ(sum(outcome.guarded), 0);
        ends.step(1, outcome, spoilt);
        EXPECT_EQ(sum(outcome.guarded), kLayers * static_cast<int>(std::size(kTensors)));
        ends.step(2, outcome);
        EXPECT_EQ(sum(outcome.guarded), kLayers * static_cast<int>(std::size(kTensors)));
      });
    }
  }
}

// A second image has the bits of the first, wherever that one was left, also with late blocks under way.
TEST(ForgottenTransfer, IsAsNew) {
  for (const bool on_device : {false, true}) {
    run_local_ranks(far_ranks(3), [&](ExchangeContext& context) {
      for (const int left : {0, 2, 3, kSteps - 1}) {
        Ends ends(context, 0.1, on_device);
        Outcome first, other, second;
        for (int step = 0; step < kSteps; ++step) ends.step(step, first);
        ends.forget();
        for (int step = 0; step <= left; ++step) ends.step(step, other);
        ends.forget();
        for (int step = 0; step < kSteps; ++step) ends.step(step, second);
        ASSERT_EQ(second, first) << "left behind step " << left << ", device " << on_device;
      }
    });
  }
}

// What a replayed graph has sent does not come for the first time any more: without it a step goes as step 0.
TEST(ForgottenTransfer, HasTravelledByAGraph) {
  run_local_ranks(far_ranks(2), [&](ExchangeContext& context) {
    Outcome first, replayed, as_first;
    Ends ends(context, 0, true);
    ends.step(4, first);
    ends.forget();
    ends.step(4, as_first);
    ends.forget();
    ends.have_travelled();
    ends.step(4, replayed);
    EXPECT_EQ(first, as_first);
    EXPECT_NE(first, replayed);
  });
}

TEST(GuardedTransfer, IsNotCaptured) {
  run_local_ranks(far_ranks(2), [&](ExchangeContext& context) {
    for (const double guard : {0.1, 0.0}) {
      Ends ends(context, guard, true);
      EXPECT_NO_THROW(ends.transfer().require_startable({}, nullptr));
      ends.memory.capturing = true;
      if (guard == 0) {
        EXPECT_NO_THROW(ends.transfer().require_startable({}, nullptr));
        continue;
      }
      EXPECT_EQ(
          message_of([&] { ends.transfer().require_startable({}, nullptr); }),
          "a stream that is captured, under a policy with guard = 0.100000: expected one that is not, as the "
          "host waits for what the guard sees");
      ends.memory.capturing = false;
      Outcome outcome;
      ends.step(0, outcome);  // nothing was begun
    }
  });
}

}  // namespace
}  // namespace dit
