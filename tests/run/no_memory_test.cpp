// Collective steps of the library where one rank has no memory for its part, for each single piece of it in
// turn: nobody waits, and what follows is right.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "comm/job_report.hpp"
#include "comm/shared_words.hpp"
#include "refused_memory.hpp"
#include "tapa/device_mpi.h"
#include "tapa/tapa.h"
#include "world/drop_in.hpp"

namespace {

constexpr int kRows = 5000;

class NoMemory : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    ASSERT_GE(size_, 3);
    ASSERT_EQ(TAPA_Comm_setup(MPI_COMM_WORLD), MPI_SUCCESS);
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
bool alike(bool mine) {
  int all[] = {mine ? 1 : 0, mine ? 0 : 1};
  MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return all[0] != all[1];
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

TEST_F(NoMemory, ForSharedWords) {
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [&] {
      tapa::SharedWords words;
      EXPECT_TRUE(alike(words.open(MPI_COMM_WORLD)));
      MPI_Barrier(MPI_COMM_WORLD);
    });
    EXPECT_GT(pieces_, 3);
  }
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

/// The last test: the library takes itself for the drop-in from here on.
TEST_F(NoMemory, ForTheReport) {
  tapa::become_drop_in();
  std::vector<int> data(static_cast<std::size_t>(size_), rank_);
  TAPA_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(), 1, MPI_INT, MPI_COMM_WORLD);
  for (const int poor : {1, 0}) {
    refuse_each(poor, 1, [] { tapa::print_report(); });
    EXPECT_GT(pieces_, 5);
  }
}

}  // namespace
