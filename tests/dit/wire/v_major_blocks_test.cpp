// V-Major's rows between all ranks of a layout, without an exchange: blocks are handed over, and what arrives
// is compared with the published rule, row by row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>

#include "../uneven_shapes.hpp"
#include "wire/coded_blocks.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

using Rows = std::vector<std::uint32_t>;
using Values = std::vector<float>;

/// Numbers that bf16 holds too.
Values random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 511) - 255);
  return values;
}

/// A rank's active rows, as many of each sample as the ratio says.
Rows random_rows(const UlyssesLayout& layout, int rank, double ratio) {
  std::mt19937 random(static_cast<unsigned>(rank) + 7);
  const std::int64_t rows = layout.sequence_rows(rank);
  Rows active;
  for (std::int64_t sample = 0; sample < layout.shape().batch; ++sample) {
    std::vector<float> scores(static_cast<std::size_t>(rows));
    for (float& score : scores) score = static_cast<float>(random() % 1000);
    for (const std::uint32_t row : choose_active_rows(scores, ratio)) {
      active.push_back(static_cast<std::uint32_t>(sample * rows) + row);
    }
  }
  return active;
}

bool slow(int a, int b) {
  return a / 2 != b / 2;  // nodes of two
}

/// Where each row of a block begins in its tensor.
std::vector<std::int64_t> row_places(const PeerBlock& block) {
  std::vector<std::int64_t> places;
  for (const RowRun& run : block.runs) {
    for (std::int64_t i = 0; i < run.rows; ++i) places.push_back(run.offset + i * run.stride);
  }
  return places;
}

std::size_t most_elements(const std::vector<PeerBlock>& blocks) {
  std::int64_t most = 0;
  for (const PeerBlock& block : blocks) {
    for (const std::int64_t place : row_places(block)) most = std::max(most, place + block.row_elements);
  }
  return static_cast<std::size_t>(most);
}

/// One rank's end of a tensor's exchanges.
struct Side {
  Side(const UlyssesLayout& layout, AttentionTensor tensor, int rank, int group, int groups,
       bool both_remember)
      : full(layout.scatter_heads(tensor, rank, group, groups)) {
    SampleRows rows{layout.shape().batch, {}};
    PeerFlags remembered;
    for (int peer = 0; peer < layout.ranks(); ++peer) {
      rows.whole.sent.push_back(layout.scatters_all_rows(tensor, rank, peer));
      rows.whole.received.push_back(layout.scatters_all_rows(tensor, peer, rank));
      remembered.received.push_back(slow(rank, peer));
      remembered.sent.push_back(both_remember && slow(rank, peer));
    }
    blocks = std::make_unique<CodedBlocks>(full, WireElement::fp32, rows);
    memory = std::make_unique<ExchangeMemory>(full, remembered, MemoryOptions{0, true, 0});
    tensor_values = random_values(most_elements(full.send), static_cast<unsigned>(rank));
    came.resize(most_elements(full.recv));
    expected = came;
  }
  ExchangeLayout full;
  std::unique_ptr<CodedBlocks> blocks;
  std::unique_ptr<ExchangeMemory> memory;
  Values tensor_values, came, expected;
  Rows active;
  std::vector<WireMode> modes;
  CodedBlocks::Sizes sizes;
  std::vector<std::byte> sent, received;
};

std::vector<Side> sides_of(const UlyssesLayout& layout, AttentionTensor tensor, int group, int groups,
                           bool both_remember = false) {
  std::vector<Side> sides;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    sides.emplace_back(layout, tensor, rank, group, groups, both_remember);
  }
  return sides;
}

/// What becomes of rows side by side.
Values written_and_read(const Values& rows, std::int64_t row_elements, WireFormat format) {
  const Codec codec(format, WireElement::fp32);
  const std::int64_t count = static_cast<std::int64_t>(rows.size()) / row_elements;
  std::vector<std::byte> code(codec.encoded_bytes(count, row_elements));
  Values read(rows.size());
  codec.encode(count, row_elements, std::as_bytes(std::span(rows)), code);
  codec.decode(count, row_elements, code, std::as_writable_bytes(std::span(read)));
  return read;
}

/// The published rule: of blocks over slow links the active rows come, of others all.
void expect_rows(const UlyssesLayout& layout, std::vector<Side>& sides, const WireMode& mode) {
  for (int from = 0; from < layout.ranks(); ++from) {
    const Side& sender = sides[static_cast<std::size_t>(from)];
    const auto whole = static_cast<std::int64_t>(layout.shape().batch * layout.sequence_rows(from));
    for (int to = 0; to < layout.ranks(); ++to) {
      Side& receiver = sides[static_cast<std::size_t>(to)];
      const PeerBlock& block = sender.full.send[static_cast<std::size_t>(to)];
      if (block.elements() == 0) continue;
      Rows brought = sender.active;
      if (!slow(from, to) || block.rows() != whole) {
        brought.resize(static_cast<std::size_t>(block.rows()));
        for (std::uint32_t row = 0; row < brought.size(); ++row) brought[row] = row;
      }
      const auto source = row_places(block);
      const auto target = row_places(receiver.full.recv[static_cast<std::size_t>(from)]);
      Values rows;
      for (const std::uint32_t row : brought) {
        const auto first = sender.tensor_values.begin() + source[row];
        rows.insert(rows.end(), first, first + block.row_elements);
      }
      rows = written_and_read(rows, block.row_elements, slow(from, to) ? mode.format : WireFormat::full);
      for (std::size_t i = 0; i < brought.size(); ++i) {
        std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i) * block.row_elements, block.row_elements,
                    receiver.expected.begin() + target[brought[i]]);
      }
    }
  }
}

