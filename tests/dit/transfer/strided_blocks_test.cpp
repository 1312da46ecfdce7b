// Tensors that travel out of and into their strides, and rows that are stored right into the ranks' targets:
// what arrives is what pack and unpack make of dense ones.
#include "transfer/strided_blocks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "../uneven_shapes.hpp"
#include "c_interface/joint_exchange.hpp"
#include "transfer/joint_plan.hpp"
#include "transfer/push_map.hpp"
#include "wire/pack.hpp"

namespace dit {
namespace {

using Element = std::int32_t;
constexpr Element kUntouched = -1;

enum class Lies { dense, slice, heads_first };
constexpr std::array kLies{Lies::dense, Lies::slice, Lies::heads_first};

TensorStrides strides_of(const TensorShape& shape, Lies lies) {
  if (lies == Lies::dense) return dense_strides(shape);
  if (lies == Lies::slice) {  // of a fused product
    const std::int64_t row = 3 * shape.row_elements();
    return {shape.rows * row, row, shape.head_dim};
  }
  return {shape.elements() / std::max<std::int64_t>(shape.batch, 1), shape.head_dim,
          shape.rows * shape.head_dim};
}

struct Tensor {
  Tensor(const TensorShape& of, Lies lies, Element first)
      : shape(of),
        strides(strides_of(of, lies)),
        memory(static_cast<std::size_t>(extent(of, strides)), kUntouched) {
    if (first < 0) return;
    for_each([&](std::int64_t at) { memory[static_cast<std::size_t>(at)] = first++; });
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t b = 0; b < shape.batch; ++b)
      for (std::int64_t r = 0; r < shape.rows; ++r)
        for (std::int64_t h = 0; h < shape.heads; ++h)
          for (std::int64_t d = 0; d < shape.head_dim; ++d)
            visit(b * strides.batch + r * strides.row + h * strides.head + d);
  }
  [[nodiscard]] std::vector<Element> numbers() const {
    std::vector<Element> all;
    for_each([&](std::int64_t at) { all.push_back(memory[static_cast<std::size_t>(at)]); });
    return all;
  }
  TensorShape shape;
  TensorStrides strides;
  std::vector<Element> memory;
};

// The bytes of a block, in the order in which they travel.
std::vector<std::size_t> places(const dit_strided_block& block) {
  std::vector<std::size_t> at;
  for (std::size_t plane = 0; plane < block.planes; ++plane)
    for (std::size_t row = 0; row < block.rows; ++row)
      for (std::size_t byte = 0; byte < block.row_bytes; ++byte)
        at.push_back(block.offset + plane * block.plane_stride + row * block.row_stride + byte);
  return at;
}

void move(const Tensor& from, const dit_strided_block& sent, Tensor& to, const dit_strided_block& received) {
  const std::vector<std::size_t> source = places(sent), target = places(received);
  ASSERT_EQ(source.size(), target.size());
  const auto* const in = reinterpret_cast<const char*>(from.memory.data());
  auto* const out = reinterpret_cast<char*>(to.memory.data());
  for (std::size_t i = 0; i < source.size(); ++i) {
    ASSERT_LT(source[i], from.memory.size() * sizeof(Element));
    ASSERT_LT(target[i], to.memory.size() * sizeof(Element));
    out[target[i]] = in[source[i]];
  }
}

class Exchange {
 public:
  Exchange(const AttentionShape& shape, int ranks, AttentionTensor tensor, int group, int groups)
      : layout_(shape, ranks), tensor_(tensor), group_(group), groups_(groups) {
    for (int rank = 0; rank < ranks; ++rank) {
      sources_.push_back(layout_.sequence_shape(tensor, rank));
      targets_.push_back(layout_.head_shape(tensor, rank, group, groups));
      if (tensor == AttentionTensor::output) std::swap(sources_.back(), targets_.back());
    }
    expect();
  }

  void check_strided(Lies from, Lies to) const {
    std::vector<Tensor> sources, targets;
    make(from, to, sources, targets);
    const std::size_t parts = strided_parts(layout_, tensor_, 0, group_, groups_).size();
    for (std::size_t part = 0; part < parts; ++part) {
      for (std::size_t sender = 0; sender < sources.size(); ++sender) {
        for (std::size_t receiver = 0; receiver < targets.size(); ++receiver)
          move_part(part, sender, receiver, sources, targets);
      }
    }
    require_expected(targets);
  }

