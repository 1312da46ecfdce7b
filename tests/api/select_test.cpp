// The selective all-to-all: what arrives, what stays untouched, with every plan of TEST_PLANS (separated
// by '/'). TEST_PERSISTENT: persistent requests are refused, as nothing would make them progress; with
// TEST_NONBLOCKING others, too.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

namespace {

using Rows = std::vector<int>;

std::vector<std::string> plans() {
  const char* text = std::getenv("TEST_PLANS");
  std::istringstream in(text == nullptr ? "auto" : text);
  std::vector<std::string> names;
  for (std::string name; std::getline(in, name, '/');) names.push_back(name);
  return names;
}

/// A selection as all ranks compute it: rows of each block and which are active.
struct Case {
  std::string name;
  std::function<int(int src, int dst)> rows;
  std::function<bool(int src, int dst, int row)> active;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"full", [](int, int) { return 6; }, [](int, int, int) { return true; }},
      {"empty", [](int, int) { return 6; }, [](int, int, int) { return false; }},
      {"no rows", [](int, int) { return 0; }, [](int, int, int) { return true; }},
      {"every other", [](int, int) { return 7; }, [](int, int, int row) { return row % 2 == 1; }},
      {"one run", [](int, int) { return 9; }, [](int, int, int row) { return row >= 2 && row < 6; }},
      {"ragged", [](int s, int d) { return (s * 5 + d * 3) % 11; },
       [](int s, int d, int row) { return (s * 7 + d * 13 + row * row) % 3 == 0; }},
      {"some ranks silent", [](int s, int d) { return s % 3 == 1 ? 0 : 4 + d; },
       [](int s, int d, int row) { return (s + d + row) % 4 != 2; }},
  };
  return all;
}

std::byte byte_of(int src, int dst, int row, std::size_t at, int salt) {
  return static_cast<std::byte>(src * 89 + dst * 53 + row * 17 + static_cast<int>(at) * 7 + salt * 3);
}

constexpr std::byte kOld{0x5a};  // what the receive buffer holds before

class SelectTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, tapa::errors_return());
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    ASSERT_EQ(TAPA_Comm_set(comm_, "plan", GetParam().c_str()), MPI_SUCCESS) << TAPA_Last_error();
  }
  void TearDown() override { MPI_Comm_free(&comm_); }

  TAPA_Selection create(const Case& c, const char* boundary) {
    Rows sendrows;
    Rows recvrows;
    Rows nactive;
    Rows active;
    for (int p = 0; p < size_; ++p) {
      sendrows.push_back(c.rows(rank_, p));
      recvrows.push_back(c.rows(p, rank_));
      const auto before = active.size();
      for (int row = 0; row < sendrows.back(); ++row) {
        if (c.active(rank_, p, row)) active.push_back(row);
      }
      nactive.push_back(static_cast<int>(active.size() - before));
    }
    TAPA_Selection selection = TAPA_SELECTION_NULL;
    EXPECT_EQ(TAPA_Selection_create(sendrows.data(), recvrows.data(), nactive.data(), active.data(), 0,
                                    boundary, comm_, &selection),
              MPI_SUCCESS)
        << TAPA_Last_error();
    return selection;
  }

  /// Whether the rows between this rank and a peer travel all, by the levels that the library reports.
  bool all_travel(int peer, const std::string& boundary, bool has_boundary) {
    int level = -1;
    char name[64] = {};
    EXPECT_EQ(TAPA_Comm_level(comm_, peer, &level, name, sizeof name), MPI_SUCCESS);
    if (has_boundary && boundary.empty()) return false;
    if (has_boundary && boundary == "world") return true;
    return level == 0;  // boundary "node" or the NICs' level, with one level below
  }
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
};

/// Memory of one selective exchange: blocks with a gap of one row between them.
struct Memory {
  std::vector<std::byte> send, recv, expected;
  std::vector<MPI_Aint> sdispls, rdispls;
  std::size_t sent = 0;
  std::size_t received = 0;
};

