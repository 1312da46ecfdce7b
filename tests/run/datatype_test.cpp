// Packing against MPI_Pack, for types whose runs are copied here and for others.
#include "run/datatype.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "run/long_elements.hpp"
#include "run/type_layout.hpp"

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

/// As it is known after some calls.
TypeInfo whole_info(MPI_Datatype type) {
  return read_recipe(type);
}

/// All parts of what is packed at every place and of every length that the type allows.
void compare_parts(MPI_Datatype type, const TypeInfo& info, const std::vector<std::byte>& packed) {
  const std::vector<std::byte> from = numbered();
  std::vector<std::byte> nothing = from;
  pack_part(from.data() + kOrigin, 0, 0, type, info, nothing.data(), MPI_COMM_SELF);
  unpack_part(from.data(), nothing.data() + kOrigin, 0, 0, type, info, MPI_COMM_SELF);
  EXPECT_EQ(nothing, from);
  if (info.size == 0) return;
  for (std::size_t begin = 0; begin < packed.size(); begin += info.part()) {
    for (std::size_t bytes = info.part(); begin + bytes <= packed.size(); bytes += info.part()) {
      std::vector<std::byte> part(bytes);
      pack_part(from.data() + kOrigin, begin, bytes, type, info, part.data(), MPI_COMM_SELF);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), packed.begin() + static_cast<std::ptrdiff_t>(begin)))
          << begin << " " << bytes;
    }
  }
  for (const std::size_t parts : {1, 2, 3}) {
    std::vector<std::byte> back(kMemory);
    std::vector<std::byte> whole(kMemory);
    unpack(packed.data(), whole.data() + kOrigin, kElements, type, info, MPI_COMM_SELF);
    for (std::size_t begin = 0; begin < packed.size(); begin += parts * info.part()) {
      const std::size_t bytes = std::min(parts * info.part(), packed.size() - begin);
      unpack_part(packed.data() + begin, back.data() + kOrigin, begin, bytes, type, info, MPI_COMM_SELF);
    }
    EXPECT_EQ(back, whole) << parts;
  }
}

/// What is unpacked may end within a run: the rest stays as it was.
void compare_ends(MPI_Datatype type, const TypeInfo& info, const std::vector<std::byte>& packed) {
  MPI_Aint first = 0;
  MPI_Aint span = 0;
  MPI_Type_get_true_extent(type, &first, &span);
  if (info.size == 0 || std::abs(info.extent) < span) return;  // no data, or elements that share memory
  for (std::size_t bytes = 1; bytes <= packed.size(); ++bytes) {
    std::vector<std::byte> ours(kMemory, std::byte{1});
    unpack_part(packed.data(), ours.data() + kOrigin, 0, bytes, type, info, MPI_COMM_SELF);
    std::vector<std::byte> rest(packed.size(), std::byte{1});
    std::copy_n(packed.begin(), bytes, rest.begin());
    std::vector<std::byte> whole(kMemory, std::byte{1});
    unpack(rest.data(), whole.data() + kOrigin, kElements, type, info, MPI_COMM_SELF);
    ASSERT_EQ(ours, whole) << bytes;
  }
}

/// Packs and unpacks with us and with MPI.
void compare(MPI_Datatype type, const TypeInfo& info) {
  const std::size_t bytes = info.size * kElements;
  const std::vector<std::byte> from = numbered();
  std::vector<std::byte> ours(bytes);
  std::vector<std::byte> theirs(bytes);
  theirs.reserve(kMemory);  // MPI_Pack refuses a null pointer also for no data
  pack(from.data() + kOrigin, kElements, type, info, ours.data(), MPI_COMM_SELF);
  int at = 0;
  MPI_Pack(from.data() + kOrigin, kElements, type, theirs.data(), static_cast<int>(bytes), &at,
           MPI_COMM_SELF);
  EXPECT_EQ(ours, theirs);
  compare_parts(type, info, theirs);
  compare_ends(type, info, theirs);
  std::vector<std::byte> ours_back(kMemory);
  std::vector<std::byte> theirs_back(kMemory);
  unpack(theirs.data(), ours_back.data() + kOrigin, kElements, type, info, MPI_COMM_SELF);
  at = 0;
  MPI_Unpack(theirs.data(), static_cast<int>(bytes), &at, theirs_back.data() + kOrigin, kElements, type,
             MPI_COMM_SELF);
  EXPECT_EQ(ours_back, theirs_back);
}

