// What ranks do on the host about device memory, without a device: an exchange whose end is collective, as a
// device communicator's is, and which fails on some ranks. "devices CASE".
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "common/agree.hpp"
#include "common/all_to_all.hpp"
#include "common/device_queue.hpp"

namespace dit {
namespace {

int wrong = 0;
int ended = 0;
int abandoned = 0;
int stopped = 0;
int failing_rank = -1;    ///< its device fails
int unsettled_rank = -1;  ///< its device does not come to rest
bool broken_rank = false;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "not as expected: %s\n", what);
  ++wrong;
}

/// Passed once `released`.
class FakeEnd final : public StreamEnd {
 public:
  static bool released;
  static int asked;
  [[nodiscard]] bool passed() const override {
    ++asked;
    return released;
  }
  static bool late;
  void wait() const override {
    if (late) throw PluginFailure(DIT_ERROR_TIMEOUT, "not within 1 s");
    released = true;
  }
  void hold(void* stream) const override { *static_cast<int*>(stream) += 1; }
};
bool FakeEnd::released = false;
int FakeEnd::asked = 0;
bool FakeEnd::late = false;

class FakeDevice final : public DeviceExchange {
 public:
  explicit FakeDevice(Ranks& ranks) : ranks_(ranks) {}
  ~FakeDevice() override {
    ++ended;
    if (!abandoned_) (void)gather(ranks_, 0);
  }
  std::unique_ptr<StreamEnd> start(const dit_exchange_call&) override { return std::make_unique<FakeEnd>(); }
  void check() override {
    if (ranks_.rank() == failing_rank) throw PluginFailure(DIT_ERROR_COMMUNICATION, "rank 1 did not arrive");
  }
  int add_memory(void*, std::size_t) override {
    (void)gather(ranks_, 0);
    return 5;
  }
  void settle() override {
    if (ranks_.rank() == unsettled_rank) throw PluginFailure(DIT_ERROR_COMMUNICATION, "an illegal address");
  }
  void remove_memory(int number) override {
    expect(number == 5, "the memory's number");
    (void)gather(ranks_, 0);
  }
  void* peer_memory(int, int rank) override { return &wrong + rank; }
  void begin_stores(int, void*) override {}
  std::unique_ptr<StreamEnd> end_stores(int, void*) override { return std::make_unique<FakeEnd>(); }
  void stop() noexcept override { ++stopped; }
  void restart() override { (void)gather(ranks_, 0); }
  void abandon() noexcept override {
    abandoned_ = true;
    ++abandoned;
  }
  std::string text() const override { return "none"; }

 private:
  Ranks& ranks_;
  bool abandoned_ = false;
};

OpenedDevice make_fake(const DeviceSettings&) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  auto ranks = std::make_unique<MpiRanks>(comm);
  ranks->own();
  together(*ranks, [] {
    if (broken_rank) throw PluginFailure(DIT_ERROR_UNSUPPORTED, "no GPU here");
  });
  auto exchange = std::make_unique<FakeDevice>(*ranks);
  return {std::move(ranks), std::move(exchange)};
}

