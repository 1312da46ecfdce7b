// Collective steps of the library where one rank has no memory for its part, for each single piece of it in
// turn: nobody waits, and what follows is right.
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "comm/job_report.hpp"
#include "comm/registrations.hpp"
#include "comm/registry.hpp"
#include "comm/shared_words.hpp"
#include "tapa/device_mpi.h"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"
#include "without_memory.hpp"
#include "world/drop_in.hpp"

namespace {

constexpr int kRows = 5000;

/// Sets a communicator of ranks below `ranks` up, by its first call. Where that fails the next one is right.
void make_first_calls(int ranks) {
  int rank = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &comm);
  if (comm == MPI_COMM_NULL) return;
  std::vector<int> data;
  const auto call = [&] {
    data.assign(static_cast<std::size_t>(ranks), rank);
    return TAPA_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(), 1, MPI_INT, comm);
  };
  MPI_Comm_set_errhandler(comm, tapa::errors_return());
  const int code = TAPA_Comm_setup(comm);
  EXPECT_TRUE(alike(code == MPI_SUCCESS, comm));
  if (code != MPI_SUCCESS) {
    EXPECT_EQ(call(), MPI_SUCCESS) << TAPA_Last_error();
    for (int peer = 0; peer < ranks; ++peer) EXPECT_EQ(data[static_cast<std::size_t>(peer)], peer);
  }
  MPI_Comm_free(&comm);
}

/// The first test: the library has not seen any communicator yet, so that each has a world of its own.
using NoMemoryAtFirst = WithoutMemory;

TEST_F(NoMemoryAtFirst, ForAWorld) {
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [&] { make_first_calls(size_ - 1); });
    EXPECT_GT(pieces_, 20);
  }
}

class NoMemory : public WithoutMemory {
  void SetUp() override {
    WithoutMemory::SetUp();
    ASSERT_EQ(TAPA_Comm_setup(MPI_COMM_WORLD), MPI_SUCCESS);
  }
};

TEST_F(NoMemory, ForACommunicator) {
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [&] { make_first_calls(size_); });
    EXPECT_GT(pieces_, 5);
  }
}

/// Every second row to each rank: lists that are long.
class Lists {
 public:
  explicit Lists(int ranks)
      : rows_(static_cast<std::size_t>(ranks), kRows), counts_(static_cast<std::size_t>(ranks), kRows / 2) {
    for (int i = 0; i < ranks * (kRows / 2); ++i) active_.push_back(2 * (i % (kRows / 2)));
  }
  int create(TAPA_Selection* selection) const {
    return TAPA_Selection_create(rows_.data(), rows_.data(), counts_.data(), active_.data(), 0, "",
                                 MPI_COMM_WORLD, selection);
  }

 private:
  std::vector<int> rows_, counts_, active_;
};

TEST_F(NoMemory, ForASelection) {
  const Lists lists(size_);
  for (const int poor : {1, 0}) {
    refuse_each(poor, kRows, [&] {
      TAPA_Selection selection = TAPA_SELECTION_NULL;
      const int code = lists.create(&selection);
      EXPECT_TRUE(alike(code == MPI_SUCCESS));
      if (code == MPI_SUCCESS) TAPA_Selection_free(&selection);
    });
    EXPECT_GT(pieces_, 3);
  }
}

/// Each rank tells its neighbours in a ring who it is, and all ranks. The set-up is refused nothing.
void make_first_calls_in_ring(int rank, int ranks) {
  const std::size_t refused = refused_from.exchange(kNone);
  MPI_Comm ring = MPI_COMM_NULL;
  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &ring);
  ASSERT_EQ(TAPA_Comm_setup(ring), MPI_SUCCESS);
  refused_from = refused;
  const std::array<int, 3> own{rank, rank, rank};
  const std::array<int, 3> ones{1, 1, 1};
  const std::array<int, 3> places{0, 1, 2};
  std::array<int, 2> near{};
  std::array<int, 3> all{};
  EXPECT_EQ(TAPA_Neighbor_alltoall(own.data(), 1, MPI_INT, near.data(), 1, MPI_INT, ring), MPI_SUCCESS);
  EXPECT_EQ(near, (std::array{(rank + ranks - 1) % ranks, (rank + 1) % ranks}));
  EXPECT_EQ(TAPA_Alltoallv(own.data(), ones.data(), places.data(), MPI_INT, all.data(), ones.data(),
                           places.data(), MPI_INT, ring),
            MPI_SUCCESS);
  EXPECT_EQ(all, (std::array{0, 1, 2}));
  MPI_Comm_free(&ring);
}

