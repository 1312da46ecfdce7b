// Memory for blocks that are packed as a whole: how much of it stays between exchanges.
#include "run/shm_blocks.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tapa
