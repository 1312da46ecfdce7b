// What the exchanges over MPI do when something is wrong. Under mpirun; every rank runs `failures PLUGIN
// CASE`.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "exchange/exchange.hpp"

namespace {

using dit::ExchangeContext;
using dit::ExchangeError;
using dit::ExchangePlugin;

int failures = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  ++failures;
}

/// `body` must throw this status, with words that hold all `parts`.
void refused(dit_status status, const std::vector<std::string>& parts, const std::function<void()>& body) {
  try {
    body();
    expect(false, "an error with \"" + parts.front() + "\"");
  } catch (const ExchangeError& e) {
    expect(e.status() == status, "status " + std::to_string(e.status()) + " of \"" + e.what() + "\"");
    for (const std::string& part : parts)
      expect(std::string(e.what()).find(part) != std::string::npos,
             "\"" + std::string(e.what()) + "\" holds \"" + part + "\"");
  }
}

int rank_of_job() {
  const char* text = std::getenv("OMPI_COMM_WORLD_RANK");
  if (text == nullptr) text = std::getenv("PMI_RANK");
  return text == nullptr ? 0 : std::atoi(text);
}

struct Exchange {
  std::vector<std::byte> send, recv;
  std::vector<dit_block> blocks;
  dit_exchange_call call{};

  Exchange(int size, std::size_t bytes, const char* label)
      : send(static_cast<std::size_t>(size) * bytes), recv(send.size()) {
    for (std::size_t at = 0; at < send.size(); at += bytes) blocks.push_back({at, bytes});
    call.send = send.data();
    call.recv = recv.data();
    call.send_blocks = call.recv_blocks = blocks.data();
    call.label = label;
  }
};

// One rank's config is wrong: it says so, the others name it, none waits.
void one_wrong_config(const ExchangePlugin& plugin) {
  if (rank_of_job() == 1) {
    refused(DIT_ERROR_ARGUMENT, {"unknown key 'pol_us'", "known keys: progress, poll_us"}, [&] {
      ExchangeContext(plugin, {nullptr, 0, "pol_us=3"});
    });
  } else {
    refused(DIT_ERROR_ARGUMENT, {"rank 1 passed wrong options"}, [&] { ExchangeContext(plugin, {}); });
  }
}

void configs_differ(const ExchangePlugin& plugin) {
  refused(DIT_ERROR_ARGUMENT, {"options.config is '", "expected the same on all ranks"}, [&] {
    ExchangeContext(plugin, {nullptr, 0, rank_of_job() == 1 ? "poll_us=300" : "poll_us=200"});
  });
}

void wrong_values(const ExchangePlugin& plugin) {
  refused(DIT_ERROR_ARGUMENT, {"progress=magic", "expected auto, thread or calls"}, [&] {
    ExchangeContext(plugin, {nullptr, 0, "progress=magic"});
  });
  refused(DIT_ERROR_ARGUMENT, {"poll_us=0", "expected a number of at least 1"}, [&] {
    ExchangeContext(plugin, {nullptr, 0, "poll_us=0"});
  });
}

// Rank 1 comes late, after the others' limit. The message says who waited, for what, and how long.
void timeout(const ExchangePlugin& plugin) {
  ExchangeContext context(plugin, {nullptr, 0.3, ""});
  Exchange late(context.size(), 1 << 20, "v of block 3");
  if (context.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return;
  }
  dit::ExchangeRequest request = context.start(late.call);
  refused(DIT_ERROR_TIMEOUT,
          {"'v of block 3'", "s on rank " + std::to_string(context.rank()), "limit is 0.3"},
          [&] { request.wait(); });
  refused(DIT_ERROR_TIMEOUT, {"has failed before"}, [&] { context.barrier(); });
}

void blocking_timeout(const ExchangePlugin& plugin) {
  ExchangeContext context(plugin, {nullptr, 0.3, ""});
  if (context.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return;
  }
  Exchange late(context.size(), 1 << 20, "q");
  refused(DIT_ERROR_TIMEOUT, {"exchange 'q'", "limit is 0.3"}, [&] { context.exchange(late.call); });
}

// An id stands for the sizes of all blocks; another size is found out before anything is sent.
void layout_changes(const ExchangePlugin& plugin) {
  ExchangeContext context(plugin, {});
  Exchange first(context.size(), 100, "q");
  first.call.layout_id = 7;
  context.exchange(first.call);
  Exchange second(context.size(), 200, "q");
  second.call.layout_id = 7;
  refused(DIT_ERROR_ARGUMENT, {"call.send_blocks[0] has 200 bytes, expected 100 as before with layout_id 7"},
          [&] { context.exchange(second.call); });
  context.exchange(first.call);
}

// A library with the name of another MPI is in the process.
void other_mpi(const ExchangePlugin& plugin) {
  expect(dlopen(TEST_OTHER_MPI, RTLD_NOW | RTLD_LOCAL) != nullptr, "the other MPI loads");
  refused(DIT_ERROR_UNSUPPORTED, {"has also loaded", "expected one MPI library"},
          [&] { ExchangeContext(plugin, {}); });
}

// A rank ends while the others wait: the job must end too, not hang. The test expects an exit code.
void rank_dies(const ExchangePlugin& plugin) {
  ExchangeContext context(plugin, {});
  if (context.rank() == 1) std::exit(3);
  context.barrier();
}

// The same after the rank has closed its context, as an exception does on its way to main.
void rank_gives_up(const ExchangePlugin& plugin) {
  ExchangeContext context(plugin, {});
  if (context.rank() == 1) {
    context.close();
    std::exit(4);
  }
  context.barrier();
}

void abort_job(const ExchangePlugin& plugin) {
  ExchangeContext context(plugin, {});
  if (context.rank() == 1) context.abort_job(5);
  context.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)(const ExchangePlugin&)> cases{
      {"one_wrong_config", one_wrong_config}, {"configs_differ", configs_differ},
      {"wrong_values", wrong_values},         {"timeout", timeout},
      {"blocking_timeout", blocking_timeout}, {"other_mpi", other_mpi},
      {"layout_changes", layout_changes},     {"rank_dies", rank_dies},
      {"rank_gives_up", rank_gives_up},       {"abort_job", abort_job}};
  if (argc != 3 || cases.find(argv[2]) == cases.end()) {
    std::fprintf(stderr, "usage: failures PLUGIN CASE\n");
    return 2;
  }
  try {
    cases.at(argv[2])(ExchangePlugin::load(argv[1]));
  } catch (const std::exception& e) {
    expect(false, e.what());
  }
  // Timeouts leave MPI unfinished, which mpirun takes for a failure; the words are the result.
  std::printf(failures == 0 ? "all as expected\n" : "%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
