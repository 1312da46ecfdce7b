// The progress engine with toy tasks: several rounds of messages around a ring, each round posted only when
// the round before has arrived, so that nothing ends unless somebody makes progress on every rank.
#include "run/progress.hpp"

#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "tapa/errors_return.hpp"

namespace {

using tapa::Driver;
using tapa::Progress;

int rank() {
  int r = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  return r;
}

int size() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}

/// What a ring task did, outliving the task.
struct Log {
  int starts = 0;
  int rounds = 0;
  std::atomic<bool> destroyed = false;
  long last = -1;  ///< last value received
};

class Ring final : public tapa::Task {
 public:
  Ring(MPI_Comm comm, int tag, int rounds, Log* log, int code = MPI_SUCCESS)
      : comm_(comm), tag_(tag), rounds_(rounds), log_(log), code_(code) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  ~Ring() override { log_->destroyed = true; }

  void start() noexcept override {
    ++log_->starts;
    round_ = 0;
    if (rounds_ > 0) post();
  }
  bool advance() noexcept override {
    while (round_ < rounds_) {
      int flag = 0;
      MPI_Testall(2, requests_.data(), &flag, MPI_STATUSES_IGNORE);
      if (flag == 0) return false;
      log_->last = in_;
      ++log_->rounds;
      if (++round_ < rounds_) post();
    }
    return true;
  }
  [[nodiscard]] int result() const noexcept override { return code_; }

 private:
  void post() {
    out_ = 1000L * round_ + rank_;
    MPI_Irecv(&in_, 1, MPI_LONG, (rank_ + size_ - 1) % size_, tag_, comm_, &requests_[0]);
    MPI_Isend(&out_, 1, MPI_LONG, (rank_ + 1) % size_, tag_, comm_, &requests_[1]);
  }

  MPI_Comm comm_;
  int tag_;
  int rounds_;
  Log* log_;
  int code_;
  int rank_ = 0;
  int size_ = 0;
  int round_ = 0;
  long in_ = -1;
  long out_ = -1;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

/// Ends some time after its start, without a message: nothing but the engine tells MPI of that.
class Nap final : public tapa::Task {
 public:
  void start() noexcept override { end_ = MPI_Wtime() + 0.02; }
  bool advance() noexcept override { return MPI_Wtime() > end_; }
  [[nodiscard]] int result() const noexcept override { return MPI_SUCCESS; }

 private:
  double end_ = 0;
};

/// Class of the error of a nonblocking task that fails with MPI_ERR_INTERN.
int error_of_ends() {
#ifdef OPEN_MPI
  return MPI_ERR_INTERN;
#else
  return Progress::instance().driver() == Driver::thread ? MPI_ERR_TRUNCATE : MPI_ERR_INTERN;
#endif
}

long last_of(int rounds) {
  return 1000L * (rounds - 1) + (rank() + size() - 1) % size();
}

/// A communicator of the test's own, with errors returned.
class ProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    if (Progress::instance().driver() == Driver::none)
      GTEST_SKIP() << "no driver with this MPI and thread level";
  }
  void TearDown() override {
    MPI_Barrier(comm_);
    Progress::instance().poll();  // takes back what MPI has freed
    EXPECT_EQ(Progress::instance().pending(), 0U);
    EXPECT_EQ(Progress::instance().persistent(), 0U);
    MPI_Comm_free(&comm_);
  }
  MPI_Request submit(int tag, int rounds, Log* log, int code = MPI_SUCCESS) {
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_EQ(Progress::instance().submit(std::make_unique<Ring>(comm_, tag, rounds, log, code), &request),
              MPI_SUCCESS);
    return request;
  }
  /// Waits until freed persistent requests are reclaimed, which a thread may do: their tasks write into logs.
  static void settle() {
    const double deadline = MPI_Wtime() + 60;
    while (Progress::instance().persistent() != 0 && MPI_Wtime() < deadline) Progress::instance().poll();
  }
  MPI_Request prepare(int tag, int rounds, Log* log, int code = MPI_SUCCESS) {
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_EQ(Progress::instance().prepare(std::make_unique<Ring>(comm_, tag, rounds, log, code), &request),
              MPI_SUCCESS);
    return request;
  }
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// What needs an engine that runs in every MPI call that waits: persistent requests too.
class AlwaysTest : public ProgressTest {
 protected:
  void SetUp() override {
    ProgressTest::SetUp();
    if (!IsSkipped() && !Progress::instance().always_advances())
      GTEST_SKIP() << "operations advance in waits for them only";
  }
};

/// A thread that shares cores with spinning ranks is slow: fewer repeats do.
int runs(int wanted) {
  return Progress::instance().driver() == Driver::thread ? wanted / 20 : wanted;
}

