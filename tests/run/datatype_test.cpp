// Packing against MPI_Pack, for types whose runs are copied here and for others.
#include "run/datatype.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tapa {
namespace {

constexpr MPI_Count kElements = 3;
constexpr std::size_t kOrigin = 2000;  // types may reach below their origin
constexpr std::size_t kMemory = 4000;

std::vector<std::byte> numbered() {
  std::vector<std::byte> bytes(kMemory);
  for (std::size_t i = 0; i < kMemory; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

/// Packs and unpacks with us and with MPI.
void compare(MPI_Datatype type) {
  MPI_Type_commit(&type);
  const TypeInfo info = type_info(type);
  const std::size_t bytes = info.size * kElements;
  const std::vector<std::byte> from = numbered();
  std::vector<std::byte> ours(bytes);
  std::vector<std::byte> theirs(bytes);
  pack(from.data() + kOrigin, kElements, type, info, ours.data(), MPI_COMM_SELF);
  int at = 0;
  MPI_Pack(from.data() + kOrigin, kElements, type, theirs.data(), static_cast<int>(bytes), &at,
           MPI_COMM_SELF);
  EXPECT_EQ(ours, theirs);
  std::vector<std::byte> ours_back(kMemory);
  std::vector<std::byte> theirs_back(kMemory);
  unpack(theirs.data(), ours_back.data() + kOrigin, kElements, type, info, MPI_COMM_SELF);
  at = 0;
  MPI_Unpack(theirs.data(), static_cast<int>(bytes), &at, theirs_back.data() + kOrigin, kElements, type,
             MPI_COMM_SELF);
  EXPECT_EQ(ours_back, theirs_back);
  MPI_Type_free(&type);
}

MPI_Datatype vector_of(int count, int length, int stride, MPI_Datatype of) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(count, length, stride, of, &type);
  return type;
}

MPI_Datatype spread(MPI_Datatype of, MPI_Aint extent) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(of, 0, extent, &type);
  return type;
}

TEST(Datatype, VectorsOfAllRunLengths) {
  for (int length : {1, 2, 3, 5}) {
    compare(vector_of(4, length, 7, MPI_DOUBLE));
    compare(vector_of(4, length, 7, MPI_INT));
    compare(vector_of(4, length, 7, MPI_CHAR));
  }
}

TEST(Datatype, VectorsBackwards) {
  compare(vector_of(4, 2, -3, MPI_DOUBLE));
  compare(spread(vector_of(4, 1, -2, MPI_INT), 200));
}

TEST(Datatype, ElementsWithGaps) {
  compare(spread(MPI_DOUBLE, 24));
  compare(spread(vector_of(3, 1, 2, MPI_DOUBLE), 8));
  compare(vector_of(2, 1, 2, spread(MPI_INT, 16)));
}

// Types may hold absolute addresses: the origin is then MPI_BOTTOM, or an address reckoned from it.
TEST(Datatype, OriginsThatAreNoAddresses) {
  std::vector<int> memory(14);
  for (int i = 0; i < 14; ++i) memory[static_cast<std::size_t>(i)] = i;
  const std::vector<int> expected = {0, 2, 4, 6, 7, 9, 11, 13};
  for (const MPI_Aint offset : {0, -240, 240}) {
    std::byte* const origin = address_at(MPI_BOTTOM, offset);
    MPI_Aint place = 0;
    MPI_Get_address(memory.data(), &place);
    place -= offset;
    MPI_Datatype there = MPI_DATATYPE_NULL;
    MPI_Type_create_hindexed_block(1, 1, &place, MPI_INT, &there);
    MPI_Datatype type = vector_of(4, 1, 2, there);
    MPI_Type_free(&there);
    MPI_Type_commit(&type);
    const TypeInfo info = type_info(type);
    EXPECT_EQ(info.runs, 4U);
    std::vector<int> dense(8, -1);
    pack(origin, 2, type, info, reinterpret_cast<std::byte*>(dense.data()), MPI_COMM_SELF);
    EXPECT_EQ(dense, expected);
    for (const int i : expected) memory[static_cast<std::size_t>(i)] = -1;
    unpack(reinterpret_cast<const std::byte*>(dense.data()), origin, 2, type, info, MPI_COMM_SELF);
    for (const int i : expected) EXPECT_EQ(memory[static_cast<std::size_t>(i)], i);
    MPI_Type_free(&type);
  }
}

TEST(Datatype, OthersAreLeftToMpi) {
  MPI_Datatype inner = vector_of(2, 1, 2, MPI_INT);
  EXPECT_EQ(type_info(inner).runs, 2U);
  const MPI_Datatype nested = vector_of(3, 1, 4, inner);
  MPI_Type_free(&inner);
  EXPECT_EQ(type_info(nested).runs, 0U);
  compare(nested);
}

#if MPI_VERSION >= 4
// Their recipes cannot be had as ints, and asking for them would call the error handler.
TEST(Datatype, TypesOfLargeCountsArePacked) {
  MPI_Datatype large = MPI_DATATYPE_NULL;
  MPI_Type_vector_c(3, 1, 2, MPI_INT, &large);
  EXPECT_EQ(type_info(large).runs, 0U);
  MPI_Datatype nested = vector_of(2, 1, 2, large);
  MPI_Type_free(&large);
  compare(nested);
  MPI_Type_vector_c(3, 1, 2, MPI_INT, &large);
  compare(large);
}
#endif

// MPI gives the handle of a freed type to the next one.
TEST(Datatype, FreedTypesAreForgotten) {
  for (int length = 1; length < 20; ++length) {
    MPI_Datatype type = vector_of(2, length, 40, MPI_INT);
    EXPECT_EQ(type_info(type).size, static_cast<std::size_t>(8 * length));
    MPI_Type_free(&type);
  }
}

}  // namespace
}  // namespace tapa
