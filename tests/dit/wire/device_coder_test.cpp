// Blocks under a policy as devices code them, on the host: what arrives must have the bits of the
// processor's.
#include "transfer/device/device_coder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "exchange/local/local_ranks.hpp"
#include "host_warp.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

class HostLauncher final : public CodeLauncher {
 public:
  void launch(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
              void* /*stream*/) override {
    run_on_host(work, format, remembers, jobs);
  }
  void launch(RowWork work, const RowChoices& choices, void* /*stream*/) override {
    run_on_host(work, choices);
  }
};

// The same on all ranks.
WireMode random_mode(std::mt19937& random, bool first) {
  WireMode mode;
  mode.format = static_cast<WireFormat>(random() % kWireFormats);
  mode.residual = random() % 2 == 0;
  if (!first && random() % 3 == 0) mode.rows = 0.1 + 0.2 * static_cast<double>(random() % 4);
  mode.late = !first && mode.rows >= 1 && random() % 4 == 0;
  if (!first && random() % 5 == 0) mode = parse_wire_mode("skip");
  return mode;
}

std::vector<std::byte> tensor_of(const TensorShape& shape, WireElement element, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& value : values) value = normal(random);
  std::vector<std::byte> bytes(values.size() * bytes_of(element));
  store_elements(values, element, bytes);
  return bytes;
}

struct Setting {
  AttentionShape shape;
  int ranks;
  AttentionTensor tensor;
  WireElement element;
  float momentum;
  std::uint32_t seed;
};

// One rank's coder of either kind, and what it received.
class End {
 public:
  End(std::unique_ptr<BlockCoder> coder, const PeerFlags& remembered, const MemoryOptions& options,
      std::size_t target_bytes)
      : coder_(std::move(coder)),
        memory_(coder_->make_memory(remembered, options)),
        target(target_bytes, std::byte{0xab}) {}

  void step(ExchangeContext& context, const std::vector<WireMode>& modes, const SourceTensor& source,
            const TensorShape& shape, const TensorStrides& strides) {
    for (const WirePart part : {WirePart::now, WirePart::later}) {
      const CodedBlocks::Sizes sizes = coder_->sizes(modes, part);
      const TransferBuffer send = TransferMemory::of(DIT_MEMORY_HOST).allocate(sizes.send_bytes);
      const TransferBuffer recv = TransferMemory::of(DIT_MEMORY_HOST).allocate(sizes.recv_bytes);
      coder_->encode(modes, part, source, memory_.get(), send, nullptr, {}, nullptr);
      dit_exchange_call call{};
      call.send = send.data();
      call.recv = recv.data();
      call.send_blocks = sizes.send.data();
      call.recv_blocks = sizes.recv.data();
      context.exchange(call);
      if (part == WirePart::now) {
        coder_->decode(modes, recv, memory_.get(), TargetTensor(std::span(target), shape, strides), nullptr);
        ages.clear();
        memory_->count_ages(ages);
      } else {
        coder_->remember(modes, recv, memory_.get(), nullptr);
      }
    }
  }

 private:
  std::unique_ptr<BlockCoder> coder_;
  std::unique_ptr<BlockCoder::Memory> memory_;

 public:
  std::vector<std::byte> target;
  std::vector<std::uint64_t> ages;
};

void compare(const Setting& setting) {
  LocalGroupOptions group;
  group.ranks = setting.ranks;
  group.ranks_per_node = 1;
  run_local_ranks(group, [&](ExchangeContext& context) {
    const UlyssesLayout layouts(setting.shape, setting.ranks);
    const int rank = context.rank();
    const bool gathers = setting.tensor == AttentionTensor::output;
    const ExchangeLayout layout = layouts.exchange(setting.tensor, rank);
    const TensorShape sequence = layouts.sequence_shape(setting.tensor, rank);
    const TensorShape heads = layouts.head_shape(setting.tensor, rank);
    const TensorShape& from = gathers ? heads : sequence;
    const TensorShape& to = gathers ? sequence : heads;
    TensorStrides apart = dense_strides(to);  // heads before rows
    if (setting.seed % 2 == 1) apart = {to.elements() / to.batch, to.head_dim, to.rows * to.head_dim};
    std::vector<std::uint8_t> far;
    for (int peer = 0; peer < setting.ranks; ++peer) far.push_back(peer != rank);
    const PeerFlags remembered{far, far};
    const MemoryOptions options{setting.momentum, true, setting.seed % 4 == 0 ? 3 : 0};
    HostLauncher launcher;
    const std::size_t bytes = static_cast<std::size_t>(to.elements()) * bytes_of(setting.element);
    End device(std::make_unique<DeviceCoder>(layout, setting.element, SampleRows{},
                                             TransferMemory::of(DIT_MEMORY_HOST), launcher),
               remembered, options, bytes);
    End host(BlockCoder::make(DIT_MEMORY_HOST, layout, setting.element, {}), remembered, options, bytes);
    std::mt19937 random(setting.seed);
    for (int step = 0; step < 14; ++step) {
      const WireMode mode = random_mode(random, step == 0);
      std::vector<WireMode> modes;
      for (const std::uint8_t slow : far) modes.push_back(slow != 0 ? mode : WireMode{});
      const std::vector<std::byte> source =
          tensor_of(from, setting.element, setting.seed * 100 + static_cast<std::uint32_t>(step * 10 + rank));
      const SourceTensor tensor(std::span<const std::byte>(source), from, dense_strides(from));
      device.step(context, modes, tensor, to, apart);
      host.step(context, modes, tensor, to, apart);
      ASSERT_EQ(device.target, host.target) << "step " << step << ", " << to_string(mode);
      ASSERT_EQ(device.ages, host.ages) << "step " << step << ", " << to_string(mode);
    }
  });
}