/// What such calls ask for is small: the rank has set memory aside for it.
TEST_F(NoMemory, ForAFirstCall) {
  has_reserve = true;
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [&] { make_first_calls_in_ring(rank_, size_); });
    EXPECT_GT(pieces_, 50);
  }
  has_reserve = false;
}

/// A rank that has none left at all when its communicator has been set up, nor memory set aside; whose calls
/// need no choice.
TEST_F(NoMemory, ForCallsThroughMemory) {
  if (std::string_view(std::getenv("TAPA_TOPOLOGY")).front() != '1') GTEST_SKIP() << "plans are made, too";
  const std::array<int, 3> own{rank_, rank_ + 10, rank_ + 20};
  const std::array<int, 3> ones{1, 1, 1};
  const std::array<int, 3> places{0, 1, 2};
  for (const int poor : {1, 0}) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, tapa::errors_return());
    ASSERT_EQ(TAPA_Comm_set(comm, "plan", "memory"), MPI_SUCCESS);
    std::array<int, 3> all{};
    int code = MPI_SUCCESS;
    {
      const Refusing refusing(rank_ == poor ? 1 : kNone);
      code = TAPA_Alltoallv(own.data(), ones.data(), places.data(), MPI_INT, all.data(), ones.data(),
                            places.data(), MPI_INT, comm);
    }
    ASSERT_EQ(code, MPI_SUCCESS) << TAPA_Last_error();
    EXPECT_EQ(all, (std::array{10 * rank_, 10 * rank_ + 1, 10 * rank_ + 2}));
    MPI_Comm_free(&comm);
  }
}

/// Of calls that do not block, of which none is the first.
TEST_F(NoMemory, ForCallsThatDoNotBlock) {
  has_reserve = true;
  const std::array<int, 3> own{rank_, rank_, rank_};
  const std::array<int, 3> ones{1, 1, 1};
  const std::array<int, 3> places{0, 1, 2};
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [&] {
      std::array<int, 3> all{};
      MPI_Request request = MPI_REQUEST_NULL;
      EXPECT_EQ(TAPA_Ialltoallv(own.data(), ones.data(), places.data(), MPI_INT, all.data(), ones.data(),
                                places.data(), MPI_INT, MPI_COMM_WORLD, &request),
                MPI_SUCCESS);
      EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
      EXPECT_EQ(all, (std::array{0, 1, 2}));
    });
    EXPECT_GT(pieces_, 1);
  }
  has_reserve = false;
}

/// MPI's own call beside one, which the report compares with: it is left out.
TEST_F(NoMemory, ForASample) {
  constexpr int count = 2000;  // elements of a block; the calls of a turn are as many as lead to a sample
  const std::vector<int> send(static_cast<std::size_t>(size_ * count), rank_);
  std::vector<int> recv(send.size());
  for (const int poor : {1, 0}) {
    TAPA_Comm_set(MPI_COMM_WORLD, "plan", poor == 0 ? "linear" : "bruck");
    refuse_each(poor, send.size() * sizeof(int), [&] {
      for (int call = 0; call < 64; ++call) {
        EXPECT_EQ(TAPA_Alltoall(send.data(), count, MPI_INT, recv.data(), count, MPI_INT, MPI_COMM_WORLD),
                  MPI_SUCCESS)
            << TAPA_Last_error();
      }
    });
    EXPECT_GT(pieces_, 1);
  }
}