void exchange(const UlyssesLayout& layout, std::vector<Side>& sides, const WireMode& mode) {
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    Side& side = sides[static_cast<std::size_t>(rank)];
    side.modes.clear();
    for (int peer = 0; peer < layout.ranks(); ++peer) {
      side.modes.push_back(slow(rank, peer) ? mode : WireMode{});
    }
    side.sizes = side.blocks->sizes(side.modes);
    side.sent.resize(side.sizes.send_bytes);
    side.received.resize(side.sizes.recv_bytes);
    side.active = random_rows(layout, rank, mode.stays.value_or(0));
    side.blocks->encode(side.modes, WirePart::now, std::as_bytes(std::span(side.tensor_values)),
                        side.memory.get(), side.sent, nullptr, side.active);
  }
  for (std::size_t from = 0; from < sides.size(); ++from) {
    for (std::size_t to = 0; to < sides.size(); ++to) {
      const dit_block& sent = sides[from].sizes.send[to];
      const dit_block& expected = sides[to].sizes.recv[from];
      ASSERT_EQ(sent.bytes, expected.bytes) << from << " to " << to;
      std::copy_n(sides[from].sent.begin() + static_cast<std::ptrdiff_t>(sent.offset), sent.bytes,
                  sides[to].received.begin() + static_cast<std::ptrdiff_t>(expected.offset));
    }
  }
  for (Side& side : sides) {
    side.blocks->decode(side.modes, side.received, side.memory.get(),
                        std::as_writable_bytes(std::span(side.came)));
  }
}

TEST(VMajorBlocks, ActiveRowsReachTheirPlacesAndOthersStay) {
  for (const AttentionShape& shape : test::uneven_shapes()) {
    for (const int ranks : {1, 2, 5, 12}) {
      const UlyssesLayout layout(shape, ranks);
      for (const AttentionTensor tensor : {AttentionTensor::query, AttentionTensor::value}) {
        for (const int groups : {1, 3}) {
          std::vector<Side> sides = sides_of(layout, tensor, groups - 1, groups);
          unsigned seed = 100;
          for (const char* text : {"full", "v-major 0.4 full", "v-major 1 bf16", "bf16", "v-major 0.3 bf16",
                                   "v-major 0.5 fp8", "v-major 0 full"}) {
            SCOPED_TRACE(std::to_string(shape.heads) + " heads, " + std::to_string(ranks) + " ranks, " +
                         text);
            const WireMode mode = parse_wire_mode(text);
            exchange(layout, sides, mode);
            expect_rows(layout, sides, mode);
            for (Side& side : sides) {
              EXPECT_EQ(side.came, side.expected);
              side.tensor_values = random_values(side.tensor_values.size(), ++seed);
            }
          }
        }
      }
    }
  }
}

// Residuals of active rows: both ends remember the same, rows that stay are as they were, and the active ones
// come nearer to what they are each time.
TEST(VMajorBlocks, ResidualsOfActiveRows) {
  for (const AttentionShape& shape : test::uneven_shapes()) {
    const UlyssesLayout layout(shape, 5);
    std::vector<Side> sides = sides_of(layout, AttentionTensor::key, 0, 1, true);
    exchange(layout, sides, parse_wire_mode("residual int8"));
    std::vector<Values> before(sides.size());
    for (int time = 0; time < 2; ++time) {
      for (std::size_t rank = 0; rank < sides.size(); ++rank) before[rank] = sides[rank].came;
      exchange(layout, sides, parse_wire_mode("v-major 0.5 residual int4"));
      for (int from = 0; from < layout.ranks(); ++from) {
        for (int to = 0; to < layout.ranks(); ++to) {
          Side& sender = sides[static_cast<std::size_t>(from)];
          Side& receiver = sides[static_cast<std::size_t>(to)];
          const BlockMemory sent = sender.memory->sent_to(static_cast<std::size_t>(to));
          const BlockMemory received = receiver.memory->received_from(static_cast<std::size_t>(from));
          EXPECT_TRUE(std::equal(sent.reference.value.begin(), sent.reference.value.end(),
                                 received.reference.value.begin(), received.reference.value.end()));
          EXPECT_TRUE(
              std::equal(sent.ages.begin(), sent.ages.end(), received.ages.begin(), received.ages.end()));
          const PeerBlock& block = sender.full.send[static_cast<std::size_t>(to)];
          if (!slow(from, to) || block.rows() != shape.batch * layout.sequence_rows(from)) continue;
          const auto source = row_places(block);
          const auto target = row_places(receiver.full.recv[static_cast<std::size_t>(from)]);
          for (std::uint32_t row = 0; row < source.size() && block.elements() > 0; ++row) {
            const bool active = std::binary_search(sender.active.begin(), sender.active.end(), row);
            EXPECT_EQ(received.ages[row], active ? 0 : time + 1);
            for (std::int64_t i = 0; i < block.row_elements; ++i) {
              const auto at = static_cast<std::size_t>(target[row] + i);
              const float wanted = sender.tensor_values[static_cast<std::size_t>(source[row] + i)];
              const float was = before[static_cast<std::size_t>(to)][at];
              EXPECT_LE(std::abs(receiver.came[at] - wanted), active ? 0.5F : std::abs(was - wanted));
              EXPECT_EQ(receiver.came[at], active ? receiver.came[at] : was);
            }
          }
        }
      }
    }
  }
}