/// When it is new, and after some calls.
void compare(MPI_Datatype type) {
  MPI_Type_commit(&type);
  compare(type, type_info(type));
  compare(type, whole_info(type));
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

MPI_Datatype subarray_of(const std::vector<int>& sizes, const std::vector<int>& parts,
                         const std::vector<int>& starts, int order, MPI_Datatype of) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(static_cast<int>(sizes.size()), sizes.data(), parts.data(), starts.data(), order,
                           of, &type);
  return type;
}

/// Data of one type to that of another, against MPI_Pack and MPI_Unpack.
void compare_copies(MPI_Datatype one, MPI_Datatype other) {
  MPI_Type_commit(&one);
  MPI_Type_commit(&other);
  const TypeInfo one_info = whole_info(one);
  const TypeInfo other_info = whole_info(other);
  ASSERT_EQ(one_info.size, other_info.size);
  const std::vector<std::byte> from = numbered();
  std::vector<std::byte> packed(one_info.size * kElements);
  const auto bytes = static_cast<int>(packed.size());
  int at = 0;
  MPI_Pack(from.data() + kOrigin, kElements, one, packed.data(), bytes, &at, MPI_COMM_SELF);
  std::vector<std::byte> ours(kMemory);
  std::vector<std::byte> theirs(kMemory);
  at = 0;
  MPI_Unpack(packed.data(), bytes, &at, theirs.data() + kOrigin, kElements, other, MPI_COMM_SELF);
  EXPECT_TRUE(
      copy_elements(from.data() + kOrigin, one_info, ours.data() + kOrigin, other_info, packed.size()));
  EXPECT_EQ(ours, theirs);
  MPI_Type_free(&one);
  MPI_Type_free(&other);
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

// Open MPI 4.1 takes a distance of -1 byte for that of neighbours: what it moves then is moved here too.
TEST(Datatype, BytesBackwards) {
  compare(vector_of(4, 1, -1, MPI_CHAR));
  compare(spread(vector_of(3, 1, -1, MPI_CHAR), 8));
  compare(spread(vector_of(2, 2, -1, MPI_CHAR), 8));
}

TEST(Datatype, ElementsWithGaps) {
  compare(spread(MPI_DOUBLE, 24));
  compare(spread(vector_of(3, 1, 2, MPI_DOUBLE), 8));
  compare(vector_of(2, 1, 2, spread(MPI_INT, 16)));
}

TEST(Datatype, ElementsWithoutData) {
  compare(vector_of(0, 1, 2, MPI_INT));
  compare(spread(vector_of(3, 0, 2, MPI_INT), 16));
  compare(subarray_of({4, 4}, {2, 2}, {1, 1}, MPI_ORDER_C, vector_of(0, 1, 1, MPI_INT)));
}

TEST(Datatype, ElementsBackwards) {
  compare(spread(MPI_INT, -8));
  compare(spread(vector_of(3, 1, -2, MPI_INT), -24));
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
    const TypeInfo info = whole_info(type);
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

// All parts of a small array, in both orders: of one dimension that is cut in part the runs are known.
TEST(Datatype, Subarrays) {
  const std::vector<int> sizes = {3, 2, 4};
  for (const int order : {MPI_ORDER_C, MPI_ORDER_FORTRAN}) {
    for (int i = 0; i < 3 * 2 * 4 * 3 * 2 * 4; ++i) {
      const std::vector<int> starts = {i % 3, i / 3 % 2, i / 6 % 4};
      const std::vector<int> parts = {1 + i / 24 % 3, 1 + i / 72 % 2, 1 + i / 144 % 4};
      int cut = 0;
      bool inside = true;
      for (std::size_t d = 0; d < 3; ++d) {
        cut += parts[d] < sizes[d] ? 1 : 0;
        inside = inside && starts[d] + parts[d] <= sizes[d];
      }
      if (!inside) continue;
      const MPI_Datatype type = subarray_of(sizes, parts, starts, order, MPI_DOUBLE);
      const TypeInfo info = whole_info(type);
      EXPECT_TRUE(info.runs != 0 || cut > 1);
      EXPECT_EQ(info.dense(kElements), cut == 0);
      compare(type);
    }
  }
}

TEST(Datatype, SubarraysOfOthers) {
  compare(subarray_of({4, 3}, {2, 3}, {1, 0}, MPI_ORDER_C, vector_of(2, 1, 2, MPI_INT)));
  compare(subarray_of({4, 3}, {2, 2}, {1, 1}, MPI_ORDER_C, spread(MPI_INT, 12)));
  compare(vector_of(2, 1, 2, subarray_of({4, 3}, {4, 2}, {0, 1}, MPI_ORDER_C, MPI_INT)));
  compare(spread(subarray_of({4, 3}, {4, 2}, {0, 1}, MPI_ORDER_C, MPI_INT), 60));
}

// Levels that follow each other at the same distance are one.
TEST(Datatype, LevelsThatAreOne) {
  const MPI_Datatype rows = vector_of(3, 2, 5, MPI_INT);
  const MPI_Datatype all = vector_of(2, 1, 1, spread(rows, 15 * sizeof(int)));
  EXPECT_EQ(whole_info(all).runs, 6U);
  compare(all);
}

TEST(Datatype, CopiesBetweenLayouts) {
  const auto all = [] {
    return std::vector<MPI_Datatype>{vector_of(12, 1, 2, MPI_INT),
                                     vector_of(4, 3, 5, MPI_INT),
                                     vector_of(3, 4, -6, MPI_INT),
                                     vector_of(6, 1, 3, MPI_DOUBLE),
                                     vector_of(1, 12, 12, MPI_INT),
                                     spread(vector_of(2, 6, 9, MPI_INT), 80),
                                     vector_of(48, 1, 2, MPI_CHAR),
                                     subarray_of({4, 3, 5}, {4, 3, 1}, {0, 0, 2}, MPI_ORDER_C, MPI_INT),
                                     spread(vector_of(12, 1, 1, MPI_INT), 64)};
  };
  for (std::size_t i = 0; i < all().size(); ++i) {
    for (std::size_t j = 0; j < all().size(); ++j) compare_copies(all()[i], all()[j]);
  }
}

TEST(Datatype, CopiesOfUnknownLayoutsAreRefused) {
  MPI_Datatype known = vector_of(6, 1, 2, MPI_INT);
  MPI_Datatype unknown = vector_of(3, 1, 4, vector_of(2, 1, 2, MPI_INT));
  std::vector<std::byte> memory(kMemory);
  EXPECT_FALSE(copy_elements(memory.data(), whole_info(known), memory.data(), whole_info(unknown), 24));
  EXPECT_FALSE(copy_elements(memory.data(), whole_info(unknown), memory.data(), whole_info(known), 24));
  MPI_Type_free(&known);
  MPI_Type_free(&unknown);
}

TEST(Datatype, OthersAreLeftToMpi) {
  MPI_Datatype inner = vector_of(2, 1, 2, MPI_INT);
  EXPECT_EQ(whole_info(inner).runs, 2U);
  const MPI_Datatype nested = vector_of(3, 1, 4, inner);
  MPI_Type_free(&inner);
  EXPECT_EQ(whole_info(nested).runs, 0U);
  compare(nested);
}

/// A list of blocks of an int, `stride` bytes apart; the first two exchanged when `crossed`.
MPI_Datatype long_list(MPI_Aint stride, bool crossed) {
  std::vector<MPI_Aint> displs(10000);
  for (std::size_t i = 0; i < displs.size(); ++i) displs[i] = static_cast<MPI_Aint>(i) * stride;
  if (crossed) std::swap(displs[0], displs[1]);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed_block(static_cast<int>(displs.size()), 1, displs.data(), MPI_INT, &type);
  return type;
}

// By messages, as elements of more than 2 GiB are.
TEST(Datatype, LongElements) {
  const std::vector<std::byte> from = numbered();
  MPI_Datatype inner = vector_of(2, 1, 2, MPI_INT);
  MPI_Datatype type = vector_of(3, 1, 4, inner);
  MPI_Type_free(&inner);
  MPI_Type_commit(&type);
  const TypeInfo info = whole_info(type);
  std::vector<std::byte> expected(info.size);
  std::vector<std::byte> packed(info.size);
  pack(from.data() + kOrigin, 1, type, info, expected.data(), MPI_COMM_SELF);
  pack_long(from.data() + kOrigin, type, info.size, packed.data(), MPI_COMM_SELF);
  EXPECT_EQ(packed, expected);
  std::vector<std::byte> whole(kMemory);
  std::vector<std::byte> back(kMemory);
  unpack(packed.data(), whole.data() + kOrigin, 1, type, info, MPI_COMM_SELF);
  unpack_long(packed.data(), info.size, back.data() + kOrigin, type, MPI_COMM_SELF);
  EXPECT_EQ(back, whole);
  MPI_Type_free(&type);
}

// Only those whose size is their extent are read.
TEST(Datatype, LongLists) {
  MPI_Datatype dense = long_list(4, false);
  MPI_Datatype crossed = long_list(4, true);
  MPI_Datatype gaps = long_list(8, false);
  MPI_Datatype resized = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(dense, 0, 80000, &resized);
  EXPECT_TRUE(whole_info(dense).always_dense());
  EXPECT_TRUE(whole_info(resized).dense(1));
  EXPECT_FALSE(whole_info(resized).dense(2));
  EXPECT_EQ(whole_info(crossed).runs, 0U);
  EXPECT_FALSE(whole_info(crossed).dense(1));
  EXPECT_EQ(whole_info(gaps).runs, 0U);
  EXPECT_EQ(whole_info(gaps).size, 40000U);
  for (MPI_Datatype* type : {&dense, &crossed, &gaps, &resized}) MPI_Type_free(type);
}

// Types of MPI's own, although they have recipes: to free them is an error.
TEST(Datatype, FortranKinds) {
  const auto all = [] {
    std::vector<MPI_Datatype> types(3);
    MPI_Type_create_f90_real(12, 100, &types[0]);
    MPI_Type_create_f90_complex(5, 10, &types[1]);
    MPI_Type_create_f90_integer(4, &types[2]);
    return types;
  };
  for (const MPI_Datatype kind : all()) {
    EXPECT_TRUE(whole_info(kind).dense(kElements));
    compare(vector_of(3, 1, 2, kind));
    compare(spread(kind, 24));
  }
  EXPECT_EQ(whole_info(all()[0]).size, sizeof(double));
}

TEST(Datatype, ARecipeIsReadWhenATypeWithGapsIsUsedAgain) {
  MPI_Datatype type = vector_of(4, 1, 2, MPI_DOUBLE);
  MPI_Type_commit(&type);
  EXPECT_EQ(type_info(type).runs, 0U);
  EXPECT_EQ(type_info(type).size, 32U);
  std::size_t looks = 2;
  while (looks < 1000 && type_info(type).runs == 0) ++looks;
  EXPECT_EQ(type_info(type).runs, 4U) << looks;
  MPI_Type_free(&type);
}

#if MPI_VERSION >= 4
// Their recipes cannot be had as ints, and asking for them would call the error handler.
TEST(Datatype, TypesOfLargeCountsArePacked) {
  MPI_Datatype large = MPI_DATATYPE_NULL;
  MPI_Type_vector_c(3, 1, 2, MPI_INT, &large);
  EXPECT_EQ(whole_info(large).runs, 0U);
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
    EXPECT_EQ(whole_info(type).size, static_cast<std::size_t>(8 * length));
    MPI_Type_free(&type);
  }
}

}  // namespace
}  // namespace tapa
