// Blocks under a policy as devices code them, on the host: what arrives must have the bits of the
// processor's.
#include "transfer/device/device_coder.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "exchange/local/local_ranks.hpp"
#include "host_warp.hpp"

namespace dit {
namespace {

class HostLauncher final : public CodeLauncher {
 public:
  void launch(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
              void* /*stream*/) override {
    run_on_host(work, format, remembers, jobs);
  }
};

// The same on all ranks.
WireMode random_mode(std::mt19937& random, bool first) {
  WireMode mode;
  mode.format = static_cast<WireFormat>(random() % kWireFormats);
  mode.residual = random() % 2 == 0;
  mode.late = !first && random() % 4 == 0;
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
    const MemoryOptions options{setting.momentum, true, 0};
    HostLauncher launcher;
    const std::size_t bytes = static_cast<std::size_t>(to.elements()) * bytes_of(setting.element);
    End device(std::make_unique<DeviceCoder>(layout, setting.element, SampleRows{},
                                             TransferMemory::of(DIT_MEMORY_HOST), launcher),
               remembered, options, bytes);
    End host(BlockCoder::make(DIT_MEMORY_HOST, layout, setting.element, {}), remembered, options, bytes);
    std::mt19937 random(setting.seed);
    for (int step = 0; step < 10; ++step) {
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
