// Messages that nobody expects: all of them come, whether ranks are counted or not, with ranks that send
// nothing, much or to all, one exchange behind the other without a barrier between them.
#include "run/sparse_messages.hpp"

#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "tapa/errors_return.hpp"

namespace tapa {
namespace {

using Bytes = std::vector<std::byte>;

class SparseMessagesTest : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr int kTag = 8;

  SparseMessagesTest() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, errors_return());
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &ranks_);
    in_world_.resize(static_cast<std::size_t>(ranks_));
    std::iota(in_world_.begin(), in_world_.end(), 0);
  }
  ~SparseMessagesTest() override {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm_);
  }

  /// What a rank sends to another in an exchange, which every rank can tell; nothing where it sends none.
  static std::optional<Bytes> message(int call, int from, int to) {
    std::mt19937 random(static_cast<unsigned>(call * 10'000 + from * 100 + to));
    const bool sends = call % 4 == 1   ? from != to
                       : call % 4 == 2 ? to == 0 && from != 0
                                       : random() % 3 == 0 && from != to;
    if (!sends) return std::nullopt;
    const std::size_t lengths[] = {0,    1,    8,
                                   1008, 1009, 100'000};  // data beside and behind what announces them
    Bytes bytes(lengths[random() % std::size(lengths)]);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  }

  void run(SparseMessages& messages, int call) {
    std::vector<Bytes> data;
    std::vector<int> to;
    for (int peer = 0; peer < ranks_; ++peer) {
      auto one = message(call, rank_, peer);
      if (!one) continue;
      data.push_back(std::move(*one));
      to.push_back(peer);
    }
    std::vector<SparseMessage> sent;
    for (std::size_t i = 0; i < to.size(); ++i) sent.push_back({to[i], data[i]});
    inbox_.clear(static_cast<std::size_t>(ranks_));
    messages.start({comm_, in_world_, {}}, kTag, rank_, sent, static_cast<std::uint64_t>(call + rank_),
                   inbox_);
    while (!messages.test()) sched_yield();
    inbox_.close();
  }

  void require_all(const SparseMessages& messages, int call) {
    EXPECT_EQ(messages.contributed(), static_cast<std::uint64_t>(call * ranks_ + ranks_ * (ranks_ - 1) / 2));
    std::vector<std::size_t> sources;
    for (int from = 0; from < ranks_; ++from) {
      const auto one = message(call, from, rank_);
      if (!one) continue;
      sources.push_back(static_cast<std::size_t>(from));
      EXPECT_TRUE(std::ranges::equal(inbox_.from(sources.back()), *one))
          << "from " << from << " in call " << call;
    }
    EXPECT_EQ(inbox_.sources(), sources) << "in call " << call;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<int> in_world_;
  int rank_ = 0, ranks_ = 0;
  SparseInbox inbox_;
};

TEST_P(SparseMessagesTest, AllCome) {
  SparseMessages messages(GetParam());
  for (int call = 0; call < 100; ++call) {
    run(messages, call);
    require_all(messages, call);
  }
}
INSTANTIATE_TEST_SUITE_P(MostCounted, SparseMessagesTest,
                         testing::Values(std::size_t{0}, SparseMessages::kMostCounted),
                         [](const auto& one) { return one.param == 0 ? "None" : "All"; });

/// All have made the call, and messages are still to come: the last rank makes it by hand, with one to rank
/// 0.
TEST_F(SparseMessagesTest, SaysWhatItWaitsFor) {
  constexpr std::uint64_t kLong = 5000;  // bytes; behind what announces them
  const Bytes data(kLong, std::byte{7});
  const MessageSpace space{comm_, in_world_, {}};
  if (ranks_ == 1) GTEST_SKIP() << "nobody to wait for";
  SparseMessages messages;
  SmallReduce numbers;  // of the last rank, which makes the call by hand
  inbox_.clear(static_cast<std::size_t>(ranks_));
  const auto wait = [](const auto& done) {
    for (const double end = MPI_Wtime() + 30; !done() && MPI_Wtime() < end;) sched_yield();
  };
  if (rank_ == ranks_ - 1) {
    std::vector<std::uint64_t> sends(1 + static_cast<std::size_t>(ranks_));
    sends[1] = 1;
    numbers.start(space, kTag + 3, rank_, ranks_, sends, std::vector(sends.size(), Combine::sum));
    wait([&] { return numbers.test(); });
  } else {
    messages.start(space, kTag, rank_, {}, 0, inbox_);
    wait(
        [&] { return messages.test() || messages.waits_for().find("received 0 of 1") != std::string::npos; });
  }
  if (rank_ == 0) {
    EXPECT_EQ(messages.waits_for(), "has received 0 of 1 messages that ranks send to it");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const std::uint64_t head[] = {static_cast<std::uint64_t>(ranks_ - 1), kLong};
  if (rank_ == ranks_ - 1) MPI_Send(head, sizeof head, MPI_BYTE, 0, kTag + 1, comm_);
  if (rank_ == 0) {
    wait([&] { return messages.test() || messages.waits_for().find("received") == std::string::npos; });
    EXPECT_EQ(messages.waits_for(), "waits for the data of long messages to come and go");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == ranks_ - 1) MPI_Send(data.data(), kLong, MPI_BYTE, 0, kTag + 2, comm_);
  if (rank_ == 0) {
    wait([&] { return messages.test(); });
    inbox_.close();
    EXPECT_TRUE(std::ranges::equal(inbox_.from(static_cast<std::size_t>(ranks_ - 1)), data));
  }
}

}  // namespace
}  // namespace tapa
