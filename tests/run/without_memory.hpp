/// @file
/// Ranks that are refused memory, one piece after the other; JSON's values are spared where they must not
/// fail. Included once, like the header below.
#pragma once

#include <execinfo.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "refused_memory.hpp"
#include "tapa/errors_return.hpp"

/// The function that an address lies in, by the unwinder's tables.
extern "C" void* _Unwind_FindEnclosingFunction(void* address);

/// The functions that led to a request for memory, the last one first.
inline std::array<void*, 8> callers() {
  std::array<void*, 8> all{};
  backtrace(all.data(), static_cast<int>(all.size()));
  std::ranges::transform(all, all.begin(), _Unwind_FindEnclosingFunction);
  return all;
}

/// Those of values of JSON that end their lives: they ask for memory, and end the process where they find
/// none.
inline std::vector<void*> ends_of_json;
template <class Json>
[[gnu::noinline]] void spare_ends_of();

inline bool ends_json() {
  return std::ranges::any_of(
      callers(), [](void* each) { return std::ranges::find(ends_of_json, each) != ends_of_json.end(); });
}
template <class Json>
bool learn_end_of() {
  is_spared = ends_json;
  const std::array<void*, 8> all = callers();
  void* (*const request)(std::size_t) = &operator new;
  const auto after = std::ranges::find(all, reinterpret_cast<void*>(request));
  const auto last = std::ranges::find(all, reinterpret_cast<void*>(&spare_ends_of<Json>));
  if (after < last) ends_of_json.insert(ends_of_json.end(), after + 1, last);
  return true;
}
template <class Json>
void spare_ends_of() {
  auto value = std::make_optional<Json>({{"a", {1, 2, 3}}});
  ends_of_json.reserve(32);
  const Refusing refusing(1);
  is_spared = learn_end_of<Json>;
  value.reset();
}

class WithoutMemory : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
    ASSERT_GE(size_, 3);
    if (!ends_of_json.empty()) return;
    spare_ends_of<nlohmann::json>();
    spare_ends_of<nlohmann::ordered_json>();
  }

  /// Does something collective again and again, where rank `poor` is refused one piece of memory of `from`
  /// bytes or more: the first, the second and so on, until it has asked for fewer.
  template <class Step>
  void refuse_each(int poor, std::size_t from, const Step& step) {
    for (int turn = 0, refused = 1; refused != 0; ++turn) {
      ASSERT_LT(turn, 2000);
      {
        const Refusing refusing(rank_ == poor ? from : kNone, turn, 1);
        step();
        refused = rank_ == poor && Refusing::some() ? 1 : 0;
      }
      refused = meet(poor, refused);
      pieces_ = turn;
    }
  }

  /// All ranks are out of what they did: by messages, as a collective call may be taken for one that a rank
  /// has left out. What rank `root` says.
  int meet(int root, int said) {
    for (int other = 0; other < size_; ++other) {
      if (other == root || (rank_ != root && rank_ != other)) continue;
      const int peer = rank_ == root ? other : root;
      int heard = 0;
      MPI_Sendrecv(&said, 1, MPI_INT, peer, 0, &heard, 1, MPI_INT, peer, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      if (rank_ != root) return heard;
    }
    return said;
  }

  int rank_ = 0;
  int size_ = 0;
  int pieces_ = 0;  ///< that the last ones asked for
};

/// Whether all ranks say the same.
inline bool alike(bool mine, MPI_Comm comm = MPI_COMM_WORLD) {
  int all[] = {mine ? 1 : 0, mine ? 0 : 1};
  MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_INT, MPI_MAX, comm);
  return all[0] != all[1];
}
