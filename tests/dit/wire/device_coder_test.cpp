// Blocks under a policy as devices code them, on the host: what arrives must have the bits of the
// processor's.
#include "transfer/device/device_coder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <random>
#include <string>

#include "exchange/local/local_ranks.hpp"
#include "host_launcher.hpp"
#include "transfer/active_rows.hpp"
#include "transfer/device/device_active_rows.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

// The same on all ranks.
WireMode random_mode(std::mt19937& random, bool first, bool v_major) {
  WireMode mode;
  mode.format = static_cast<WireFormat>(random() % kWireFormats);
  mode.residual = random() % 2 == 0;
  if (!first && random() % 3 == 0) mode.rows = 0.1 + 0.2 * static_cast<double>(random() % 4);
  mode.late = !first && mode.rows >= 1 && random() % 4 == 0;
  if (!first && random() % 5 == 0) mode = parse_wire_mode("skip");
  if (!first && v_major && random() % 2 == 0) {
    mode.rows = 1;
    mode.late = mode.skip = false;
    mode.stays = 0.25 * static_cast<double>(random() % 5);
  }
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

  /// What becomes of an encoding before the one that is sent.
  enum class Undone { nothing, for_bf16, for_the_same };

  struct Source {
    const SourceTensor& tensor;
    std::span<const std::uint32_t> active;
  };

  void step(ExchangeContext& context, std::vector<WireMode> modes, const Source& source,
            const TensorShape& shape, const TensorStrides& strides, Undone undone) {
    losses.clear();
    if (undone != Undone::nothing) {
      coder_->keep_sent(*memory_, nullptr);
      for (const WirePart part : {WirePart::now, WirePart::later}) {
        static_cast<void>(encoded(modes, part, source));
      }
      losses.push_back(coder_->take_loss(nullptr));
      coder_->put_back_sent(*memory_, nullptr);
      for (WireMode& mode : modes) {
        if (undone == Undone::for_bf16 && !mode.is_exact()) mode = parse_wire_mode("bf16");
      }
    }
    for (const WirePart part : {WirePart::now, WirePart::later}) {
      const CodedBlocks::Sizes sizes = coder_->sizes(modes, part);
      const TransferBuffer send = encoded(modes, part, source);
      const TransferBuffer recv = TransferMemory::of(DIT_MEMORY_HOST).allocate(sizes.recv_bytes);
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
    losses.push_back(coder_->take_loss(nullptr));
  }

 private:
  TransferBuffer encoded(const std::vector<WireMode>& modes, WirePart part, const Source& source) {
    const TransferBuffer send =
        TransferMemory::of(DIT_MEMORY_HOST).allocate(coder_->sizes(modes, part).send_bytes);
    coder_->encode(modes, part, source.tensor, memory_.get(), send, true, source.active, nullptr);
    return send;
  }

  std::unique_ptr<BlockCoder> coder_;
  std::unique_ptr<BlockCoder::Memory> memory_;

 public:
  std::vector<std::byte> target;
  std::vector<std::uint64_t> ages;
  std::vector<BlockLoss> losses;  // of what was undone and of what was sent
};

bool equal_bits(const std::vector<BlockLoss>& a, const std::vector<BlockLoss>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const BlockLoss& x, const BlockLoss& y) {
    const auto same = [](double one, double other) {
      return std::bit_cast<std::uint64_t>(one) == std::bit_cast<std::uint64_t>(other);
    };
    return same(x.error, y.error) && same(x.whole, y.whole);
  });
}

/// Some rows of each sample.
std::vector<std::uint32_t> active_of(const TensorShape& shape, const std::optional<double>& stays,
                                     std::mt19937& random) {
  std::vector<std::uint32_t> active;
  for (std::int64_t sample = 0; stays && sample < shape.batch; ++sample) {
    std::vector<float> scores(static_cast<std::size_t>(shape.rows));
    for (float& score : scores) score = static_cast<float>(random() % 100);
    for (const std::uint32_t row : choose_active_rows(scores, *stays)) {
      active.push_back(static_cast<std::uint32_t>(sample * shape.rows) + row);
    }
  }
  return active;
}

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
    SampleRows rows;
    rows.samples = setting.shape.batch;
    for (int peer = 0; peer < setting.ranks && !gathers; ++peer) {
      rows.whole.sent.push_back(layouts.scatters_all_rows(setting.tensor, rank, peer) ? 1 : 0);
      rows.whole.received.push_back(layouts.scatters_all_rows(setting.tensor, peer, rank) ? 1 : 0);
    }
    HostLauncher launcher;
    const std::size_t bytes = static_cast<std::size_t>(to.elements()) * bytes_of(setting.element);
    End device(std::make_unique<DeviceCoder>(layout, setting.element, rows,
                                             TransferMemory::of(DIT_MEMORY_HOST), launcher),
               remembered, options, bytes);
    End host(BlockCoder::make(DIT_MEMORY_HOST, layout, setting.element, rows), remembered, options, bytes);
    std::mt19937 random(setting.seed), own(setting.seed * 100 + static_cast<std::uint32_t>(rank));
    int lost = 0;
    for (int step = 0; step < 14; ++step) {
      const WireMode mode = random_mode(random, step == 0, !gathers);
      std::vector<WireMode> modes;
      for (const std::uint8_t slow : far) modes.push_back(slow != 0 ? mode : WireMode{});
      const std::vector<std::byte> source =
          tensor_of(from, setting.element, setting.seed * 100 + static_cast<std::uint32_t>(step * 10 + rank));
      const SourceTensor tensor(std::span<const std::byte>(source), from, dense_strides(from));
      const std::vector<std::uint32_t> active = active_of(from, mode.stays, own);
      const auto undone = static_cast<End::Undone>(random() % 3);
      device.step(context, modes, {tensor, active}, to, apart, undone);
      host.step(context, modes, {tensor, active}, to, apart, undone);
      ASSERT_EQ(device.target, host.target) << "step " << step << ", " << to_string(mode);
      ASSERT_EQ(device.ages, host.ages) << "step " << step << ", " << to_string(mode);
      ASSERT_TRUE(equal_bits(device.losses, host.losses)) << "step " << step << ", " << to_string(mode);
      lost += relative(host.losses.front()) > 0 ? 1 : 0;
    }
    ASSERT_EQ(lost > 0, std::ranges::any_of(layout.send, [&](const PeerBlock& block) {
                return &block != &layout.send[static_cast<std::size_t>(rank)] && block.elements() > 0;
              }));
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

