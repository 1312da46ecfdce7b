// Pipes between nodes: threads as ranks, teams and lanes, messages in memory.
#include "device/pipe.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "pipe_rounds.hpp"
#include "thread_messenger.hpp"

namespace tapa::device {
namespace {

struct Case {
  int ranks;
  HostPipes::Style style;
  int network_delay;
  unsigned rounds;
  std::size_t most;
};

void expect_right(const Case& test, std::size_t chunk) {
  Network network;
  network.delay = test.network_delay;
  std::vector<std::size_t> wrong(static_cast<std::size_t>(test.ranks), 0);
  {
    std::vector<std::unique_ptr<HostPipes>> pipes;
    for (int rank = 0; rank < test.ranks; ++rank) {
      pipes.push_back(std::make_unique<HostPipes>(rank, test.ranks, chunk, test.style,
                                                  std::make_unique<ThreadMessenger>(network, rank)));
    }
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < wrong.size(); ++rank) {
      threads.emplace_back([&, rank] {
        for (unsigned round = 0; round < test.rounds; ++round)
          wrong[rank] += wrong_in_round(*pipes[rank], rank, wrong.size(), round, shorter_than(test.most),
                                        round * 100 + static_cast<unsigned>(rank));
      });
    }
    threads.clear();
    for (const auto& each : pipes) EXPECT_EQ(each->proxy().failure(), "");
  }
  for (const std::size_t each : wrong) EXPECT_EQ(each, 0U);
}

TEST(Pipes, ChunksOverlapAndFitTheirSlots) {
  constexpr Word kSlot = 60 << 10;
  EXPECT_EQ(pipe_chunk(100, kSlot), Word{32} << 10);            // one chunk
  EXPECT_EQ(pipe_chunk(Word{1} << 20, kSlot), Word{32} << 10);  // as many as slots
  EXPECT_EQ(pipe_chunk(Word{1536} << 10, kSlot), Word{48} << 10);
  EXPECT_EQ(pipe_chunk(Word{1} << 30, kSlot), kSlot);
  EXPECT_EQ(pipe_chunk(Word{1} << 30, 128), 128U);
}

void expect_all_bytes(Word slice, Word slot, bool between_devices) {
  const PipeCut cut(slice, slot, between_devices);
  Word done = 0;
  for (Word step = 0; step < cut.count(); ++step) {
    const Slice part = cut.at(step);
    EXPECT_EQ(part.begin, done) << slice << " bytes, step " << step;
    EXPECT_EQ(part.begin % kGrain, 0U) << slice << " bytes, step " << step;
    EXPECT_LE(part.bytes, slot);
    done += part.bytes;
  }
  EXPECT_EQ(done, slice) << "slots of " << slot;
  if (slice <= slot * kPipeSlots) {
    EXPECT_LE(cut.count(), Word{kPipeSlots}) << slice << " bytes";
  }
}

TEST(Pipes, ChunksAreAllOfASlice) {
  for (const bool between_devices : {false, true}) {
    for (Word slice = 1; slice < 70000; slice += slice < 2000 ? 1 : 97)
      expect_all_bytes(slice, 2048, between_devices);
    for (Word slice = 1 << 15; slice < 1 << 22; slice += 12345)
      expect_all_bytes(slice, 64 << 10, between_devices);
  }
}

TEST(Pipes, BetweenDevicesTheFirstAndTheLastChunkAreShort) {
  constexpr Word kSlot = 64 << 10, kChunk = 32 << 10;
  const PipeCut cut(4 * kChunk, kSlot, true);
  std::vector<Word> parts;
  for (Word step = 0; step < cut.count(); ++step) parts.push_back(cut.at(step).bytes);
  constexpr Word kEighth = kChunk / 8;
  EXPECT_EQ(parts, (std::vector<Word>{kEighth, kEighth, 2 * kEighth, 4 * kEighth, kChunk, kChunk, 4 * kEighth,
                                      2 * kEighth, kEighth, kEighth}));
  EXPECT_EQ(PipeCut(4 * kChunk, kSlot, false).count(), 4U);
  EXPECT_EQ(PipeCut(kChunk, kSlot, true).count(), 1U);
}

/// A receiver that does not come holds the sender back: no more is under way than there are slots.
TEST(Pipes, NothingIsSentThatNobodyIsReadyFor) {
  Network network;
  const HostPipes::Style style{1, 1, 0, 300'000'000};
  HostPipes sender(0, 2, 128, style, std::make_unique<ThreadMessenger>(network, 0));
  HostPipes absent(1, 2, 128, style, std::make_unique<ThreadMessenger>(network, 1));
  std::vector<std::byte> memory(128 * kPipeSlots * 4);
  const HostPipes::Part none{nullptr, 0};
  const HostPipes::Part out[] = {none, {memory.data(), memory.size()}};
  const HostPipes::Part nothing[] = {none, none};
  sender.exchange(out, nothing, 1);  // gives up when all slots here and there are full
  EXPECT_EQ(sender.missing(1), 1U);
  EXPECT_EQ(sender.filled(1), 2U * kPipeSlots);
}

TEST(Pipes, MessagesOfAllLengthsArrive) {
  expect_right({2, {1, 1, 0, 0}, 0, 60, 3000}, 128);
}
TEST(Pipes, ChannelsLanesAndDelaysDoNotMatter) {
  expect_right({2, {2, 3, 20, 0}, 3, 20, 5000}, 256);
  expect_right({3, {2, 2, 30, 0}, 2, 12, 3000}, 256);
  expect_right({5, {1, 1, 30, 0}, 4, 8, 2000}, 128);
}

TEST(Pipes, ARankThatDoesNotComeIsNamed) {
  Network network;
  const HostPipes::Style style{1, 2, 0, 200'000'000};
  HostPipes mine(0, 3, 128, style, std::make_unique<ThreadMessenger>(network, 0));
  HostPipes other(1, 3, 128, style, std::make_unique<ThreadMessenger>(network, 1));
  const HostPipes::Part none{nullptr, 0};
  std::vector<std::byte> out(2000), more(2000), in(4000), other_in(2000);
  std::jthread second([&] {
    const HostPipes::Part sends[] = {{more.data(), 2000}, none, none};
    const HostPipes::Part receives[] = {{other_in.data(), 2000}, none, none};
    other.exchange(sends, receives, 1);
  });
  const HostPipes::Part sends[] = {none, {out.data(), 2000}, {out.data(), 2000}};
  const HostPipes::Part receives[] = {none, {in.data(), 2000}, {in.data() + 2000, 2000}};
  mine.exchange(sends, receives, 2);
  second.join();
  EXPECT_EQ(mine.missing(1), 0U);
  EXPECT_EQ(mine.missing(2), 1U);
  EXPECT_NE(mine.state().aborted, 0U);
  EXPECT_EQ(other.state().aborted, 0U);
  mine.exchange(sends, receives, 3);  // returns at once
}

TEST(Pipes, AFailureOfTheRankSendsNothing) {
  Network network;
  const HostPipes::Style style{1, 1, 0, 100'000'000};
  HostPipes broken(0, 2, 128, style, std::make_unique<ThreadMessenger>(network, 0));
  HostPipes waiting(1, 2, 128, style, std::make_unique<ThreadMessenger>(network, 1));
  broken.state().aborted = 1;
  std::vector<std::byte> memory(200), more(200, std::byte{7});
  const HostPipes::Part none{nullptr, 0};
  const HostPipes::Part out[] = {none, {memory.data(), 200}};
  const HostPipes::Part in[] = {{more.data(), 200}, none};
  const HostPipes::Part nothing[] = {none, none};
  broken.exchange(out, nothing, 1);
  waiting.exchange(nothing, in, 1);
  EXPECT_EQ(waiting.missing(0), 1U);
  EXPECT_EQ(more, std::vector<std::byte>(200, std::byte{0xff})) << "what looks like a result";
}

/// A program may end MPI when its last call has returned, which is before the last chunks are under way.
TEST(Pipes, WhoEndsFirstHasSentAllThatOthersWaitFor) {
  Network network;
  network.delay = 20;
  const HostPipes::Style style{1, 1, 0, 0};
  std::vector<std::byte> out(128 * kPipeSlots, std::byte{5}), in(out.size());
  HostPipes first(0, 2, 128, style, std::make_unique<ThreadMessenger>(network, 0));
  HostPipes second(1, 2, 128, style, std::make_unique<ThreadMessenger>(network, 1));
  const HostPipes::Part none{nullptr, 0};
  const HostPipes::Part nothing[] = {none, none};
  const HostPipes::Part sends[] = {none, {out.data(), out.size()}};
  const HostPipes::Part receives[] = {{in.data(), in.size()}, none};
  first.exchange(sends, nothing, 1);
  first.proxy().finish(true);
  first.proxy().finish(true);  // nothing more to do
  second.exchange(nothing, receives, 2);
  EXPECT_EQ(in, out);
}

/// One end of a pipe from rank 0 to rank 1, of which the device's part is the test's.
struct LonePipe {
  std::unique_ptr<PipeWords> words = std::make_unique<PipeWords>();  // see HostPipes
  std::vector<std::byte> slots = std::vector<std::byte>(kPipeSlots * 128);
  std::vector<HostPipe> of(int peer, bool sends) { return {{{peer, 0}, sends, words.get(), slots.data()}}; }
  void fill_one() {
    words->bytes[0] = 128;
    std::atomic_ref(words->device).store(1);
  }
};

/// The wait for a receiver that takes nothing begins when the end does, not when something moved last.
TEST(Pipes, AThreadThatWasIdleForLongSendsItsLastChunks) {
  Network network;
  LonePipe out, in;
  const auto last_wait = std::chrono::seconds(1);
  Proxy sender(std::make_unique<ThreadMessenger>(network, 0), out.of(1, true), 128, last_wait);
  Proxy receiver(std::make_unique<ThreadMessenger>(network, 1), in.of(0, false), 128);
  std::this_thread::sleep_for(last_wait + std::chrono::milliseconds(200));
  out.fill_one();
  sender.finish(true);
  for (int turn = 0; turn < 1000 && std::atomic_ref(in.words->host).load() == 0; ++turn)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(std::atomic_ref(in.words->host).load(), 1U);
}

/// Fails when it has been asked to move messages so often.
class FailingMessenger final : public Messenger {
 public:
  explicit FailingMessenger(int turns) : turns_(turns) {}
  [[nodiscard]] std::string describe() const override { return "none"; }
  [[nodiscard]] bool takes_device_memory() const override { return false; }
  void at_end(std::function<void()>, std::function<void()>) override {}
  void provide(std::size_t) override {}
  void send(std::size_t, Address, const void*, std::size_t) override {}
  void receive(std::size_t, Address, void*, std::size_t) override {}
  void progress() override {
    if (turns_-- == 0) throw DeviceError(TAPA_DEVICE_ERR_ARG, "the line is cut");
  }
  [[nodiscard]] bool done(std::size_t) const override { return false; }
  void abandon() override {}

 private:
  int turns_;
};

/// Without a time limit nothing else would end the wait.
TEST(Pipes, NobodyWaitsForAThreadThatHasEndedByAnError) {
  for (const int turns : {0, 100}) {
    const HostPipes::Style style{1, 2, 0, 0};
    HostPipes pipes(0, 2, 128, style, std::make_unique<FailingMessenger>(turns));
    std::vector<std::byte> out(128 * kPipeSlots * 2), in(200);
    const HostPipes::Part none{nullptr, 0};
    const HostPipes::Part sends[] = {none, {out.data(), out.size()}};
    const HostPipes::Part receives[] = {none, {in.data(), in.size()}};
    pipes.exchange(sends, receives, 1);
    EXPECT_EQ(pipes.missing(1), 1U);
    EXPECT_EQ(pipes.proxy().failure(), "the line is cut");
    EXPECT_NE(pipes.state().aborted, 0U);
  }
}

}  // namespace
}  // namespace tapa::device
