// A program that runs MPI itself and hands communicators to an exchange. `hosted PLUGIN single|multiple`.
#include <mpi.h>

#include <cstdio>
#include <string>

#include "exchange/exchange.hpp"

namespace {

int failures = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  ++failures;
}

void exchange_on(const dit::ExchangePlugin& plugin, bool threads) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  {
    dit::ExchangeContext context(plugin, {&reversed, 0, ""});
    MPI_Comm_free(&reversed);  // the context has its own
    expect(context.rank() == size - 1 - rank, "rank in the communicator");
    const std::string text = context.describe();
    expect((text.find("progress by a thread") != std::string::npos) == threads,
           "progress in \"" + text + "\"");
    const auto mine = static_cast<std::byte>(context.rank());
    const auto all = context.all_gather({&mine, 1});
    for (int peer = 0; peer < size; ++peer)
      expect(all[static_cast<std::size_t>(peer)] == static_cast<std::byte>(peer), "byte of a peer");
  }
  MPI_Comm none = MPI_COMM_NULL;
  try {
    const dit::ExchangeContext context(plugin, {&none, 0, ""});
    expect(false, "MPI_COMM_NULL is refused");
  } catch (const dit::ExchangeError& e) {
    expect(std::string(e.what()).find("MPI_COMM_NULL") != std::string::npos, e.what());
  }
  if (threads) return;
  try {
    const dit::ExchangeContext context(plugin, {nullptr, 0, "progress=thread"});
    expect(false, "a thread is refused");
  } catch (const dit::ExchangeError& e) {
    expect(std::string(e.what()).find("expected MPI_THREAD_MULTIPLE") != std::string::npos, e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool threads = argc == 3 && std::string(argv[2]) == "multiple";
  int level = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  try {
    exchange_on(dit::ExchangePlugin::load(argv[1]), threads);
  } catch (const std::exception& e) {
    expect(false, e.what());
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
