/// @file
/// Nonblocking and persistent calls, with a plan of TEST_PLANS, against data that names its place.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"
#include "turns.hpp"

inline constexpr int kGuard = -7;

/// Whether requests are MPI's own, because nothing makes the library's progress.
inline bool are_mpis() {
  const char* text = std::getenv("TEST_REQUESTS");
  return text != nullptr && std::string(text) == "mpi";
}

/// Whether nonblocking calls may have large count arrays.
inline bool has_large_arrays() {
  return MPI_VERSION >= 4 || !are_mpis();
}

inline int value(int src, int dst, int i, int salt) {
  return salt * 1000003 + src * 10007 + dst * 101 + i;
}

/// Elements from src to dst when counts differ.
inline int ragged(int src, int dst) {
  return (src * 3 + dst * 5) % 7 == 0 ? 0 : 1 + (src + 2 * dst) % 9;
}

/// The memory of one all-to-all of ints: a block for each rank on both sides, each followed by a guard.
class Buffers {
 public:
  Buffers(MPI_Comm comm, bool is_ragged, int each = 5) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    int s = 0;
    int r = 0;
    const int guard = is_ragged ? 1 : 0;
    for (int p = 0; p < size_; ++p) {
      scounts.push_back(is_ragged ? ragged(rank_, p) : each);
      rcounts.push_back(is_ragged ? ragged(p, rank_) : each);
      sdispls.push_back(s);
      rdispls.push_back(r);
      s += scounts.back() + guard;
      r += rcounts.back() + guard;
    }
    send.assign(static_cast<std::size_t>(s) + 1, kGuard);
    recv.assign(static_cast<std::size_t>(r) + 1, kGuard);
  }
  void fill(int salt) {
    std::fill(recv.begin(), recv.end(), kGuard);
    for (int p = 0; p < size_; ++p) {
      for (int i = 0; i < scounts[at(p)]; ++i) send[at(sdispls[at(p)] + i)] = value(rank_, p, i, salt);
    }
  }
  [[nodiscard]] std::vector<int> expected(int salt) const {
    std::vector<int> all(recv.size(), kGuard);
    for (int p = 0; p < size_; ++p) {
      for (int i = 0; i < rcounts[at(p)]; ++i) all[at(rdispls[at(p)] + i)] = value(p, rank_, i, salt);
    }
    return all;
  }
  /// Byte displacements, for the w forms.
  static std::vector<int> bytes(const std::vector<int>& displs) {
    std::vector<int> out;
    for (const int d : displs) out.push_back(d * static_cast<int>(sizeof(int)));
    return out;
  }
  template <class T>
  static std::vector<T> wide(const std::vector<int>& numbers) {
    return {numbers.begin(), numbers.end()};
  }

  std::vector<int> send, recv, scounts, rcounts, sdispls, rdispls;

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int rank_ = 0;
  int size_ = 0;
};

class RequestsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (waits_starve_threads())
      GTEST_SKIP() << "a thread that waits in Intel MPI leaves others no turn, without the library too";
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, tapa::errors_return());
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    ASSERT_EQ(TAPA_Comm_set(comm_, "plan", GetParam().c_str()), MPI_SUCCESS) << TAPA_Last_error();
  }
  void TearDown() override {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  void ialltoall(Buffers& b, int each, MPI_Request* request) {
    ASSERT_EQ(TAPA_Ialltoall(b.send.data(), each, MPI_INT, b.recv.data(), each, MPI_INT, comm_, request),
              MPI_SUCCESS)
        << TAPA_Last_error();
  }
  void ialltoallv(Buffers& b, MPI_Comm comm, MPI_Request* request) {
    ASSERT_EQ(TAPA_Ialltoallv(b.send.data(), b.scounts.data(), b.sdispls.data(), MPI_INT, b.recv.data(),
                              b.rcounts.data(), b.rdispls.data(), MPI_INT, comm, request),
              MPI_SUCCESS)
        << TAPA_Last_error();
  }
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
};
