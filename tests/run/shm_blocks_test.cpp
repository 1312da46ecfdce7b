// Memory for blocks that are packed as a whole: how much of it stays between exchanges. Blocks of several
// parts.
#include "run/shm_blocks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace tapa {
namespace {

/// Blocks of so many doubles, every other one of an array, in rows of three.
Exchange blocks_of(MPI_Count count, MPI_Datatype type) {
  Block block;
  block.count = count;
  block.type = type;
  block.bytes = static_cast<std::size_t>(count) * 3 * sizeof(double);
  Exchange exchange;
  exchange.send.assign(2, block);
  exchange.recv.assign(2, block);
  return exchange;
}

TEST(ShmBlocks, KeepsShortRoomsAndGivesLongOnesBack) {
  MPI_Datatype gaps = MPI_DATATYPE_NULL;
  MPI_Type_vector(3, 1, 2, MPI_DOUBLE, &gaps);
  MPI_Type_commit(&gaps);
  const Exchange brief = blocks_of(100, gaps);
  const Exchange lengthy = blocks_of(100'000, gaps);
  ShmBlocks blocks;
  blocks.describe(brief, MPI_COMM_SELF);
  const std::byte* const room = blocks.room(1, true, brief.send[1].bytes);
  EXPECT_NE(room, blocks.room(1, false, brief.recv[1].bytes));
  EXPECT_EQ(blocks.held_bytes(), 2 * brief.send[1].bytes);
  blocks.release_rooms();
  EXPECT_EQ(blocks.room(1, true, brief.send[1].bytes), room) << "no new memory for the next call";
  EXPECT_EQ(blocks.held_bytes(), 2 * brief.send[1].bytes);

  blocks.describe(lengthy, MPI_COMM_SELF);
  for (const std::size_t member : {0U, 1U}) {
    const std::size_t bytes = lengthy.send[member].bytes;
    for (const bool sent : {false, true}) blocks.room(member, sent, bytes)[bytes - 1] = {};
  }
  EXPECT_EQ(blocks.held_bytes(), 4 * lengthy.send[0].bytes);
  EXPECT_GT(blocks.held_bytes(), ShmBlocks::kKeptBytes);
  blocks.release_rooms();
  EXPECT_EQ(blocks.held_bytes(), 0U);
  MPI_Type_free(&gaps);
}

/// Blocks of two bytes each that lie apart.
std::vector<Block> parts_in(std::array<char, 6>& memory) {
  std::vector<Block> parts;
  for (const std::size_t at : {4U, 0U}) {
    Block part;
    part.data = reinterpret_cast<std::byte*>(memory.data() + at);
    part.bytes = 2;
    parts.push_back(part);
  }
  return parts;
}

TEST(ShmBlocks, MovesSeveralBlocksOfARankAsOne) {
  std::array<char, 6> from{'c', 'd', '-', '-', 'a', 'b'};
  std::array<char, 6> to{'.', '.', '.', '.', '.', '.'};
  const std::vector<Block> sent = parts_in(from);
  const std::vector<Block> received = parts_in(to);
  Exchange exchange;
  exchange.send.resize(1);
  exchange.recv.resize(1);
  exchange.send[0].bytes = exchange.recv[0].bytes = 4;
  exchange.send[0].parts = sent;
  exchange.recv[0].parts = received;
  ShmBlocks blocks;
  blocks.describe(exchange, MPI_COMM_SELF);
  EXPECT_EQ(blocks.send[0].data, nullptr);
  std::array<std::byte, 4> packed{};
  blocks.gather(0, 0, 4, packed.data());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(packed.data()), 4), "abcd");
  blocks.scatter(0, 0, 4, packed.data());
  EXPECT_EQ(std::string(to.data(), 6), "cd..ab");
  to.fill('.');
  blocks.copy(0);
  EXPECT_EQ(std::string(to.data(), 6), "cd..ab");
  // Where they end is not known of fewer bytes.
  EXPECT_THROW(blocks.scatter(0, 0, 3, packed.data()), TransportError);
}

}  // namespace
}  // namespace tapa
