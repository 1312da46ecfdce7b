// The C++ header: every call moves the right elements, owners free what they own, errors become exceptions
// with the text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <complex>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "tapa/tapa.hpp"

namespace {

using ::testing::HasSubstr;

struct Pixel {
  float red, green, blue;
  std::uint8_t alpha;
  bool operator==(const Pixel&) const = default;
};

template <class T>
T element(int source, int destination, int i);
template <>
int element(int source, int destination, int i) {
  return (source * 100 + destination) * 10 + i;
}
template <>
std::complex<double> element(int source, int destination, int i) {
  return {source + 0.5, destination * 10.0 + i};
}
template <>
Pixel element(int source, int destination, int i) {
  return {static_cast<float>(source), static_cast<float>(destination), static_cast<float>(i),
          std::uint8_t{7}};
}
template <>
std::byte element(int source, int destination, int i) {
  return static_cast<std::byte>(source * 16 + destination + i);
}

/// Blocks of `n` elements for each rank, as this rank sends (`sent`) or receives them.
template <class T>
std::vector<T> uniform(const tapa::Communicator& comm, int n, bool sent) {
  std::vector<T> blocks;
  for (int peer = 0; peer < comm.size(); ++peer) {
    for (int i = 0; i < n; ++i) {
      blocks.push_back(sent ? element<T>(comm.rank(), peer, i) : element<T>(peer, comm.rank(), i));
    }
  }
  return blocks;
}

/// Blocks of (s + d) % 3 elements from s to d.
template <class Count, class Offset>
struct Ragged {
  explicit Ragged(const tapa::Communicator& comm) {
    for (int peer = 0; peer < comm.size(); ++peer) {
      const int n = (comm.rank() + peer) % 3;
      counts.push_back(static_cast<Count>(n));
      displs.push_back(static_cast<Offset>(send.size()));
      for (int i = 0; i < n; ++i) {
        send.push_back(element<int>(comm.rank(), peer, i));
        expected.push_back(element<int>(peer, comm.rank(), i));
      }
    }
    recv.assign(expected.size(), -1);
  }
  std::vector<Count> counts;  // symmetric, so for both sides
  std::vector<Offset> displs;
  std::vector<int> send, recv, expected;
};

template <class T>
void expect_alltoall() {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  const auto send = uniform<T>(comm, 3, true);
  std::vector<T> recv(send.size());
  comm.alltoall(send, recv);
  EXPECT_EQ(recv, uniform<T>(comm, 3, false));
}

TEST(CppHeader, MovesNamedAndOtherTypes) {
  expect_alltoall<int>();
  expect_alltoall<std::complex<double>>();
  expect_alltoall<std::byte>();
  expect_alltoall<Pixel>();
}

TEST(CppHeader, TakesAnyContiguousRange) {
  const auto comm = tapa::Communicator::borrow(MPI_COMM_WORLD);
  const auto send = uniform<int>(comm, 1, true);
  std::vector<int> room(send.size() + 2, -1);
  comm.alltoall(std::span<const int>(send), std::span<int>(room).subspan(1, send.size()));
  EXPECT_EQ(room.front(), -1);
  EXPECT_EQ(room.back(), -1);
  EXPECT_EQ(std::vector<int>(room.begin() + 1, room.end() - 1), uniform<int>(comm, 1, false));
}

TEST(CppHeader, InPlace) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  auto both = uniform<int>(comm, 4, true);
  comm.alltoall_in_place(both);
  EXPECT_EQ(both, uniform<int>(comm, 4, false));
}

TEST(CppHeader, Ragged) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  Ragged<int, int> small(comm);
  comm.alltoallv(small.send, small.counts, small.displs, small.recv, small.counts, small.displs);
  EXPECT_EQ(small.recv, small.expected);
  Ragged<MPI_Count, MPI_Aint> large(comm);
  comm.alltoallv(large.send, large.counts, large.displs, large.recv, large.counts, large.displs);
  EXPECT_EQ(large.recv, large.expected);
}

