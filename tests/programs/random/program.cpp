// Runs an MPI program that is written down as text, a line for each step: random_programs makes them. Every
// rank goes through all lines in their order; what a line needs beside its words is drawn from its number, so
// that other lines can be left out.
//
//   random_program FILE SECONDS
//
// A line is "NUMBER THREAD VERB WORD=VALUE ..."; the first one "program ranks=N threads=N seed=N". What must
// arrive is computed; at the end rank 0 prints one line: what was wrong, and a checksum of all that was
// received, which is the same whatever carries the data. After SECONDS every rank says in which line it is,
// and the job ends.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>

#include "steps.hpp"

namespace random_program {
namespace {

void step(const Line& line) {
  const std::string& v = line.verb;
  if (v == "alltoall") return alltoall(line);
  if (v == "bad") return bad(line);
  if (v == "churn") return churn(line);
  if (v == "collective") return collective(line);
  if (v == "icollective") return begin_collective(line);
  if (v == "messages") return messages(line);
  if (v == "ring_of_messages") return ring_of_messages(line);
  if (v == "iprobe") return look_for_messages(line);
  if (v == "window") return make_window(line);
  if (v == "epoch") return epoch(line);
  if (v == "free_window") return free_window(line);
  if (v == "wait") return wait_for(line);
  if (v == "start") return start(line);
  if (v == "free_request") return free_request(line);
  if (v == "late") {
    const auto late = line.numbers("ranks");
    if (std::find(late.begin(), late.end(), world_rank) != late.end())
      ::usleep(static_cast<useconds_t>(line.value("us")));
    return;
  }
  if (v == "give") return;  // the list is common to all threads
  if (v == "meet") {
    pthread_barrier_wait(&everybody);
    return;
  }
  if (step_communicators(line)) return;
  std::fprintf(stderr, "random_program: line %d: unknown verb %s\n", line.number, v.c_str());
  MPI_Abort(MPI_COMM_WORLD, 2);
}

/// Lines that belong together are gone through in an order of each rank's own.
void run_lines(const std::vector<Line>& lines, int thread) {
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t end = i + 1;
    const std::string& mark = lines[i].word("shuffle");
    while (!mark.empty() && end < lines.size() && lines[end].word("shuffle") == mark) ++end;
    std::vector<const Line*> order;
    for (; i < end; ++i) order.push_back(&lines[i]);
    Random own = own_of(*order[0]);
    for (std::size_t k = order.size(); k > 1; --k)
      std::swap(order[k - 1], order[static_cast<std::size_t>(below(&own, static_cast<int>(k)))]);
    for (const Line* line : order) {
      at_line[static_cast<std::size_t>(thread)] = line->number;
      step(*line);
    }
  }
  at_line[static_cast<std::size_t>(thread)] = -1;
}

void too_long(int) {
  char text[160];
  int length = std::snprintf(text, sizeof text, "random_program: rank %d hangs in line", world_rank);
  for (const auto& line : at_line) {
    if (line.load() != 0)
      length +=
          std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), " %d", line.load());
  }
  text[length++] = '\n';
  if (::write(2, text, static_cast<std::size_t>(length)) < 0) ::_exit(4);
  ::sleep(1);  // for the others to say the same
  ::_exit(3);
}

void run(const Program& program) {
  const auto threads = static_cast<unsigned>(program.threads.size());
  pthread_barrier_init(&everybody, nullptr, threads);
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t)
    others.emplace_back(run_lines, std::cref(program.threads[t]), static_cast<int>(t));
  run_lines(program.threads[0], 0);
  for (std::thread& other : others) other.join();
}

/// The sums over all ranks; where a program leaves objects behind, that is part of the test.
bool report(std::size_t lines) {
  std::array<long long, 4> mine{wrong.load(), copies.load(), deletions.load(), 0};
  std::array<long long, 4> all{};
  std::uint64_t sum = checksum.load();
  std::uint64_t sums = 0;
  MPI_Allreduce(mine.data(), all.data(), 4, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(&sum, &sums, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (world_rank == 0) {
    std::printf(
        "random_program: %zu lines, wrong %lld, checksum %016llx, attributes copied %lld deleted %lld\n",
        lines, all[0], static_cast<unsigned long long>(sums), all[1], all[2]);
    std::fflush(stdout);
  }
  return all[0] != 0;
}

}  // namespace
}  // namespace random_program

int main(int argc, char** argv) {
  using namespace random_program;
  if (argc != 3) {
    std::fprintf(stderr, "usage: random_program FILE SECONDS\n");
    return 2;
  }
  const Program program = read_program(argv[1]);
  if (program.header.verb != "program") {
    std::fprintf(stderr, "random_program: %s is no program\n", argv[1]);
    return 2;
  }
  const bool threads = program.threads.size() > 1;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  if (threads && provided < MPI_THREAD_MULTIPLE) {
    std::puts("skipped: this MPI has no MPI_THREAD_MULTIPLE");
    MPI_Finalize();
    return 77;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (world_size != program.header.value("ranks")) {
    std::fprintf(stderr, "random_program: %d ranks, the program is for %d\n", world_size,
                 program.header.value("ranks"));
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  seed = std::stoull(program.header.word("seed"));
  layouts = program.header.value("layouts") != 0;
  std::signal(SIGALRM, too_long);
  ::alarm(static_cast<unsigned>(std::stoi(argv[2])));
  Line first;
  first.number = 1;
  first.words["to"] = "world";
  keep_comm(first, MPI_COMM_WORLD);
  first.number = 2;
  first.words["to"] = "self";
  keep_comm(first, MPI_COMM_SELF);
  run(program);
  forget_requests();
  const bool failed = report(program.threads[0].size());
  MPI_Finalize();
  return failed ? 1 : 0;
}
