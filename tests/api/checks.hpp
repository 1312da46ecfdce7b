/// @file
/// What the MPI tests of the entry points share: failures that are counted and printed, data that names its
/// place.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tapa/tapa.h"

namespace checks {

inline int failures = 0;

inline int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

inline int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

/// Counts a failure and prints the first ones of each rank.
inline void fail(const std::string& what) {
  if (++failures <= 5) std::fprintf(stderr, "rank %d: %s\n", rank_of(MPI_COMM_WORLD), what.c_str());
}

inline void expect(bool good, const std::string& what) {
  if (!good) fail(what);
}

/// A call of the library's that must succeed. Asks for the error's text behind it: among the arguments of
/// expect() that would be read before the call is made.
inline void expect_done(int code, const std::string& what = {}) {
  if (code != MPI_SUCCESS) fail((what.empty() ? "" : what + " failed: ") + TAPA_Last_error());
}

inline void expect_equal(const std::string& got, const std::string& expected, const std::string& what) {
  if (got != expected) fail(what + ": got \"" + got + "\", expected \"" + expected + "\"");
}

/// Ends the test program: the exit code of all ranks is that of the worst.
inline int finish(const char* name) {
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank_of(MPI_COMM_WORLD) == 0)
    std::printf("%s: %s (%d failures)\n", name, all == 0 ? "ok" : "FAILED", all);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}

/// The value of element `i` of the block from `src` to `dst`; differs between neighbours in every argument.
inline std::int32_t value(int src, int dst, int i) {
  return static_cast<std::int32_t>(
      (static_cast<std::uint32_t>(src) * 40503U + static_cast<std::uint32_t>(dst)) * 2654435761U +
      static_cast<std::uint32_t>(i) * 97U);
}

constexpr std::int32_t kGuard = 0x5a5a5a5a;

}  // namespace checks