TEST(CppHeader, Nonblocking) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  const auto send = uniform<int>(comm, 2, true);
  std::vector<int> recv(send.size());
  Ragged<MPI_Count, MPI_Aint> ragged(comm);
  auto first = comm.ialltoall(send, recv);
  auto second =
      comm.ialltoallv(ragged.send, ragged.counts, ragged.displs, ragged.recv, ragged.counts, ragged.displs);
  while (!second.test()) {
  }
  first.wait();
  EXPECT_EQ(recv, uniform<int>(comm, 2, false));
  EXPECT_EQ(ragged.recv, ragged.expected);
}

TEST(CppHeader, RequestCompletesWhenItIsDestroyedOrReplaced) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  const auto send = uniform<int>(comm, 2, true);
  std::vector<int> a(send.size()), b(send.size());
  {
    auto request = comm.ialltoall(send, a);
    request = comm.ialltoall(send, b);
    auto moved = std::move(request);
  }
  EXPECT_EQ(a, uniform<int>(comm, 2, false));
  EXPECT_EQ(b, uniform<int>(comm, 2, false));
  tapa::Request nothing;
  nothing.wait();
  EXPECT_TRUE(nothing.test());
}

TEST(CppHeader, Persistent) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  auto send = uniform<int>(comm, 2, true);
  std::vector<int> recv(send.size());
  Ragged<MPI_Count, MPI_Aint> ragged(comm);
  auto whole = comm.alltoall_init(send, recv);
  auto parts = comm.alltoallv_init(ragged.send, ragged.counts, ragged.displs, ragged.recv, ragged.counts,
                                   ragged.displs);
  for (int round = 0; round < 3; ++round) {
    std::ranges::fill(recv, -1);
    std::ranges::fill(ragged.recv, -1);
    whole.start();
    parts.start();
    whole.wait();
    parts.wait();
    EXPECT_EQ(recv, uniform<int>(comm, 2, false));
    EXPECT_EQ(ragged.recv, ragged.expected);
  }
}

template <class Call>
std::string error_of(Call&& call, int expected_class) {
  try {
    call();
  } catch (const tapa::Error& e) {
    EXPECT_EQ(e.error_class(), expected_class);
    return e.what();
  }
  return "no error";
}

TEST(CppHeader, PersistentThatIsNeverStarted) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  const auto send = uniform<int>(comm, 2, true);
  std::vector<int> recv(send.size(), -1);
  auto request = comm.alltoall_init(send, recv);
  request.wait();
  EXPECT_TRUE(request.test());
  EXPECT_EQ(recv, std::vector<int>(send.size(), -1));
}

TEST(CppHeader, Selection) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  const int ranks = comm.size();
  constexpr int rows = 4, row = 3;
  const std::vector<int> all(static_cast<std::size_t>(ranks), rows);
  std::vector<MPI_Aint> displs(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) displs[static_cast<std::size_t>(r)] = r * rows;
  const auto send = uniform<int>(comm, rows * row, true);
  const auto arrived = uniform<int>(comm, rows * row, false);
  const std::array active{1, 3};
  const tapa::Selection selection(comm, all, all, active, "");
  EXPECT_EQ(selection.bytes(row * sizeof(int)).sent,
            static_cast<std::size_t>(ranks - 1) * 2 * row * sizeof(int));
  const std::vector<int> twice(static_cast<std::size_t>(ranks), 2);
  std::vector<int> lists;
  for (int r = 0; r < ranks; ++r) lists.insert(lists.end(), active.begin(), active.end());
  const tapa::Selection same(comm, all, all, twice, lists, "");
  const auto expect_rows = [&](const std::vector<int>& recv) {
    for (std::size_t i = 0; i < recv.size(); ++i) {
      const bool travels = static_cast<int>(i) / row % 2 == 1;  // "": everywhere, the own block too
      EXPECT_EQ(recv[i], travels ? arrived[i] : -1) << "element " << i;
    }
  };
  std::vector<int> recv(send.size(), -1);
  selection.alltoallv(send, displs, recv, displs, row);
  expect_rows(recv);
  std::ranges::fill(recv, -1);
  if (std::getenv("TEST_NONBLOCKING") == nullptr) {
    same.ialltoallv(send, displs, recv, displs, row).wait();
    expect_rows(recv);
  }
  if (std::getenv("TEST_PERSISTENT") != nullptr) {  // nothing would make them progress
    EXPECT_THAT(error_of([&] { auto made = selection.alltoallv_init(send, displs, recv, displs, row); },
                         MPI_ERR_UNSUPPORTED_OPERATION),
                HasSubstr("expected Open MPI or MPI_THREAD_MULTIPLE"));
    return;
  }
  auto request = selection.alltoallv_init(send, displs, recv, displs, row);
  for (int round = 0; round < 2; ++round) {
    std::ranges::fill(recv, -1);
    request.start();
    request.wait();
    expect_rows(recv);
  }
}