Memory make_memory(const Case& c, int rank, int size, std::size_t rowbytes,
                   const std::function<bool(int)>& all) {
  Memory m;
  MPI_Aint s = 1;
  MPI_Aint r = 1;
  for (int p = 0; p < size; ++p) {
    m.sdispls.push_back(s);
    m.rdispls.push_back(r);
    s += c.rows(rank, p) + 1;
    r += c.rows(p, rank) + 1;
    for (int row = 0; row < c.rows(rank, p) && p != rank; ++row)
      m.sent += all(p) || c.active(rank, p, row) ? rowbytes : 0;
    for (int row = 0; row < c.rows(p, rank) && p != rank; ++row) {
      m.received += all(p) || c.active(p, rank, row) ? rowbytes : 0;
    }
  }
  m.send.assign(static_cast<std::size_t>(s) * rowbytes, std::byte{0x11});
  m.recv.assign(static_cast<std::size_t>(r) * rowbytes, kOld);
  return m;
}

void fill(Memory& m, const Case& c, int rank, int size, std::size_t rowbytes,
          const std::function<bool(int)>& all, int salt) {
  m.recv.assign(m.recv.size(), kOld);
  m.expected.assign(m.recv.size(), kOld);
  for (int p = 0; p < size; ++p) {
    const auto at = static_cast<std::size_t>(p);
    for (int row = 0; row < c.rows(rank, p); ++row) {
      for (std::size_t b = 0; b < rowbytes; ++b) {
        m.send[static_cast<std::size_t>(m.sdispls[at] + row) * rowbytes + b] = byte_of(rank, p, row, b, salt);
      }
    }
    for (int row = 0; row < c.rows(p, rank); ++row) {
      if (!all(p) && !c.active(p, rank, row)) continue;
      for (std::size_t b = 0; b < rowbytes; ++b) {
        m.expected[static_cast<std::size_t>(m.rdispls[at] + row) * rowbytes + b] =
            byte_of(p, rank, row, b, salt);
      }
    }
  }
}

/// What a nonblocking call returns.
int started() {
  return std::getenv("TEST_NONBLOCKING") == nullptr ? MPI_SUCCESS : MPI_ERR_UNSUPPORTED_OPERATION;
}

