// What the exchanges over MPI do when something is wrong. Under mpirun; every rank runs `failures PLUGIN
// CASE`.
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <string>

#include "expectations.hpp"

namespace {

using dit::ExchangeContext;
using dit::ExchangePlugin;

// One rank's config is wrong: it says so, the others name it, none waits.
void one_wrong_config(const ExchangePlugin& plugin, const std::string&) {
  if (rank_of_job() == 1) {
    refused(DIT_ERROR_ARGUMENT, {"unknown key 'pol_us'", "known keys: progress, poll_us"}, [&] {
      ExchangeContext(plugin, {nullptr, 0, "pol_us=3"});
    });
  } else {
    refused(DIT_ERROR_ARGUMENT, {"rank 1 passed wrong options"}, [&] { ExchangeContext(plugin, {}); });
  }
}

void configs_differ(const ExchangePlugin& plugin, const std::string&) {
  refused(DIT_ERROR_ARGUMENT, {"options.config is '", "expected the same on all ranks"}, [&] {
    ExchangeContext(plugin, {nullptr, 0, rank_of_job() == 1 ? "poll_us=300" : "poll_us=200"});
  });
}

void wrong_values(const ExchangePlugin& plugin, const std::string&) {
  refused(DIT_ERROR_ARGUMENT, {"progress=magic", "expected auto, thread or calls"}, [&] {
    ExchangeContext(plugin, {nullptr, 0, "progress=magic"});
  });
  refused(DIT_ERROR_ARGUMENT, {"poll_us=0", "expected a number of at least 1"}, [&] {
    ExchangeContext(plugin, {nullptr, 0, "poll_us=0"});
  });
}

// An id stands for the sizes of all blocks; another size is found out before anything is sent.
void layout_changes(const ExchangePlugin& plugin, const std::string&) {
  ExchangeContext context(plugin, {});
  Exchange first(context, 100, "q");
  first.call.layout_id = 7;
  context.exchange(first.call);
  Exchange second(context, 200, "q");
  second.call.layout_id = 7;
  refused(DIT_ERROR_ARGUMENT, {"call.send_blocks[0] has 200 bytes, expected 100 as before with layout_id 7"},
          [&] { context.exchange(second.call); });
  context.exchange(first.call);
}

// A library with the name of another MPI is in the process.
void other_mpi(const ExchangePlugin& plugin, const std::string&) {
  expect(dlopen(TEST_OTHER_MPI, RTLD_NOW | RTLD_LOCAL) != nullptr, "the other MPI loads");
  refused(DIT_ERROR_UNSUPPORTED, {"has also loaded", "expected one MPI library"},
          [&] { ExchangeContext(plugin, {}); });
}

// A rank ends while the others wait: the job must end too, not hang. The test expects an exit code.
void rank_dies(const ExchangePlugin& plugin, const std::string&) {
  ExchangeContext context(plugin, {});
  if (context.rank() == 1) std::exit(3);
  context.barrier();
}

// The same after the rank has closed its context, as an exception does on its way to main.
void rank_gives_up(const ExchangePlugin& plugin, const std::string&) {
  ExchangeContext context(plugin, {});
  if (context.rank() == 1) {
    context.close();
    std::exit(4);
  }
  context.barrier();
}

void abort_job(const ExchangePlugin& plugin, const std::string&) {
  ExchangeContext context(plugin, {});
  if (context.rank() == 1) context.abort_job(5);
  context.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Case> cases{
      {"one_wrong_config", one_wrong_config}, {"configs_differ", configs_differ},
      {"wrong_values", wrong_values},         {"other_mpi", other_mpi},
      {"layout_changes", layout_changes},     {"rank_dies", rank_dies},
      {"rank_gives_up", rank_gives_up},       {"abort_job", abort_job}};
  return run_case(argc, argv, [&](const std::string& name) {
    const auto found = cases.find(name);
    return found == cases.end() ? nullptr : found->second;
  });
}