  void check_pushed(Lies from, Lies to) const {
    std::vector<Tensor> sources, targets;
    make(from, to, sources, targets);
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      const Tensor& source = sources[static_cast<std::size_t>(rank)];
      std::vector<int> times(targets.size());
      for (const PushPart& part : push_parts(layout_, tensor_, rank, group_, groups_)) {
        EXPECT_LE(++times[static_cast<std::size_t>(part.peer)], 2);
        push(source, part, targets[static_cast<std::size_t>(part.peer)]);
      }
    }
    require_expected(targets);
  }

  /// All tensors in one message for each pair of ranks, in bytes as they would travel.
  static void check_joint(const std::vector<Exchange>& exchanges, Lies from, Lies to) {
    const int ranks = exchanges[0].layout_.ranks();
    std::vector<std::vector<Tensor>> sources(exchanges.size()), targets(exchanges.size());
    std::vector<JointTensor> tensors;
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      const Exchange& one = exchanges[i];
      one.make(from, to, sources[i], targets[i]);
      tensors.push_back({&one.layout_, one.tensor_, one.group_, one.groups_, sizeof(Element)});
    }
    std::vector<JointPlan> plans;
    std::vector<std::vector<std::byte>> sent, received;
    for (int rank = 0; rank < ranks; ++rank) {
      const JointPlan& plan = plans.emplace_back(plan_joint(tensors, rank, ranks));
      sent.emplace_back(plan.send_bytes);
      received.emplace_back(plan.recv_bytes);
      for (std::size_t i = 0; i < exchanges.size(); ++i) {
        const Tensor& source = sources[i][static_cast<std::size_t>(rank)];
        for (const PushPart& part : plan.own[i])
          push(source, part, targets[i][static_cast<std::size_t>(rank)]);
        for (const Departure& leaves : plan.departures[i]) {
          EXPECT_EQ(leaves.offset % kBlockGrain, 0U);
          lay(source, leaves, sent.back());
        }
      }
    }
    deliver(plans, sent, received);
    for (std::size_t rank = 0; rank < plans.size(); ++rank)
      for (std::size_t i = 0; i < exchanges.size(); ++i) {
        Tensor& target = targets[i][rank];
        const auto rows = c_interface::arriving_rows(plans[rank].arrivals[i], target.shape, target.strides,
                                                     sizeof(Element));
        TransferMemory::of(DIT_MEMORY_HOST)
            .unpack_rows(rows, TransferBuffer::borrowed(received[rank]),
                         {std::as_writable_bytes(std::span(target.memory)), target.shape, target.strides},
                         nullptr);
      }
    for (std::size_t i = 0; i < exchanges.size(); ++i) exchanges[i].require_expected(targets[i]);
  }

 private:
  /// A block that leaves, dense.
  static void lay(const Tensor& source, const Departure& leaves, std::vector<std::byte>& buffer) {
    const PushPart& part = leaves.part;
    Tensor block({source.shape.batch, part.rows.size(), part.heads.size(), source.shape.head_dim},
                 Lies::dense, kUntouched);
    PushPart whole = part;
    whole.target_row = 0;
    push(source, whole, block);
    const std::size_t bytes = block.memory.size() * sizeof(Element);
    ASSERT_LE(leaves.offset + bytes, buffer.size());
    std::memcpy(buffer.data() + leaves.offset, block.memory.data(), bytes);
  }

  static void deliver(const std::vector<JointPlan>& plans, const std::vector<std::vector<std::byte>>& sent,
                      std::vector<std::vector<std::byte>>& received) {
    for (std::size_t from = 0; from < plans.size(); ++from)
      for (std::size_t to = 0; to < plans.size(); ++to) {
        const dit_block out = plans[from].send[to], in = plans[to].recv[from];
        ASSERT_EQ(out.bytes, in.bytes);
        ASSERT_TRUE(from != to || out.bytes == 0);
        ASSERT_LE(out.offset + out.bytes, sent[from].size());
        ASSERT_LE(in.offset + in.bytes, received[to].size());
        if (out.bytes > 0)
          std::memcpy(received[to].data() + in.offset, sent[from].data() + out.offset, out.bytes);
      }
  }

  void make(Lies from, Lies to, std::vector<Tensor>& sources, std::vector<Tensor>& targets) const {
    Element first = 0;
    for (const TensorShape& shape : sources_) {
      sources.emplace_back(shape, from, first);
      first += static_cast<Element>(shape.elements());
    }
    for (const TensorShape& shape : targets_) targets.emplace_back(shape, to, kUntouched);
  }

  // By pack and unpack of dense tensors.
  void expect() {
    std::vector<Tensor> sources, targets;
    make(Lies::dense, Lies::dense, sources, targets);
    const std::size_t ranks = sources.size();
    for (std::size_t receiver = 0; receiver < ranks; ++receiver) {
      std::vector<std::byte> arrived;
      for (std::size_t sender = 0; sender < ranks; ++sender) {
        const ExchangeLayout exchange = layout_.exchange(tensor_, static_cast<int>(sender), group_, groups_);
        std::vector<std::byte> packed(packed_bytes(exchange.send, sizeof(Element)));
        pack(exchange.send, sizeof(Element), std::as_bytes(std::span(sources[sender].memory)), packed);
        const dit_block block = packed_blocks(exchange.send, sizeof(Element))[receiver];
        arrived.insert(arrived.end(), packed.begin() + static_cast<std::ptrdiff_t>(block.offset),
                       packed.begin() + static_cast<std::ptrdiff_t>(block.offset + block.bytes));
      }
      unpack(layout_.exchange(tensor_, static_cast<int>(receiver), group_, groups_).recv, sizeof(Element),
             arrived, std::as_writable_bytes(std::span(targets[receiver].memory)));
      expected_.push_back(targets[receiver].numbers());
    }
  }

  void move_part(std::size_t part, std::size_t sender, std::size_t receiver,
                 const std::vector<Tensor>& sources, std::vector<Tensor>& targets) const {
    const auto parts_of = [&](std::size_t rank) {
      return strided_parts(layout_, tensor_, static_cast<int>(rank), group_, groups_);
    };
    const Tensor& source = sources[sender];
    Tensor& target = targets[receiver];
    const auto sent =
        strided_block(parts_of(sender)[part].send[receiver], sizeof(Element), source.shape, source.strides);
    const auto received =
        strided_block(parts_of(receiver)[part].recv[sender], sizeof(Element), target.shape, target.strides);
    ASSERT_TRUE(sent && received);
    move(source, *sent, target, *received);
  }

  static void push(const Tensor& source, const PushPart& part, Tensor& target) {
    for (std::int64_t b = 0; b < source.shape.batch; ++b)
      for (std::int64_t r = part.rows.begin; r < part.rows.end; ++r)
        for (std::int64_t h = part.heads.begin; h < part.heads.end; ++h)
          for (std::int64_t d = 0; d < source.shape.head_dim; ++d) {
            const std::int64_t from =
                b * source.strides.batch + r * source.strides.row + h * source.strides.head + d;
            const std::int64_t to = b * target.strides.batch +
                                    (part.target_row + r - part.rows.begin) * target.strides.row +
                                    (h - part.heads.begin) * target.strides.head + d;
            target.memory.at(static_cast<std::size_t>(to)) = source.memory.at(static_cast<std::size_t>(from));
          }
  }

  void require_expected(const std::vector<Tensor>& targets) const {
    for (std::size_t rank = 0; rank < targets.size(); ++rank)
      ASSERT_EQ(targets[rank].numbers(), expected_[rank]) << "rank " << rank;
  }

  UlyssesLayout layout_;
  AttentionTensor tensor_;
  int group_, groups_;
  std::vector<TensorShape> sources_, targets_;
  std::vector<std::vector<Element>> expected_;
};