TEST_P(SelectTest, ActiveRowsArriveAndOthersStay) {
  for (const char* boundary : {static_cast<const char*>(nullptr), "", "world"}) {
    const auto all = [&](int p) {
      return all_travel(p, boundary == nullptr ? "" : boundary, boundary != nullptr);
    };
    for (const Case& c : cases()) {
      TAPA_Selection selection = create(c, boundary);
      ASSERT_NE(selection, TAPA_SELECTION_NULL);
      for (const std::size_t rowbytes : {1U, 8U, 13U, 1000U}) {
        SCOPED_TRACE(c.name + ", rows of " + std::to_string(rowbytes));
        Memory m = make_memory(c, rank_, size_, rowbytes, all);
        std::size_t sent = 0;
        std::size_t received = 0;
        ASSERT_EQ(TAPA_Selection_bytes(selection, rowbytes, &sent, &received), MPI_SUCCESS);
        ASSERT_EQ(sent, m.sent);
        ASSERT_EQ(received, m.received);

        fill(m, c, rank_, size_, rowbytes, all, 1);
        ASSERT_EQ(TAPA_Alltoallv_select(m.send.data(), m.sdispls.data(), m.recv.data(), m.rdispls.data(),
                                        rowbytes, selection),
                  MPI_SUCCESS)
            << TAPA_Last_error();
        ASSERT_EQ(m.recv, m.expected);

        fill(m, c, rank_, size_, rowbytes, all, 2);
        MPI_Request request = MPI_REQUEST_NULL;
        ASSERT_EQ(TAPA_Ialltoallv_select(m.send.data(), m.sdispls.data(), m.recv.data(), m.rdispls.data(),
                                         rowbytes, selection, &request),
                  started())
            << TAPA_Last_error();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (started() == MPI_SUCCESS) {
          ASSERT_EQ(m.recv, m.expected);
        }

        if (std::getenv("TEST_PERSISTENT") != nullptr) {
          ASSERT_EQ(
              TAPA_Alltoallv_select_init(m.send.data(), m.sdispls.data(), m.recv.data(), m.rdispls.data(),
                                         rowbytes, selection, MPI_INFO_NULL, &request),
              MPI_ERR_UNSUPPORTED_OPERATION);
          continue;
        }
        ASSERT_EQ(TAPA_Alltoallv_select_init(m.send.data(), m.sdispls.data(), m.recv.data(), m.rdispls.data(),
                                             rowbytes, selection, MPI_INFO_NULL, &request),
                  MPI_SUCCESS)
            << TAPA_Last_error();
        for (int run = 0; run < 3; ++run) {
          fill(m, c, rank_, size_, rowbytes, all, 3 + run);
          MPI_Start(&request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
          ASSERT_EQ(m.recv, m.expected);
        }
        ASSERT_EQ(TAPA_Request_free(&request), MPI_SUCCESS);
      }
      ASSERT_EQ(TAPA_Selection_free(&selection), MPI_SUCCESS);
      ASSERT_EQ(selection, TAPA_SELECTION_NULL);
    }
  }
}

TEST_P(SelectTest, OneListForAllBlocks) {
  const Case c{"one list", [](int s, int d) { return (s + d) % 4 == 1 ? 0 : 8; },
               [](int, int, int row) { return row == 1 || row == 4 || row == 5; }};
  Rows sendrows;
  Rows recvrows;
  for (int p = 0; p < size_; ++p) {
    sendrows.push_back(c.rows(rank_, p));
    recvrows.push_back(c.rows(p, rank_));
  }
  const int nactive = 3;
  const Rows active{1, 4, 5};
  TAPA_Selection selection = TAPA_SELECTION_NULL;
  ASSERT_EQ(TAPA_Selection_create(sendrows.data(), recvrows.data(), &nactive, active.data(), 1, nullptr,
                                  comm_, &selection),
            MPI_SUCCESS)
      << TAPA_Last_error();
  const auto all = [&](int p) { return all_travel(p, "", false); };
  Memory m = make_memory(c, rank_, size_, 5, all);
  fill(m, c, rank_, size_, 5, all, 1);
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_EQ(TAPA_Ialltoallv_select(m.send.data(), m.sdispls.data(), m.recv.data(), m.rdispls.data(), 5,
                                   selection, &request),
            started());
  ASSERT_EQ(TAPA_Selection_free(&selection), MPI_SUCCESS);  // early, which does no harm
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (started() == MPI_SUCCESS) {
    EXPECT_EQ(m.recv, m.expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, SelectTest, testing::ValuesIn(plans()),
                         [](const auto& info) { return "plan" + std::to_string(info.index); });

class SelectMisuse : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, tapa::errors_return());
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    rows_.assign(static_cast<std::size_t>(size_), 5);
    expected_ = rows_;
  }
  void TearDown() override {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm_);
  }
  /// Creates from one list on all ranks.
  int create(const Rows& active, const char* boundary = nullptr) {
    const int n = static_cast<int>(active.size());
    return TAPA_Selection_create(rows_.data(), expected_.data(), &n, active.data(), 1, boundary, comm_,
                                 &selection_);
  }
  void expect(int code, int error_class, const std::string& message) {
    int actual = MPI_SUCCESS;
    MPI_Error_class(code, &actual);
    EXPECT_EQ(actual, error_class);
    EXPECT_EQ(std::string(TAPA_Last_error()), message);
    EXPECT_EQ(selection_, TAPA_SELECTION_NULL);
  }
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  Rows rows_;
  Rows expected_;
  TAPA_Selection selection_ = TAPA_SELECTION_NULL;
};