TEST(CppHeader, SparseExchange) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  const int next = (comm.rank() + 1) % comm.size();
  const int before = (comm.rank() + comm.size() - 1) % comm.size();
  const std::vector<Pixel> send{element<Pixel>(comm.rank(), next, 0), element<Pixel>(comm.rank(), next, 1)};
  auto moved = comm.sparse_exchange(send, std::array{next}, std::array{MPI_Count{2}});
  const tapa::Received<Pixel> received = std::move(moved);
  EXPECT_THAT(received.sources(), testing::ElementsAre(before));
  EXPECT_THAT(received.counts(), testing::ElementsAre(2));
  EXPECT_THAT(received.data(), testing::ElementsAre(element<Pixel>(before, comm.rank(), 0),
                                                    element<Pixel>(before, comm.rank(), 1)));
  const auto nothing = comm.sparse_exchange(std::vector<int>{}, {}, {});
  EXPECT_TRUE(nothing.sources().empty());
  EXPECT_TRUE(nothing.data().empty());
  EXPECT_THAT(error_of([&] { (void)comm.sparse_exchange(send, std::array{next}, std::array{MPI_Count{1}}); },
                       MPI_ERR_COUNT),
              HasSubstr("expected one for each and the sum 2"));
}

TEST(CppHeader, StateAndOptions) {
  auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  comm.setup();
  comm.set("plan", "linear");
  EXPECT_EQ(comm.get("plan"), "linear");
  EXPECT_EQ(comm.plan(64), "linear");
  EXPECT_EQ(comm.level(comm.rank()).level, 0);
  EXPECT_FALSE(comm.level(comm.size() - 1).name.empty());
  const auto moved = std::move(comm);
  EXPECT_EQ(moved.get("plan"), "linear");
}

TEST(CppHeader, ErrorsAreThrownWithTheirText) {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  std::vector<int> room(static_cast<std::size_t>(3 * comm.size()));
  EXPECT_THAT(error_of([&] { comm.set("plam", "linear"); }, MPI_ERR_ARG), HasSubstr("plam"));
  EXPECT_THAT(error_of([&] { comm.alltoall(room, std::vector<int>(1)); }, MPI_ERR_COUNT),
              HasSubstr("recv 1"));
  if (comm.size() > 1) {
    std::vector<int> odd(static_cast<std::size_t>(comm.size() + 1));
    EXPECT_THAT(error_of([&] { comm.alltoall_in_place(odd); }, MPI_ERR_COUNT), HasSubstr("multiple of the"));
  }
  const std::vector<int> ones(static_cast<std::size_t>(comm.size()), 1);
  std::vector<int> far = ones;
  far.back() = static_cast<int>(room.size());
  EXPECT_THAT(error_of([&] { comm.alltoallv(room, ones, far, room, ones, ones); }, MPI_ERR_COUNT),
              HasSubstr("send: a block leaves the range"));
  far.back() = -1;
  EXPECT_THAT(error_of([&] { comm.alltoallv(room, ones, ones, room, far, ones); }, MPI_ERR_COUNT),
              HasSubstr("recv: a block leaves the range"));
  EXPECT_THAT(
      error_of([&] { comm.alltoallv(room, std::span<const int>(), ones, room, ones, ones); }, MPI_ERR_COUNT),
      HasSubstr("0 counts"));
  int none = 0;
  EXPECT_NE(MPI_Send(&none, 1, MPI_INT, comm.size(), 0, comm.handle()), MPI_SUCCESS) << "MPI's return, too";
}

}  // namespace

int main(int argc, char** argv) {
  const bool threads = argc > 1 && std::string(argv[1]) == "--threads";
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