/// What the report cannot keep is missing there: of calls of ever other sizes, so that each has a row of its
/// own and needs room for it, and when their communicator ends. All else has been called with such sizes
/// before.
TEST_F(NoMemory, ForWhatTheReportCounts) {
  if (std::string_view(std::getenv("TAPA_TOPOLOGY")).front() != '1') GTEST_SKIP() << "plans are made, too";
  const auto ranks = static_cast<std::size_t>(size_);
  const std::vector<MPI_Datatype> types(ranks, MPI_INT);
  for (const int poor : {1, 0}) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, tapa::errors_return());
    ASSERT_EQ(TAPA_Comm_set(comm, "plan", "memory"), MPI_SUCCESS);  // nothing to choose
    std::vector<int> one(ranks, rank_);  // a row, so that it is the refused ones that need more room
    TAPA_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, one.data(), 1, MPI_INT, comm);
    for (int count = 1; count <= 1024; count *= 2) {
      const int bytes = count * static_cast<int>(sizeof(int));
      const std::vector<int> counts(ranks, count), from{0, count, 2 * count}, at{0, bytes, 2 * bytes};
      const std::vector<int> own(ranks * static_cast<std::size_t>(count), rank_);
      std::vector<int> all(own.size());
      ASSERT_EQ(TAPA_Alltoallv(own.data(), counts.data(), from.data(), MPI_INT, all.data(), counts.data(),
                               from.data(), MPI_INT, comm),
                MPI_SUCCESS);
      all.assign(all.size(), -1);
      int code = MPI_SUCCESS;
      {
        const Refusing refusing(rank_ == poor && count > 1 ? 1 : kNone);
        code = TAPA_Alltoallw(own.data(), counts.data(), at.data(), types.data(), all.data(), counts.data(),
                              at.data(), types.data(), comm);
      }
      ASSERT_EQ(code, MPI_SUCCESS) << count << ": " << TAPA_Last_error();
      EXPECT_EQ(all.back(), size_ - 1);
    }
    const Refusing refusing(rank_ == poor ? 1 : kNone);
    MPI_Comm_free(&comm);
  }
}

TEST_F(NoMemory, ForSharedWords) {
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [&] {
      tapa::SharedWords words;
      EXPECT_TRUE(alike(words.open(MPI_COMM_WORLD)));
      MPI_Barrier(MPI_COMM_WORLD);
    });
    EXPECT_GT(pieces_, poor == 0 ? 3 : 0);  // rank 0 makes the file
  }
}

/// What calls of a device engine keep of memory that is registered, when it is full, too.
TEST_F(NoMemory, ForRegistrations) {
  tapa::Registrations known;
  const Refusing refusing(1);
  for (int window = 0; window < 100; ++window) {
    const auto number = static_cast<std::uint64_t>(window) + 1;
    const tapa::CudaMemory memory{true, 0, nullptr, number, number << 20, 4096, true};
    static_cast<void>(known.wanted(memory, tapa::Registrations::kLongBlock + 1));
    if (known.to_evict()) known.evict();
    known.add(window, memory);
  }
  EXPECT_FALSE(Refusing::some());
}

/// A device communicator, up to the first call of CUDA, which fails where there is no GPU.
TEST_F(NoMemory, ForTheRanksOfAnEngine) {
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [&] {
      TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
      EXPECT_NE(TAPA_Device_comm_create_mpi(MPI_COMM_WORLD, nullptr, &comm), TAPA_DEVICE_SUCCESS);
    });
    EXPECT_GT(pieces_, 1);
  }
}

/// The library takes itself for the drop-in from here on.
TEST_F(NoMemory, ForTheReport) {
  tapa::become_drop_in();
  std::vector<int> data(static_cast<std::size_t>(size_), rank_);
  TAPA_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(), 1, MPI_INT, MPI_COMM_WORLD);
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [] { tapa::print_report(); });
    EXPECT_GT(pieces_, 5);
  }
}

/// The last test: of a library that MPI_Finalize ends. What has no memory is left out.
TEST_F(NoMemory, ForTheEnd) {
  const Refusing refusing(rank_ == 1 ? 1 : kNone);
  tapa::end_states();
  EXPECT_EQ(Refusing::some(), rank_ == 1);
}

}  // namespace