std::vector<AttentionShape> all_shapes() {
  std::vector<AttentionShape> shapes = test::uneven_shapes();
  for (const std::int64_t batch : {1, 3})
    for (const JointOrder order : {JointOrder::text_image, JointOrder::image_text})
      for (const TextPlacement text : {TextPlacement::split, TextPlacement::replicated}) {
        shapes.push_back({batch, 4, 7, 5, 5, 2, order, text});
        shapes.push_back({batch, 2, 9, 4, 2, 3, order, text});
        shapes.push_back({batch, 3, 0, 6, 6, 1, order, text});
      }
  return shapes;
}

// Heads that lie apart in several samples are one level of strides too many.
bool has_blocks(const AttentionShape& shape, Lies lies) {
  return lies != Lies::heads_first || shape.batch == 1;
}

TEST(StridedBlocks, CarryAllTensorsAsPackAndUnpackDo) {
  for (const AttentionShape& shape : all_shapes()) {
    for (int ranks = 1; ranks <= 7; ++ranks) {
      for (int tensor = 0; tensor < kAttentionTensors; ++tensor) {
        for (int groups = 1; groups <= 2; ++groups) {
          const Exchange exchange(shape, ranks, static_cast<AttentionTensor>(tensor), groups - 1, groups);
          for (const Lies from : kLies) {
            for (const Lies to : kLies) {
              if (!has_blocks(shape, from) || !has_blocks(shape, to)) continue;
              exchange.check_strided(from, to);
              ASSERT_FALSE(HasFatalFailure()) << "ranks " << ranks << ", tensor " << tensor;
            }
          }
        }
      }
    }
  }
}

