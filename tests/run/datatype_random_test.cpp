// Random nested datatypes against type maps that are worked out beside MPI.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "run/datatype.hpp"
#include "run/type_layout.hpp"

namespace tapa {
namespace {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937;

constexpr std::size_t kMemory = std::size_t{1} << 16;
constexpr MPI_Aint kOrigin = kMemory / 2;  // types may reach below their origin

int below(Random& random, int n) {
  return static_cast<int>(random() % static_cast<unsigned>(n));
}

/// A type and where its bytes lie, in type map order.
struct Made {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::vector<MPI_Aint> at;

  [[nodiscard]] MPI_Aint extent() const {
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(type, &lower, &extent);
    return extent;
  }
  void add(const Made& child, int count, MPI_Aint place) {
    for (int i = 0; i < count; ++i) {
      for (const MPI_Aint at_child : child.at) at.push_back(place + i * child.extent() + at_child);
    }
  }
};

Made vector_of(Random& random, const Made& child) {
  Made made;
  const int count = below(random, 5);
  const int length = below(random, 4);
  MPI_Aint stride = child.extent() * (below(random, 9) - 3) + 4 * below(random, 2);
  if (stride == -1) stride = 0;  // Open MPI 4.1 takes that for the distance of neighbours
  MPI_Type_create_hvector(count, length, stride, child.type, &made.type);
  for (int i = 0; i < count; ++i) made.add(child, length, i * stride);
  return made;
}

Made list_of(Random& random, const Made& child) {
  Made made;
  std::vector<int> lengths;
  std::vector<MPI_Aint> places;
  MPI_Aint next = -8 * below(random, 3);
  for (int blocks = below(random, 4); blocks > 0; --blocks) {
    lengths.push_back(1 + below(random, 3));
    places.push_back(next + 8 * below(random, 2));
    next = places.back() + lengths.back() * child.extent();
    made.add(child, lengths.back(), places.back());
  }
  const std::vector<MPI_Datatype> types(lengths.size(), child.type);
  const auto blocks = static_cast<int>(lengths.size());
  if (below(random, 2) == 0) {
    MPI_Type_create_struct(blocks, lengths.data(), places.data(), types.data(), &made.type);
  } else {
    MPI_Type_create_hindexed(blocks, lengths.data(), places.data(), child.type, &made.type);
  }
  return made;
}

Made resized(Random& random, const Made& child) {
  Made made;
  made.at = child.at;
  MPI_Type_create_resized(child.type, 0, child.extent() * (below(random, 4) - 1) + 8 * below(random, 3),
                          &made.type);
  return made;
}

Made nested(Random& random, int depth) {
  Made made;
  if (depth == 0) {
    if (below(random, 4) == 0) {
      MPI_Type_dup(MPI_SHORT_INT, &made.type);
      made.at = {0, 1, 4, 5, 6, 7};
    } else {
      MPI_Type_contiguous(1 + below(random, 8), MPI_CHAR, &made.type);
      for (MPI_Aint i = 0; i < made.extent(); ++i) made.at.push_back(i);
    }
    return made;
  }
  Made child = nested(random, depth - 1);
  const int kind = below(random, 3);
  made = kind == 0 ? vector_of(random, child) : kind == 1 ? list_of(random, child) : resized(random, child);
  MPI_Type_free(&child.type);
  return made;
}

int mpi_is_wrong = 0;  ///< so often

/// MPICH 5.0.2 does not, with a few of these types.
bool mpi_packs(const Made& made, int count, const std::vector<std::size_t>& at, const Bytes& memory) {
  int size = 0;
  MPI_Pack_size(count, made.type, MPI_COMM_SELF, &size);
  Bytes packed(static_cast<std::size_t>(size));
  int end = 0;
  MPI_Pack(memory.data() + kOrigin, count, made.type, packed.data(), size, &end, MPI_COMM_SELF);
  packed.resize(static_cast<std::size_t>(end));
  return std::ranges::equal(packed, at, {}, {}, [&](std::size_t place) { return memory[place]; });
}

/// Packs and unpacks a part that begins where the type allows and, unpacked, ends anywhere; all when `whole`.
void compare(Random& random, const Made& made, const Bytes& memory, bool whole) {
  if (random() % 2 == 0) read_recipe(made.type);
  const TypeInfo info = type_info(made.type);
  const int count = 1 + below(random, 3);
  std::vector<std::size_t> at;
  for (int i = 0; i < count; ++i) {
    for (const MPI_Aint place : made.at)
      at.push_back(static_cast<std::size_t>(kOrigin + i * info.extent + place));
  }
  if (at.empty() || *std::ranges::max_element(at) >= kMemory) return;
  if (!mpi_packs(made, count, at, memory)) {
    ++mpi_is_wrong;
    return;
  }
  const std::size_t unit = info.part();
  const std::size_t begin =
      whole ? 0 : unit * static_cast<std::size_t>(below(random, static_cast<int>(at.size() / unit)));
  Bytes packed(at.size() - begin);
  pack_part(memory.data() + kOrigin, begin, packed.size(), made.type, info, packed.data(), MPI_COMM_SELF);
  for (std::size_t i = begin; i < at.size(); ++i) ASSERT_EQ(packed[i - begin], memory[at[i]]) << i;
  std::vector<std::size_t> sorted = at;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return;  // nothing may be received there
  const std::size_t bytes =
      whole ? packed.size() : 1 + static_cast<std::size_t>(below(random, static_cast<int>(packed.size())));
  Bytes expected(kMemory);
  Bytes unpacked(kMemory);
  for (std::size_t i = begin; i < begin + bytes; ++i) expected[at[i]] = packed[i - begin];
  unpack_part(packed.data(), unpacked.data() + kOrigin, begin, bytes, made.type, info, MPI_COMM_SELF);
  ASSERT_TRUE(unpacked == expected);
}

TEST(Datatype, RandomRecipes) {
  Bytes memory(kMemory);
  Random values(1);
  for (std::byte& b : memory) b = static_cast<std::byte>(values());
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Made made = nested(random, 1 + below(random, 4));
    MPI_Type_commit(&made.type);
    for (const bool whole : {true, false}) compare(random, made, memory, whole);
    MPI_Type_free(&made.type);
    if (HasFailure()) return;
  }
  EXPECT_LT(mpi_is_wrong, 400);
}

}  // namespace
}  // namespace tapa