TEST_F(SelectMisuse, WrongLists) {
  expect(create({0, 5}), MPI_ERR_ARG,
         "TAPA_Selection_create: active[1] of the block for rank 0 is 5, expected a row index of 0 or more "
         "and below 5");
  expect(create({-3}), MPI_ERR_ARG,
         "TAPA_Selection_create: active[0] of the block for rank 0 is -3, expected a row index of 0 or more "
         "and below 5");
  expect(create({3, 1}), MPI_ERR_ARG,
         "TAPA_Selection_create: active[1] of the block for rank 0 is 1 after 3, expected ascending distinct "
         "indices");
  expect(create({1, 1}), MPI_ERR_ARG,
         "TAPA_Selection_create: active[1] of the block for rank 0 is 1 after 1, expected ascending distinct "
         "indices");
}

TEST_F(SelectMisuse, WrongCountsAndPointers) {
  const int one = 1;
  const int minus = -1;
  const Rows active{0};
  expect(
      TAPA_Selection_create(nullptr, expected_.data(), &one, active.data(), 1, nullptr, comm_, &selection_),
      MPI_ERR_ARG, "TAPA_Selection_create: sendrows is null, expected an array");
  expect(TAPA_Selection_create(rows_.data(), nullptr, &one, active.data(), 1, nullptr, comm_, &selection_),
         MPI_ERR_ARG, "TAPA_Selection_create: recvrows is null, expected an array");
  expect(TAPA_Selection_create(rows_.data(), expected_.data(), nullptr, active.data(), 1, nullptr, comm_,
                               &selection_),
         MPI_ERR_ARG, "TAPA_Selection_create: nactive is null, expected an array");
  expect(TAPA_Selection_create(rows_.data(), expected_.data(), &one, nullptr, 1, nullptr, comm_, &selection_),
         MPI_ERR_ARG, "TAPA_Selection_create: active is null, expected an array");
  expect(
      TAPA_Selection_create(rows_.data(), expected_.data(), &one, active.data(), 1, nullptr, comm_, nullptr),
      MPI_ERR_ARG, "TAPA_Selection_create: selection is null, expected the address of a TAPA_Selection");
  expect(TAPA_Selection_create(rows_.data(), expected_.data(), &minus, active.data(), 1, nullptr, comm_,
                               &selection_),
         MPI_ERR_COUNT, "TAPA_Selection_create: nactive[0] is -1, expected 0 or more");
  expect(TAPA_Selection_create(rows_.data(), expected_.data(), &one, active.data(), 1, nullptr, MPI_COMM_NULL,
                               &selection_),
         MPI_ERR_COMM, "TAPA_Selection_create: comm is MPI_COMM_NULL, expected a communicator");
  rows_[0] = -2;
  expect(create({}), MPI_ERR_COUNT, "TAPA_Selection_create: sendrows[0] is -2, expected 0 or more");
}

TEST_F(SelectMisuse, UnknownBoundaryListsTheLevels) {
  const int code = create({0}, "galaxy");
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  EXPECT_EQ(error_class, MPI_ERR_ARG);
  const std::string message = TAPA_Last_error();
  EXPECT_EQ(message.find("TAPA_Selection_create: boundary is \"galaxy\", expected a level ("), 0U) << message;
  EXPECT_NE(message.find("world), \"\" for everywhere, or null"), std::string::npos) << message;
}

TEST_F(SelectMisuse, DisagreementIsNamedOnAllRanks) {
  if (size_ < 2) GTEST_SKIP() << "needs two ranks";
  if (rank_ == 1) expected_[0] = 4;
  expect(create({0}), MPI_ERR_ARG, "TAPA_Selection_create: rank 0 sends 5 rows to rank 1, which expects 4");
  expected_ = rows_;
  EXPECT_NE(create({0}, rank_ == 1 ? "" : "world"), MPI_SUCCESS);
  EXPECT_EQ(
      std::string(TAPA_Last_error()).find("TAPA_Selection_create: boundary is level 0 on rank 1 and level "),
      0U)
      << TAPA_Last_error();
  // One rank's own mistake stops all.
  const std::string own =
      "TAPA_Selection_create: active[0] of the block for rank 0 is 9, expected a row index of 0 or more and "
      "below 5";
  const std::string others =
      "TAPA_Selection_create: rank 1 passed wrong arguments or has no memory, its own message says which";
  expect(create({rank_ == 1 ? 9 : 0}), MPI_ERR_ARG, rank_ == 1 ? own : others);
}