TEST(PushMap, StoresEveryRowWhereItBelongs) {
  for (const AttentionShape& shape : all_shapes()) {
    for (int ranks = 1; ranks <= 7; ++ranks) {
      for (const AttentionTensor tensor :
           {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value}) {
        for (int groups = 1; groups <= 2; ++groups) {
          const Exchange exchange(shape, ranks, tensor, groups - 1, groups);
          exchange.check_pushed(Lies::slice, Lies::heads_first);
          exchange.check_pushed(Lies::dense, Lies::dense);
          ASSERT_FALSE(HasFatalFailure()) << "ranks " << ranks;
        }
      }
    }
  }
}

bool same(const std::optional<dit_strided_block>& a, const dit_strided_block& b) {
  return a && std::memcmp(&*a, &b, sizeof(b)) == 0;
}

TEST(StridedBlocks, JoinWhatLiesTogether) {
  const TensorShape shape{2, 5, 4, 8};
  const PeerBlock all{32, {{0, 10, 32}}};
  const PeerBlock half{16, {{16, 10, 32}}};
  EXPECT_TRUE(
      same(strided_block(all, 2, shape, dense_strides(shape)), dit_strided_block{0, 640, 1, 640, 1, 0}));
  EXPECT_TRUE(
      same(strided_block(half, 2, shape, dense_strides(shape)), dit_strided_block{32, 32, 10, 64, 1, 0}));
  // A slice of a fused product whose samples lie apart.
  EXPECT_TRUE(same(strided_block(half, 2, shape, {1000, 96, 8}), dit_strided_block{32, 32, 5, 192, 2, 2000}));
  EXPECT_TRUE(same(strided_block({}, 2, shape, dense_strides(shape)), dit_strided_block{}));
}

TEST(StridedBlocks, TooManyLevelsHaveNone) {
  const TensorShape shape{2, 5, 4, 8};
  const PeerBlock half{16, {{16, 10, 32}}};
  EXPECT_FALSE(strided_block(half, 2, shape, {1000, 8, 40}).has_value());  // heads first, samples apart
  EXPECT_FALSE(strided_block(half, 2, shape, {160, 0, 8}).has_value());    // one row for all
}

TEST(StridedBlocks, GoTogetherInOneMessageForEachRank) {
  constexpr std::array kScattered{AttentionTensor::value, AttentionTensor::query, AttentionTensor::key};
  for (const AttentionShape& shape : all_shapes()) {
    for (int ranks = 1; ranks <= 7; ++ranks) {
      for (int groups = 1; groups <= 2; ++groups) {
        std::vector<Exchange> exchanges;
        for (const AttentionTensor tensor : kScattered)
          exchanges.emplace_back(shape, ranks, tensor, groups - 1, groups);
        for (const Lies from : kLies) {
          for (const Lies to : kLies) {
            Exchange::check_joint(exchanges, from, to);
            ASSERT_FALSE(HasFatalFailure()) << "ranks " << ranks;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace dit