// More segments than lanes that sum them; near the plain sum.
TEST(DeviceCoder, SumsOfALongBlockAreTheHosts) {
  constexpr std::int64_t kRows = 4111, kRow = 96;
  const ExchangeLayout layout{{{kRow, {{0, kRows, kRow}}}}, {{kRow, {{0, kRows, kRow}}}}};
  const TensorShape shape{1, kRows, 1, kRow};
  const std::vector<WireMode> modes{parse_wire_mode("residual int4")};
  HostLauncher launcher;
  const TransferMemory& memory = TransferMemory::of(DIT_MEMORY_HOST);
  for (const WireElement element : {WireElement::fp32, WireElement::bf16, WireElement::fp16}) {
    const std::vector<std::byte> source = tensor_of(shape, element, 7);
    DeviceCoder device(layout, element, {}, memory, launcher);
    const auto host = BlockCoder::make(DIT_MEMORY_HOST, layout, element, {});
    const auto loss_by = [&](BlockCoder& coder) {
      const auto remembered = coder.make_memory({{1}, {1}}, {});
      const TransferBuffer send = memory.allocate(coder.sizes(modes, WirePart::now).send_bytes);
      coder.encode(modes, WirePart::now, std::span<const std::byte>(source), remembered.get(), send, true, {},
                   nullptr);
      std::vector<std::byte> came(source.size());
      coder.decode(modes, send, remembered.get(), std::span(came), nullptr);
      std::vector<float> numbers(source.size() / bytes_of(element)), arrived(numbers.size());
      load_elements(source, element, numbers);
      load_elements(came, element, arrived);
      BlockLoss plain;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        plain.error += std::pow(static_cast<double>(numbers[i]) - static_cast<double>(arrived[i]), 2);
        plain.whole += std::pow(static_cast<double>(numbers[i]), 2);
      }
      const BlockLoss loss = coder.take_loss(nullptr);
      EXPECT_NEAR(loss.whole / plain.whole, 1, 1e-12);
      EXPECT_NEAR(relative(loss) / relative(plain), 1, 1e-3);  // what arrives is not yet rounded
      EXPECT_GT(relative(loss), 0.01);
      return loss;
    };
    EXPECT_TRUE(equal_bits({loss_by(device)}, {loss_by(*host)}));
  }
}

TEST(DeviceActiveRows, AreThoseOfTheHost) {
  for (const int most_age : {0, 2}) {
    for (const WireElement element : {WireElement::fp32, WireElement::bf16, WireElement::fp16}) {
      constexpr int kSteps = 12, kLayers = 2;
      WirePolicy policy = wire_policy_of(parse_v_major("v-major:warmup=2,refresh=5,ratio=0.6"), kSteps);
      policy.most_age = most_age;
      const WirePlan plan = far_plan(policy, kLayers, kSteps);
      const UlyssesLayout layout({3, 4, 30, 6, 6, 8}, 2);
      const TensorShape shape = layout.sequence_shape(AttentionTensor::value, 1);
      const TensorStrides fused{3 * dense_strides(shape).batch, 3 * dense_strides(shape).row, shape.head_dim};
      HostLauncher launcher;
      DeviceActiveRows device(plan, layout, 1, 2, element, TransferMemory::of(DIT_MEMORY_HOST), launcher);
      ActiveRows host(plan, layout, 1, 2, element);
      for (int step = 0; step < kSteps; ++step) {
        for (int layer = 0; layer < kLayers; ++layer) {
          const int unit = step > 3 ? layer : 0;  // the second one comes late
          TensorShape wide = shape;
          wide.heads *= 3;
          const auto value = tensor_of(wide, element, static_cast<std::uint32_t>(step / 2 * 7 + layer));
          const SourceTensor tensor(std::span<const std::byte>(value), shape, fused);
          device.choose(unit, {layer, step, 0}, tensor, nullptr);
          host.choose(unit, {layer, step, 0}, tensor);
          const std::span<const std::uint32_t> got = device.active(unit), expected = host.active(unit);
          ASSERT_TRUE(std::equal(got.begin(), got.end(), expected.begin(), expected.end()))
              << "step " << step << ", layer " << layer << ", most age " << most_age;
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
  EXPECT_THROW(coder.encode(modes, WirePart::now, std::span<const std::byte>(small), nullptr, buffer, false,
                            {}, nullptr),
               std::length_error);
  EXPECT_THROW(coder.decode(modes, buffer, nullptr, std::span(small), nullptr), std::length_error);
}

}  // namespace
}  // namespace dit