TEST_F(SelectMisuse, WrongCalls) {
  ASSERT_EQ(create({0, 1}, ""), MPI_SUCCESS) << TAPA_Last_error();
  const auto n = static_cast<std::size_t>(size_);
  std::vector<char> buffer(n * 5 * 2);
  std::vector<MPI_Aint> displs(n, 0);
  TAPA_Selection made = selection_;
  selection_ = TAPA_SELECTION_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  const char* const null_selection =
      ": selection is TAPA_SELECTION_NULL, expected one made by TAPA_Selection_create";
  char* b = buffer.data();
  MPI_Aint* d = displs.data();
  expect(TAPA_Alltoallv_select(b, d, b, d, 2, TAPA_SELECTION_NULL), MPI_ERR_ARG,
         std::string("TAPA_Alltoallv_select") + null_selection);
  expect(TAPA_Ialltoallv_select(b, d, b, d, 2, TAPA_SELECTION_NULL, &request), MPI_ERR_ARG,
         std::string("TAPA_Ialltoallv_select") + null_selection);
  expect(TAPA_Alltoallv_select_init(b, d, b, d, 2, TAPA_SELECTION_NULL, MPI_INFO_NULL, &request), MPI_ERR_ARG,
         std::string("TAPA_Alltoallv_select_init") + null_selection);
  expect(TAPA_Selection_bytes(TAPA_SELECTION_NULL, 2, nullptr, nullptr), MPI_ERR_ARG,
         std::string("TAPA_Selection_bytes") + null_selection);
  expect(TAPA_Selection_free(&selection_), MPI_ERR_ARG, std::string("TAPA_Selection_free") + null_selection);
  expect(TAPA_Selection_free(nullptr), MPI_ERR_ARG,
         "TAPA_Selection_free: selection is null, expected the address of a TAPA_Selection");
  expect(TAPA_Alltoallv_select(nullptr, d, b, d, 2, made), MPI_ERR_BUFFER,
         "TAPA_Alltoallv_select: sendbuf is null, expected a buffer: the block for rank 0 has 2 rows that "
         "travel");
  expect(TAPA_Alltoallv_select(b, d, nullptr, d, 2, made), MPI_ERR_BUFFER,
         "TAPA_Alltoallv_select: recvbuf is null, expected a buffer: the block for rank 0 has 2 rows that "
         "travel");
  expect(TAPA_Alltoallv_select(MPI_IN_PLACE, d, b, d, 2, made), MPI_ERR_BUFFER,
         "TAPA_Alltoallv_select: sendbuf is MPI_IN_PLACE, expected a buffer of its own");
  expect(TAPA_Alltoallv_select(b, nullptr, b, d, 2, made), MPI_ERR_ARG,
         "TAPA_Alltoallv_select: sdispls is null, expected an array");
  displs[0] = -4;
  expect(TAPA_Alltoallv_select(b, d, b, d, 2, made), MPI_ERR_ARG,
         "TAPA_Alltoallv_select: sdispls[0] is -4, expected 0 or more");
  displs[0] = 0;
  expect(TAPA_Ialltoallv_select(b, d, b, d, 2, made, nullptr), MPI_ERR_ARG,
         "TAPA_Ialltoallv_select: request is null, expected the address of an MPI_Request");
  EXPECT_EQ(TAPA_Alltoallv_select(nullptr, d, nullptr, d, 0, made), MPI_SUCCESS);  // rows of no bytes
  EXPECT_EQ(TAPA_Selection_free(&made), MPI_SUCCESS);
}

}  // namespace