double seconds_of(const std::function<void()>& step) {
  const auto begun = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

/// The words of the failure, after "late: " where it may still come.
std::string words_of(const std::function<void()>& step) {
  try {
    step();
  } catch (const PluginFailure& failure) {
    return (failure.status() == DIT_ERROR_TIMEOUT ? "late: " : "") + std::string(failure.what());
  }
  return "";
}

dit_request* start(DeviceQueue& queue) {
  dit_request* request = nullptr;
  queue.start({}, request);
  return request;
}

void all_well(DeviceQueue& queue, int) {
  queue.open(0, make_fake);
  queue.close();
  expect(ended == 1 && abandoned == 0, "a collective end");
}

// A rank that found all data there does not wait for those who have given up.
void one_failed(DeviceQueue& queue, int rank) {
  queue.open(0, make_fake);
  dit_request* request = start(queue);  // before it fails
  failing_rank = 1;
  const std::string told = words_of([&] { queue.wait(request); });
  expect(request == nullptr, "a failure leaves no request");
  expect(told == (rank == 1 ? "rank 1 did not arrive" : ""), "the failure's words");
  expect(words_of([&] { queue.close(); }).empty(), "what was told is not told again");
  expect(ended == 1 && abandoned == 1, "an end without other ranks");
}

// The failed rank leaves after a moment; the others, who have no limit, still hear of it.
void comes_late(DeviceQueue& queue, int rank) {
  queue.open(0, make_fake);
  failing_rank = 0;
  if (rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  std::string told;
  const double seconds = seconds_of([&] { told = words_of([&] { queue.close(); }); });
  if (rank == 0) expect(seconds > 0.9 && seconds < 2.2, "a moment's wait");
  expect((told == "rank 1 did not arrive") == (rank == 0), "a failure that nobody was told of");
  expect(abandoned == 1, "what others may use is kept");
}

// Nobody has failed, but a rank comes when the others have given up: it does not wait for them, either.
void comes_too_late(DeviceQueue& queue, int rank) {
  queue.open(0, make_fake);
  if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const std::string told = words_of([&] { queue.close(); });
  expect(told.find("late: not all ranks have come to close within 1.0") == 0, "the limit");
  expect(abandoned == 1, "what others may use is kept");
}

void cannot_open(DeviceQueue& queue, int rank) {
  broken_rank = rank == 1;
  for (int again = 0; again < 2; ++again) {
    const std::string told = words_of([&] { queue.open(0, make_fake); });
    expect(told == std::string("device memory cannot be exchanged: ") + (rank == 1 ? "" : "rank 1: ") +
                       "no GPU here",
           "the words of the rank that cannot");
  }
  queue.close();
}

void requests(DeviceQueue& queue, int) {
  queue.open(0, make_fake);
  expect(words_of([&] { queue.open(1, make_fake); }).find("device is 1, expected 0") == 0, "one device");
  dit_request* request = start(queue);
  expect(queue.holds(request), "a request of the queue");
  queue.test(request);
  expect(request != nullptr, "a stream that has not passed it");
  int held = 0;
  queue.wait_stream(request, &held);
  expect(held == 1, "a stream that waits");
  int released = 0;
  dit_request* forgotten = start(queue);
  queue.cancel(forgotten, nullptr, nullptr);
  queue.cancel(
      request, [](void* user) { ++*static_cast<int*>(user); }, &released);
  expect(request == nullptr && forgotten == nullptr, "requests that were given up");
  expect(!queue.take_released(), "buffers in use");
  FakeEnd::released = true;
  const auto done = queue.take_released();
  expect(done && done->user == &released && !queue.take_released(), "buffers that are free");
  dit_memory* const memory = queue.add_memory(&held, sizeof(held), 0);
  expect(queue.peer_memory(*memory, 1) == &wrong + 1, "a peer's memory");
  expect(words_of([&] { (void)queue.peer_memory(*memory, 3); }) == "rank is 3, expected 0 to 2",
         "a rank too many");
  request = queue.end_stores(*memory, nullptr);
  queue.wait(request);
  queue.remove_memory(*memory);
  delete memory;
  queue.close();
}

/// A program that is far ahead of its device asks no more for it.
void many_given_up(DeviceQueue& queue, int) {
  queue.open(0, make_fake);
  constexpr int kMany = 100;
  for (int i = 0; i < kMany; ++i) {
    dit_request* request = start(queue);
    queue.cancel(
        request, [](void*) {}, nullptr);
  }
  expect(!queue.take_released() && FakeEnd::asked == 1, "one question for all");
  FakeEnd::released = true;
  int released = 0;
  while (queue.take_released()) ++released;
  expect(released == kMany, "all of them");
  queue.close();
}

// What one rank cannot do, no rank begins: registrations are collective, and one would wait for the other.
void one_cannot_register(DeviceQueue& queue, int rank) {
  queue.open(0, make_fake);
  int held = 0;
  const auto add = [&](int device) { return queue.add_memory(&held, sizeof(held), device); };
  const std::string whose = rank == 1 ? "" : "rank 1: ";
  dit_memory* const memory = add(0);
  expect(words_of([&] {
           (void)add(rank);
         }).find(rank == 2 ? "device is 2, expected 0" : whose + "device is 1") == 0,
         "a device that differs on some ranks");
  unsettled_rank = 1;
  expect(words_of([&] { queue.remove_memory(*memory); }) == whose + "an illegal address",
         "a device that does not come to rest");
  unsettled_rank = -1;
  queue.remove_memory(*memory);
  delete memory;
  failing_rank = 1;
  expect(words_of([&] { (void)add(0); }) == whose + "rank 1 did not arrive", "a device that has failed");
  queue.close();
}

// A wait that was too long is a failure for good; the request stays, as its buffers may still be used. What
// ends later is not complete, and no stream goes on with it.
void late_device(DeviceQueue& queue, int) {
  queue.open(0, make_fake);
  dit_request* request = start(queue);
  FakeEnd::late = true;
  expect(words_of([&] { queue.wait(request); }) == "late: not within 1 s", "a limit");
  expect(request != nullptr && stopped == 1, "a device that is stopped once");
  expect(words_of([&] { static_cast<void>(start(queue)); }) == "not within 1 s", "a failure for good");
  expect(words_of([&] { queue.check(); }) == "not within 1 s", "a failure that stays");
  int held = 0;
  expect(words_of([&] { queue.wait_stream(request, &held); }) == "not within 1 s" && held == 0,
         "a stream that goes on");
  FakeEnd::late = false;
  expect(words_of([&] { queue.wait(request); }) == "not within 1 s" && request == nullptr, "what ends late");
  expect(words_of([&] { queue.close(); }).empty(), "what was told is not told again");
  expect(abandoned == 1, "an end without other ranks");
}

// Its buffers are in use: who started it must know.
void late_and_blocking(DeviceQueue& queue, int) {
  queue.open(0, make_fake);
  FakeEnd::late = true;
  dit_exchange_call call{};
  call.flags = DIT_EXCHANGE_BLOCKING;
  dit_request* request = nullptr;
  expect(words_of([&] { queue.start(call, request); }) == "late: not within 1 s", "a limit");
  expect(request != nullptr && queue.holds(request), "an exchange that is under way");
  FakeEnd::late = false;
  queue.close();
}

// A stream waits without the host, which hears of it afterwards, again and again.
void fails_behind_a_stream(DeviceQueue& queue, int) {
  queue.open(0, make_fake);
  dit_request* request = start(queue);
  int held = 0;
  queue.wait_stream(request, &held);
  queue.cancel(request, nullptr, nullptr);  // as who asks for it no longer
  queue.check();
  for (failing_rank = 0; failing_rank < 3; ++failing_rank) {
    const std::string told = words_of([&] { queue.check(); });
    if (!told.empty()) {
      expect(told == "rank 1 did not arrive" && stopped == 1, "a failure that is told");
      expect(words_of([&] { static_cast<void>(start(queue)); }) == told, "and told again");
    }
  }
  expect(!words_of([&] { queue.check(); }).empty(), "and stays");
  queue.close();
}

// What is new afterwards is whole; what was under way is not, though the device is well again.
void restarts(DeviceQueue& queue, int) {
  queue.open(0, make_fake);
  dit_request* waited = start(queue);
  dit_request* tested = start(queue);
  failing_rank = 1;
  (void)words_of([&] { queue.check(); });
  failing_rank = -1;
  queue.restart();
  queue.check();
  int held = 0;
  const std::string lost = "the exchange was under way at a restart, and is not complete";
  expect(words_of([&] { queue.wait_stream(waited, &held); }) == lost && held == 0, "a stream that goes on");
  expect(words_of([&] { queue.wait(waited); }) == lost && waited == nullptr, "what was waited for");
  expect(words_of([&] { queue.test(tested); }) == lost && tested == nullptr, "what was asked for");
  dit_request* request = start(queue);
  queue.wait(request);
  queue.close();
  expect(ended == 1 && abandoned == 0, "a collective end");
}

int run(const char* name) {
  using Case = void (*)(DeviceQueue&, int);
  const std::pair<const char*, Case> cases[] = {{"all_well", all_well},
                                                {"one_failed", one_failed},
                                                {"comes_late", comes_late},
                                                {"comes_too_late", comes_too_late},
                                                {"cannot_open", cannot_open},
                                                {"requests", requests},
                                                {"one_cannot_register", one_cannot_register},
                                                {"many_given_up", many_given_up},
                                                {"late_device", late_device},
                                                {"late_and_blocking", late_and_blocking},
                                                {"fails_behind_a_stream", fails_behind_a_stream},
                                                {"restarts", restarts}};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const auto& [known, body] : cases) {
    if (std::strcmp(known, name) != 0) continue;
    DeviceQueue queue(std::strcmp(name, "comes_too_late") == 0 ? 1 : 0);
    body(queue, rank);
    return wrong;
  }
  std::fprintf(stderr, "unknown case %s\n", name);
  return 1;
}

}  // namespace

extern const AllToAllKind plugin_kind;
const AllToAllKind plugin_kind{"none", "", nullptr, nullptr, nullptr, 0};  // for the code that plugins share

}  // namespace dit

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int failed = argc == 2 ? dit::run(argv[1]) : 1;
  if (argc == 2 && std::strcmp(argv[1], "comes_late") == 0)
    std::this_thread::sleep_for(std::chrono::seconds(1));
  MPI_Finalize();
  return failed;
}