std::size_t resident_kib() {
  std::ifstream in("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

TEST(ProgressDriver, IsTheOneExpected) {
  const char* expected = std::getenv("TEST_DRIVER");
  if (expected == nullptr) GTEST_SKIP() << "TEST_DRIVER is not set";
  const std::string_view driver = tapa::to_string(Progress::instance().driver());
#if MPI_ABI_VERSION > 0  // Intel MPI's library of the standard's interface has no requests that are polled
  if (tapa::errors_return() != MPI_ERRORS_RETURN && std::string_view(expected) == "wait") expected = "none";
#endif
  EXPECT_EQ(driver, expected);
}

TEST(ProgressDriver, NoneRefuses) {
  if (Progress::instance().driver() != Driver::none) GTEST_SKIP() << "there is a driver";
  Log log;
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_EQ(Progress::instance().submit(std::make_unique<Ring>(MPI_COMM_WORLD, 1, 1, &log), &request),
            MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT_EQ(Progress::instance().prepare(std::make_unique<Ring>(MPI_COMM_WORLD, 1, 1, &log), &request),
            MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_EQ(log.starts, 0);
}

// They are MPI's own requests, and nothing is called while MPI waits for those.
TEST_F(ProgressTest, WaitsAloneCannotDrivePersistentOnes) {
  if (Progress::instance().always_advances()) GTEST_SKIP() << "operations always advance";
  Log log;
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_EQ(Progress::instance().prepare(std::make_unique<Ring>(comm_, 1, 1, &log), &request),
            MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT_EQ(request, MPI_REQUEST_NULL);
}

TEST_F(ProgressTest, WaitCompletes) {
  Log log;
  MPI_Request request = submit(1, 50, &log);
  MPI_Status status;
  EXPECT_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_TRUE(log.destroyed);
  EXPECT_EQ(log.rounds, 50);
  EXPECT_EQ(log.last, last_of(50));
  int count = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  EXPECT_EQ(count, 0);
}

TEST_F(ProgressTest, TaskThatEndsAtOnce) {
  Log log;
  MPI_Request request = submit(1, 0, &log);
  int flag = 0;
  for (int tests = 0; flag == 0 && tests < 100; ++tests) {  // the first ones of Intel MPI may miss an end
    ASSERT_EQ(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(log.starts, 1);
}

// MPI_Wait of MPICH looks at its request again only after an event that MPICH counts as progress.
TEST_F(ProgressTest, EndsWakeThoseThatWait) {
  for (int run = 0; run < 5; ++run) {
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_EQ(Progress::instance().submit(std::make_unique<Nap>(), &request), MPI_SUCCESS);
    EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
}

TEST_F(AlwaysTest, EndsOfPersistentRunsWakeThoseThatWait) {
  std::array<MPI_Request, 2> requests{};
  for (MPI_Request& r : requests) {
    ASSERT_EQ(Progress::instance().prepare(std::make_unique<Nap>(), &r), MPI_SUCCESS);
  }
  for (int run = 0; run < 5; ++run) {
    ASSERT_EQ(MPI_Startall(2, requests.data()), MPI_SUCCESS);
    EXPECT_EQ(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
  }
  for (MPI_Request& r : requests) EXPECT_EQ(Progress::instance().free(&r), MPI_SUCCESS);
}

TEST_F(AlwaysTest, AdvancesInsideTestsOfAnotherRequest) {
  Log log;
  char in = 0;
  MPI_Request other = MPI_REQUEST_NULL;  // completes only at the end
  MPI_Irecv(&in, 1, MPI_CHAR, rank(), 99, comm_, &other);
  MPI_Request request = submit(1, 30, &log);
  const double deadline = MPI_Wtime() + 60;
  while (!log.destroyed && MPI_Wtime() < deadline) {
    int flag = 0;
    MPI_Test(&other, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(flag, 0);
  }
  EXPECT_TRUE(log.destroyed);
  // A thread tells of the end by a message, which takes a moment.
  int flag = 0;
  while (flag == 0 && MPI_Wtime() < deadline) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  EXPECT_EQ(flag, 1);
  MPI_Send(&in, 1, MPI_CHAR, rank(), 99, comm_);
  MPI_Wait(&other, MPI_STATUS_IGNORE);
}

// A rank that waits in a receive forwards for the others, without which this would hang.
TEST_F(AlwaysTest, AdvancesInsideABlockingReceive) {
  Log log;
  MPI_Request request = submit(1, 20, &log);
  char token = 0;
  if (rank() == 0) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int peer = 1; peer < size(); ++peer) MPI_Send(&token, 1, MPI_CHAR, peer, 98, comm_);
  } else {
    MPI_Recv(&token, 1, MPI_CHAR, 0, 98, comm_, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  EXPECT_EQ(log.rounds, 20);
}

TEST_F(ProgressTest, ManyAtOnceInAnyOrderOfWaiting) {
  constexpr int kTasks = 20;
  std::array<Log, kTasks> logs;
  std::vector<MPI_Request> requests;
  for (int i = 0; i < kTasks; ++i) requests.push_back(submit(i, i % 7, &logs[static_cast<std::size_t>(i)]));
  for (int done = 0; done < kTasks / 2; ++done) {
    int index = -1;
    MPI_Waitany(kTasks, requests.data(), &index, MPI_STATUS_IGNORE);
    ASSERT_NE(index, MPI_UNDEFINED);
    EXPECT_EQ(requests[static_cast<std::size_t>(index)], MPI_REQUEST_NULL);
    EXPECT_TRUE(logs[static_cast<std::size_t>(index)].destroyed);
  }
  MPI_Waitall(kTasks, requests.data(), MPI_STATUSES_IGNORE);
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(logs[static_cast<std::size_t>(i)].rounds, i % 7);
}

TEST_F(ProgressTest, ErrorReachesTheStatus) {
  Log log;
  MPI_Request request = submit(1, 5, &log, MPI_ERR_INTERN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());  // generalized requests report there
  MPI_Status status;
  status.MPI_ERROR = MPI_SUCCESS;
  const int code = MPI_Wait(&request, &status);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  EXPECT_EQ(error_class, error_of_ends());
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

// Again and again: under Open MPI 4.1 a wait for several hangs when one of them fails as it begins to wait,
// but for generalized requests.
TEST_F(ProgressTest, ErrorsReachTheStatusesOfManyWaits) {
  Log log;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  for (int round = 0; round < runs(1000); ++round) {
    std::array<MPI_Request, 2> two{submit(1, round % 6, &log, MPI_ERR_INTERN), submit(2, 5, &log)};
    std::array<MPI_Status, 2> statuses;
    ASSERT_EQ(MPI_Waitall(2, two.data(), statuses.data()), MPI_ERR_IN_STATUS);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(statuses[0].MPI_ERROR, &error_class);
    // MPICH wraps it in statuses.
    ASSERT_EQ(error_class, Progress::instance().driver() == Driver::wait ? MPI_ERR_OTHER : error_of_ends());
    if (statuses[1].MPI_ERROR == MPI_ERR_PENDING) {  // MPI may leave the others unfinished
      ASSERT_EQ(MPI_Wait(&two[1], MPI_STATUS_IGNORE), MPI_SUCCESS);
    } else {
      ASSERT_EQ(statuses[1].MPI_ERROR, MPI_SUCCESS);
    }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

TEST_F(AlwaysTest, FreedRequestStillRunsToItsEnd) {
  Log log;
  MPI_Request request = submit(1, 20, &log);
  MPI_Request_free(&request);
  const double deadline = MPI_Wtime() + 60;
  while (!log.destroyed && MPI_Wtime() < deadline) {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 97, comm_, &flag, MPI_STATUS_IGNORE);
  }
  EXPECT_EQ(log.rounds, 20);
}

TEST_F(AlwaysTest, PersistentWithPlainMpi) {
  Log log;
  MPI_Request request = prepare(1, 10, &log);
  for (int run = 1; run <= runs(1000); ++run) {
    ASSERT_EQ(MPI_Start(&request), MPI_SUCCESS);
    if (run % 3 == 0) {
      int flag = 0;
      while (flag == 0) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    } else {
      ASSERT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    ASSERT_EQ(log.starts, run);
    ASSERT_EQ(log.rounds, 10 * run);
  }
  EXPECT_FALSE(log.destroyed);
  MPI_Request_free(&request);
  settle();
  EXPECT_TRUE(log.destroyed);
}

TEST_F(AlwaysTest, InactivePersistentRequestIsComplete) {
  Log log;
  MPI_Request request = prepare(1, 10, &log);
  EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);  // inactive: returns at once
  EXPECT_EQ(log.starts, 0);
  EXPECT_EQ(Progress::instance().state(request), Progress::State::idle);
  EXPECT_EQ(Progress::instance().free(&request), MPI_SUCCESS);  // NOLINT: not the C library's free
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_TRUE(log.destroyed);
}

// Ranks start the same requests in different orders, and start again while others are still in the run
// before.
TEST_F(AlwaysTest, PersistentInDifferentOrders) {
  constexpr int kRequests = 5;
  std::array<Log, kRequests> logs;
  std::array<MPI_Request, kRequests> requests{};
  for (int i = 0; i < kRequests; ++i) {
    requests[static_cast<std::size_t>(i)] = prepare(i, 3 + i, &logs[static_cast<std::size_t>(i)]);
  }
  const int repeats = runs(200);
  for (int run = 0; run < repeats; ++run) {
    for (int i = 0; i < kRequests; ++i) {
      MPI_Request* request = &requests[static_cast<std::size_t>((i * 2 + rank() + run) % kRequests)];
      if ((i + rank()) % 2 == 0) {
        ASSERT_EQ(Progress::instance().start(1, request), MPI_SUCCESS);
      } else {
        ASSERT_EQ(MPI_Start(request), MPI_SUCCESS);
      }
    }
    if (run % 2 == 0) {
      for (int done = 0; done < kRequests; ++done) {
        int index = -1;
        int flag = 0;
        while (flag == 0) MPI_Testany(kRequests, requests.data(), &index, &flag, MPI_STATUS_IGNORE);
        ASSERT_NE(index, MPI_UNDEFINED);
      }
    } else {
      MPI_Waitall(kRequests, requests.data(), MPI_STATUSES_IGNORE);
    }
  }
  for (int i = 0; i < kRequests; ++i) {
    const Log& log = logs[static_cast<std::size_t>(i)];
    EXPECT_EQ(log.starts, repeats);
    EXPECT_EQ(log.rounds, repeats * (3 + i));
    EXPECT_EQ(log.last, last_of(3 + i));
    EXPECT_EQ(Progress::instance().free(&requests[static_cast<std::size_t>(i)]), MPI_SUCCESS);
  }
}

TEST_F(AlwaysTest, StartallMixedWithNonblocking) {
  std::array<Log, 3> logs;
  std::array<MPI_Request, 3> requests{prepare(1, 8, &logs[0]), prepare(2, 4, &logs[1]), MPI_REQUEST_NULL};
  for (int run = 1; run <= 50; ++run) {
    ASSERT_EQ(MPI_Startall(2, requests.data()), MPI_SUCCESS);
    requests[2] = submit(3, 6, &logs[2]);
    ASSERT_EQ(MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
    ASSERT_EQ(logs[0].rounds, 8 * run);
    ASSERT_EQ(logs[1].rounds, 4 * run);
    ASSERT_EQ(logs[2].rounds, 6 * run);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  settle();
}

TEST_F(AlwaysTest, StatesOfAPersistentRequest) {
  Log log;
  Log fast;
  MPI_Request request = prepare(1, 1, &log);
  MPI_Request failing = prepare(2, 0, &fast, MPI_ERR_INTERN);
  EXPECT_EQ(Progress::instance().state(MPI_REQUEST_NULL), Progress::State::unknown);
  MPI_Request other = MPI_REQUEST_NULL;
  char byte = 0;
  MPI_Send_init(&byte, 1, MPI_CHAR, 0, 0, comm_, &other);
  EXPECT_EQ(Progress::instance().state(other), Progress::State::unknown);
  MPI_Request_free(&other);

  if (rank() == 0) {  // the others have not started, so it cannot end
    MPI_Start(&request);
    if (size() > 1) {
      EXPECT_EQ(Progress::instance().state(request), Progress::State::active);
    }
  }
  MPI_Barrier(comm_);
  if (rank() != 0) MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(Progress::instance().state(request), Progress::State::idle);

  MPI_Start(&failing);
  MPI_Wait(&failing, MPI_STATUS_IGNORE);
  EXPECT_EQ(Progress::instance().state(failing), Progress::State::failed);
  EXPECT_EQ(Progress::instance().free(&failing), MPI_SUCCESS);  // NOLINT: not the C library's free
  EXPECT_EQ(Progress::instance().free(&request), MPI_SUCCESS);
  EXPECT_TRUE(log.destroyed && fast.destroyed);
}

TEST_F(AlwaysTest, ActivePersistentRequestMayBeFreed) {
  Log log;
  MPI_Request request = prepare(1, 20, &log);
  MPI_Start(&request);
  MPI_Request_free(&request);
  const double deadline = MPI_Wtime() + 60;
  while (!log.destroyed && MPI_Wtime() < deadline) {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 97, comm_, &flag, MPI_STATUS_IGNORE);
  }
  EXPECT_EQ(log.rounds, 20);
}

TEST_F(AlwaysTest, MemoryDoesNotGrow) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer holds freed memory back";
#endif
  Log log;
  const auto calls = [&](int count) {
    for (int i = 0; i < count; ++i) {
      MPI_Request request = submit(1, 1, &log);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Request again = prepare(2, 1, &log);
      MPI_Start(&again);
      MPI_Wait(&again, MPI_STATUS_IGNORE);
      MPI_Request_free(&again);
    }
  };
  calls(runs(1000));
  const std::size_t before = resident_kib();
  calls(runs(10000));
  EXPECT_LE(resident_kib(), before + 256);
  settle();
}

}  // namespace