TEST(VMajorBlocks, BytesOfABlock) {
  const UlyssesLayout layout({2, 0, 20, 4, 4, 8}, 2);  // ten tokens, two heads a rank
  const CodedBlocks blocks(layout.scatter_heads(AttentionTensor::key, 0), WireElement::fp32,
                           {2, {{1, 1}, {1, 1}}});
  const auto bytes = [&](const char* mode) {
    const std::vector<WireMode> modes = {WireMode{}, parse_wire_mode(mode)};
    EXPECT_EQ(blocks.sizes(modes).send[0].bytes, 2U * 10 * 2 * 8 * 4);
    EXPECT_EQ(blocks.sizes(modes).recv[1].bytes, blocks.sizes(modes).send[1].bytes);
    return blocks.sizes(modes).send[1].bytes;
  };
  const std::size_t mask = 3;  // a bit for each of 20 rows
  EXPECT_EQ(bytes("v-major 0.5 full"), mask + 2U * 5 * 2 * 8 * 4);
  EXPECT_EQ(bytes("v-major 0.5 bf16"), mask + 2U * 5 * 2 * 8 * 2);
  EXPECT_EQ(bytes("v-major 0.25 full"), mask + 2U * 8 * 2 * 8 * 4);  // of each sample's ten two stay
  EXPECT_EQ(bytes("v-major 1 full"), mask);
  EXPECT_EQ(bytes("v-major 0 bf16"), mask + 2U * 10 * 2 * 8 * 2);
}

TEST(VMajorBlocks, SendersNeedNotRemember) {
  const UlyssesLayout layout({1, 0, 8, 2, 2, 2}, 4);
  Side side(layout, AttentionTensor::value, 0, 0, 1, false);
  EXPECT_TRUE(side.memory->sent_to(3).reference.value.empty());
  EXPECT_EQ(ExchangeMemory::bytes(side.full, {{0, 0, 0, 0}, {0, 0, 1, 1}}, {}).reference, 0U);
}

/// What `call` throws, or "".
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

TEST(VMajorBlocks, RefusesWhatDoesNotFit) {
  const UlyssesLayout layout({1, 0, 8, 2, 2, 2}, 4);  // two tokens a rank
  Side side(layout, AttentionTensor::value, 0, 0, 1, false);
  const WireMode mode = parse_wire_mode("v-major 0.5 full");
  const std::vector<WireMode> modes = {WireMode{}, WireMode{}, mode, mode};
  const CodedBlocks::Sizes sizes = side.blocks->sizes(modes);
  std::vector<std::byte> sent(sizes.send_bytes), received(sizes.recv_bytes);
  const auto encode = [&](const Rows& active, std::span<const float> tensor) {
    return refusal([&] {
      side.blocks->encode(modes, WirePart::now, std::as_bytes(tensor), side.memory.get(), sent, nullptr,
                          active);
    });
  };
  const std::span<const float> tensor(side.tensor_values);
  EXPECT_EQ(encode({1}, tensor), "");
  EXPECT_EQ(encode({0, 1}, tensor), "what is active has 2 rows: expected 1 of 2");
  EXPECT_EQ(encode({2}, tensor), "active row 2: expected less than rows = 2");
  EXPECT_NE(encode({1}, tensor.first(5)), "");
  const auto decode = [&](std::span<float> into) {
    return refusal(
        [&] { side.blocks->decode(modes, received, side.memory.get(), std::as_writable_bytes(into)); });
  };
  received[sizes.recv[2].offset] = std::byte{0b10};
  received[sizes.recv[3].offset] = std::byte{0b01};
  EXPECT_EQ(decode(side.came), "");
  EXPECT_NE(decode(std::span(side.came).first(7)), "");
  received[sizes.recv[3].offset] = std::byte{0b11};
  EXPECT_EQ(decode(side.came), "from rank 3: a row mask has 2 rows: expected 1 of 2");
  received[sizes.recv[3].offset] = std::byte{0b101};
  EXPECT_EQ(decode(side.came), "from rank 3: row mask has row 2: expected none at or beyond rows = 2");
}

}  // namespace
}  // namespace dit