TEST(DeviceCoder, HasTheBitsOfTheHostsBlocks) {
  std::uint32_t seed = 0;
  for (const int ranks : {1, 2, 3, 4, 7}) {  // 7: more ranks than heads
    for (const AttentionShape& shape : {AttentionShape{1, 5, 40, 6, 6, 16}, AttentionShape{2, 3, 29, 6, 3, 8},
                                        AttentionShape{8, 7, 9, 5, 5, 40}}) {
      for (const AttentionTensor tensor :
           {AttentionTensor::query, AttentionTensor::key, AttentionTensor::output}) {
        for (const WireElement element : {WireElement::fp32, WireElement::bf16, WireElement::fp16}) {
          ++seed;
          compare({shape, ranks, tensor, element, seed % 3 == 0 ? 0.0F : 0.75F, seed});
        }
      }
    }
  }
}

// Equal scores, zeros of both signs, NaN, infinities: the smaller row first, as in choose_active_rows.
TEST(DeviceCoder, ChoosesTheHostsRows) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const auto rows = static_cast<std::uint32_t>(1 + random() % (round % 3 == 0 ? 5000 : 40));
    const float special[] = {0.0F, -0.0F, NAN, INFINITY, -INFINITY, 1.0F, -1.0F};
    std::vector<float> scores(rows);
    for (float& score : scores) {
      score = random() % 3 == 0 ? special[random() % 7]
                                : static_cast<float>(random() % (round % 2 == 0 ? 10 : 100000));
    }
    for (const double stays : {0.0, 0.3, 0.77, 1.0}) {
      const std::vector<std::uint32_t> expected = choose_active_rows(scores, stays);
      std::vector<std::uint32_t> active(expected.size() + 1, 7777777),
          others(rows - expected.size() + 1, 7777777);
      std::vector<std::uint8_t> mask((rows + 7) / 8, 0xff);
      std::vector<float> given = scores;
      RowChoices choices;
      choices.count = 1;
      RowChoice& choice = choices.choice[0];
      choice.rows = rows;
      choice.travelling = static_cast<std::uint32_t>(expected.size());
      choice.scores = given.data();
      choice.active = active.data();
      choice.others = others.data();
      choice.mask = mask.data();
      run_on_host(RowWork::choose, choices);
      run_on_host(RowWork::write, choices);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), active.begin())) << rows << ", " << stays;
      ASSERT_EQ(active.back(), 7777777U);
      ASSERT_EQ(others.back(), 7777777U);
      ASSERT_EQ(mask, rows_to_mask(expected, rows));
      std::fill(active.begin(), active.end(), 0U);
      run_on_host(RowWork::read, choices);
      run_on_host(RowWork::choose, choices);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), active.begin()));
      std::vector<std::uint32_t> all(active.begin(), active.end() - 1);
      all.insert(all.end(), others.begin(), others.end() - 1);
      std::sort(all.begin(), all.end());
      for (std::uint32_t row = 0; row < rows; ++row) ASSERT_EQ(all[row], row);
    }
  }
}

TEST(DeviceCoder, RefusesBlocksThatLeaveTheTensor) {
  HostLauncher launcher;
  const ExchangeLayout layout{{{8, {{0, 4, 8}}}}, {{8, {{0, 4, 8}}}}};
  DeviceCoder coder(layout, WireElement::fp32, {}, TransferMemory::of(DIT_MEMORY_HOST), launcher);
  const std::vector<WireMode> modes{parse_wire_mode("int4")};
  const TransferBuffer buffer = TransferMemory::of(DIT_MEMORY_HOST).allocate(4096);
  std::vector<std::byte> small(4 * 8 * 4 - 1);
  EXPECT_THROW(coder.encode(modes, WirePart::now, std::span<const std::byte>(small), nullptr, buffer, nullptr,
                            {}, nullptr),
               std::length_error);
  EXPECT_THROW(coder.decode(modes, buffer, nullptr, std::span(small), nullptr), std::length_error);
}

}  // namespace
}  // namespace dit
