// Ranks that are late, or never come: what an exchange uses lives until it is done, a late rank completes it,
// and errors name who is missing. Under mpirun; every rank runs `late PLUGIN CASE [CONFIG]`.
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "expectations.hpp"

namespace {

using namespace std::chrono_literals;
using dit::ExchangeContext;
using dit::ExchangePlugin;
using dit::ExchangeRequest;

constexpr std::size_t kBytes = std::size_t{1} << 20;  // more than MPI or libtapa keeps a copy of
constexpr double kLimit = 1.0;
constexpr auto kLate = 3700ms;   // of rank 1; the others have given up twice
constexpr auto kAgain = 5800ms;  // when all go on

/// An exchange that notes when its buffers go, and whether its bytes were there by then.
struct Watched {
  int gone = 0;
  bool arrived = false;
  std::shared_ptr<Exchange> exchange;

  Watched(const ExchangeContext& context, const char* label) {
    exchange.reset(new Exchange(context, kBytes, label), [this](Exchange* last) {
      ++gone;
      arrived = last->arrived();
      delete last;
    });
  }
};

void limit_is_told(const ExchangeContext& context, const char* label, const std::function<void()>& body) {
  refused(DIT_ERROR_TIMEOUT,
          {label, "s on rank " + std::to_string(context.rank()), "limit is 1.0", "missing: ",
           "rank 1 (no sign of it)"},  // others, too, where a busy machine does not let them start
          body);
}

/// Rank 1 starts late; the others do `body`, which must end with the watched exchange given up.
void given_up(const ExchangePlugin& plugin, const std::string& config,
              const std::function<void(ExchangeContext&, Watched&)>& body) {
  ExchangeContext context(plugin, {nullptr, kLimit, config});
  context.barrier();
  const auto begin = std::chrono::steady_clock::now();
  Watched watched(context, "q of block 3");
  if (context.rank() == 1) {
    std::this_thread::sleep_until(begin + kLate);
    ExchangeRequest request = context.start(watched.exchange->call);
    const auto limit = std::chrono::steady_clock::now() + 10s;
    while (!request.test() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    expect(watched.exchange->arrived(), "the late rank has all bytes");
    std::this_thread::sleep_until(begin + kAgain);
  } else {
    body(context, watched);
    expect(watched.exchange == nullptr && watched.gone == 0, "buffers are kept for the late rank");
    std::this_thread::sleep_until(begin + kAgain);
  }
  context.barrier();  // the context is good, in which exchanges follow each other
  for (int i = 0; i < 100; ++i) context.barrier();
  expect(context.rank() == 1 || (watched.gone == 1 && watched.arrived), "buffers went once, with all bytes");
}

void cancelled(const ExchangePlugin& plugin, const std::string& config) {
  given_up(plugin, config, [](ExchangeContext& context, Watched& watched) {
    ExchangeRequest request = context.start(watched.exchange->call);
    limit_is_told(context, "'q of block 3'", [&] { request.wait(); });
    expect(request.active(), "an exchange that is late is still under way");
    request.cancel(std::move(watched.exchange));
    expect(!request.active(), "a request that was cancelled is gone");
  });
}

// As when an exception leaves the frame of a request: its destructor waits once more, and gives up.
void destroyed(const ExchangePlugin& plugin, const std::string& config) {
  given_up(plugin, config, [](ExchangeContext& context, Watched& watched) {
    ExchangeRequest request = context.start(watched.exchange->call);
    request.keep_alive(std::move(watched.exchange));
    limit_is_told(context, "'q of block 3'", [&] { request.wait(); });
  });
}

void blocking(const ExchangePlugin& plugin, const std::string& config) {
  given_up(plugin, config, [](ExchangeContext& context, Watched& watched) {
    const dit_exchange_call call = watched.exchange->call;
    limit_is_told(context, "'q of block 3'", [&] { context.exchange(call, std::move(watched.exchange)); });
  });
}

// Who waits again gets the bytes.
void wait_again(const ExchangePlugin& plugin, const std::string& config) {
  ExchangeContext context(plugin, {nullptr, kLimit, config});
  context.barrier();
  Exchange late(context, kBytes, "v");
  if (context.rank() == 1) std::this_thread::sleep_for(kLate);
  ExchangeRequest request = context.start(late.call);
  int limits = 0;
  while (request.active() && limits < 20) {
    try {
      request.wait();
    } catch (const dit::ExchangeError& e) {
      expect(e.status() == DIT_ERROR_TIMEOUT, e.what());
      ++limits;
    }
  }
  expect((limits > 0) == (context.rank() != 1), std::to_string(limits) + " waits ended at the limit");
  expect(late.arrived(), "bytes of the late rank");
  context.barrier();
}

// What was given up stays for good when the late rank never comes.
void never(const ExchangePlugin& plugin, const std::string& config) {
  auto context = std::make_unique<ExchangeContext>(plugin, ExchangeContext::Options{nullptr, kLimit, config});
  const int rank = context->rank();
  Watched watched(*context, "k");
  if (rank == 1) return;
  ExchangeRequest request = context->start(watched.exchange->call);
  limit_is_told(*context, "'k'", [&] { request.wait(); });
  request.cancel(std::move(watched.exchange));
  refused(DIT_ERROR_TIMEOUT, {"'k'"}, [&] { context->close(); });
  expect(watched.gone == 0, "buffers are kept after a close that failed");
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Case> cases{{"cancelled", cancelled},
                                          {"destroyed", destroyed},
                                          {"blocking", blocking},
                                          {"wait_again", wait_again},
                                          {"never", never}};
  return run_case(argc, argv, [&](const std::string& name) {
    const auto found = cases.find(name);
    return found == cases.end() ? nullptr : found->second;
  });
}
