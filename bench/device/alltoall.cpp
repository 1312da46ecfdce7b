// device_alltoall: the device engine against NCCL and against flat peer copies, in one run, call by call; its
// usage is at the end.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "json_file.hpp"
#include "pattern.hpp"
#include "plain_flags.h"
#include "rivals.hpp"

namespace tapa::bench {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::uint64_t seed_of(int from, int to) {
  return static_cast<std::uint64_t>(from * 64 + to);
}

/// Runs a way once and returns the wrong bytes of all ranks.
unsigned long long wrong_bytes(Ranks& ranks, const Way& way, std::size_t block, const Stream& stream) {
  const Memory count(sizeof(unsigned long long));
  auto* const wrong = reinterpret_cast<unsigned long long*>(count.get());
  cuda(cudaMemsetAsync(count.get(), 0, count.bytes(), stream.get()), "cudaMemsetAsync");
  const auto size = static_cast<std::size_t>(ranks.size());
  cuda(cudaMemsetAsync(const_cast<char*>(way.receive), 0xee, size * block, stream.get()), "cudaMemsetAsync");
  const Memory packed(block);
  for (int peer = 0; peer < ranks.size(); ++peer) {
    fill(packed.get(), block, seed_of(ranks.rank(), peer), nullptr, stream.get());
    scatter_rows(const_cast<char*>(way.send), way.source_of(block, peer), packed.get(), stream.get());
  }
  stream.wait();
  ranks.barrier();
  way.call(block, stream.get());
  stream.wait();
  ranks.barrier();
  for (int peer = 0; peer < ranks.size(); ++peer) {
    if (!way.own_block && peer == ranks.rank()) continue;
    gather_rows(packed.get(), way.receive, way.sink_of(block, peer), stream.get());
    count_wrong(packed.get(), block, seed_of(peer, ranks.rank()), nullptr, wrong, stream.get());
  }
  unsigned long long mine = 0;
  cuda(cudaMemcpyAsync(&mine, wrong, sizeof(mine), cudaMemcpyDeviceToHost, stream.get()), "cudaMemcpyAsync");
  stream.wait();
  unsigned long long all = 0;
  for (const unsigned long long each : ranks.gather(mine)) all += each;
  return all;
}

/// Microseconds of one run of `body`, on this rank.
template <class Body>
double timed(const Body& body) {
  const auto began = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
}

/// Calls in a graph: many where one is short.
int calls_in_graph(std::size_t size) {
  return size <= (4U << 20) ? 20 : size <= (64U << 20) ? 8 : 2;
}

/// Medians of each way, microseconds, the slowest rank's of each round.
std::vector<double> measure(Ranks& ranks, const std::vector<std::function<void()>>& runs,
                            const Settings& settings) {
  for (int warm = 0; warm < 3; ++warm) {
    for (const auto& run : runs) run();
  }
  std::vector<std::vector<double>> times(runs.size());
  const auto began = std::chrono::steady_clock::now();
  for (int round = 0; round < settings.rounds; ++round) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (round % 10 == 0 && ranks.first_says(seconds > settings.seconds && round >= 10)) break;
    for (std::size_t way = 0; way < runs.size(); ++way) {
      ranks.barrier();
      times[way].push_back(timed(runs[way]));
    }
  }
  std::vector<double> medians;
  for (auto& mine : times) {
    std::vector<double> slowest(mine.size(), 0);
    for (std::size_t round = 0; round < mine.size(); ++round) {
      const std::vector<double> all = ranks.gather(mine[round]);
      slowest[round] = *std::max_element(all.begin(), all.end());
    }
    medians.push_back(median(slowest));
  }
  return medians;
}

struct Row {
  std::size_t size;
  std::string mode;
  std::vector<double> micros;
};

std::vector<double> run_eager(Ranks& ranks, const Rivals& rivals, std::size_t block, const Stream& stream,
                              const Settings& settings) {
  std::vector<std::function<void()>> runs;
  for (const Way& way : rivals.ways()) {
    runs.emplace_back([&] {
      way.call(block, stream.get());
      stream.wait();
    });
  }
  return measure(ranks, runs, settings);
}

std::vector<double> run_queued(Ranks& ranks, const Rivals& rivals, std::size_t size, std::size_t block,
                               const Stream& stream, const Settings& settings) {
  const int calls = calls_in_graph(size);
  std::vector<std::function<void()>> runs;
  for (const Way& way : rivals.ways()) {
    runs.emplace_back([&, calls, block] {
      for (int call = 0; call < calls; ++call) way.call(block, stream.get());
      stream.wait();
    });
  }
  std::vector<double> micros = measure(ranks, runs, settings);
  for (double& each : micros) each /= calls;
  return micros;
}

std::vector<double> run_graph(Ranks& ranks, const Rivals& rivals, std::size_t size, std::size_t block,
                              const Stream& stream, const Settings& settings) {
  const int calls = calls_in_graph(size);
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<std::function<void()>> runs;
  for (const Way& way : rivals.ways()) {
    const Graph* const graph =
        graphs
            .emplace_back(std::make_unique<Graph>(stream,
                                                  [&] {
                                                    for (int call = 0; call < calls; ++call) {
                                                      way.call(block, stream.get());
                                                    }
                                                  }))
            .get();
    runs.emplace_back([graph, &stream] {
      graph->launch(stream);
      stream.wait();
    });
  }
  std::vector<double> micros = measure(ranks, runs, settings);
  for (double& each : micros) each /= calls;
  return micros;
}

std::string size_text(std::size_t bytes) {
  if (bytes >= (1U << 20)) return std::to_string(bytes >> 20) + " MiB";
  return bytes >= 1024 ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes) + " B";
}

void print_row(const Row& row) {
  std::printf("%10s  %-6s", size_text(row.size).c_str(), row.mode.c_str());
  for (const double micros : row.micros) std::printf(" %13.1f", micros);
  std::printf("\n");
  std::fflush(stdout);
}

void write_json(const std::string& path, int ranks, const std::string& nccl, const std::vector<Way>& ways,
                const std::vector<Row>& rows) {
  cudaDeviceProp properties{};
  cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  write_json_file(path, [&](std::FILE* file) {
    std::fprintf(file, "{\"device\": \"%s\", \"ranks\": %d, \"nccl\": \"%s\", \"unit\": \"us\", \"rows\": [",
                 properties.name, ranks, nccl.c_str());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::fprintf(file, "%s\n  {\"bytes\": %zu, \"mode\": \"%s\"", r == 0 ? "" : ",", rows[r].size,
                   rows[r].mode.c_str());
      for (std::size_t w = 0; w < ways.size(); ++w) {
        std::fprintf(file, ", \"%s\": %.2f", ways[w].name.c_str(), rows[r].micros[w]);
      }
      std::fprintf(file, "}");
    }
    std::fprintf(file, "\n]}\n");
  });
}

std::vector<double> run_mode(const std::string& mode, Ranks& ranks, const Rivals& rivals, std::size_t size,
                             std::size_t block, const Stream& stream, const Settings& settings) {
  if (mode == "eager") return run_eager(ranks, rivals, block, stream, settings);
  if (mode == "queued") return run_queued(ranks, rivals, size, block, stream, settings);
  if (mode == "graph") return run_graph(ranks, rivals, size, block, stream, settings);
  throw std::runtime_error("--modes has \"" + mode + "\", expected eager, queued or graph");
}

int benchmark(Ranks& ranks, const Settings& settings) {
  take_device(ranks.rank());
  label_node(ranks.rank(), settings.nodes);
  const Stream stream;
  const Rivals rivals(ranks, settings);
  const std::string nccl = Nccl::version(settings.nccl);
  if (ranks.rank() == 0) {
    std::printf("%d ranks (%s), microseconds, medians; NCCL %s\n%10s  %-6s", ranks.size(),
                rivals.description(), nccl.empty() ? "not there" : nccl.c_str(), "a rank", "");
    for (const Way& way : rivals.ways()) std::printf(" %13s", way.name.c_str());
    std::printf("\n");
  }
  int failed = 0;
  std::vector<Row> rows;
  for (const std::size_t size : settings.sizes) {
    const std::size_t block = size / static_cast<std::size_t>(ranks.size());
    for (const Way& way : rivals.ways()) {
      const unsigned long long wrong = wrong_bytes(ranks, way, block, stream);
      if (wrong == 0) continue;
      ++failed;
      if (ranks.rank() == 0)
        std::printf("%s: %llu wrong bytes of %s\n", way.name.c_str(), wrong, size_text(size).c_str());
    }
    for (const std::string& mode : settings.modes) {
      rows.push_back({size, mode, run_mode(mode, ranks, rivals, size, block, stream, settings)});
      if (ranks.rank() == 0) print_row(rows.back());
    }
  }
  if (ranks.rank() == 0 && !settings.json.empty()) {
    write_json(settings.json, ranks.size(), nccl, rivals.ways(), rows);
  }
  return failed == 0 ? 0 : 1;
}

Settings settings_of(const Arguments& arguments) {
  Settings settings;
  for (const std::string& size : split(arguments.text(
           "sizes",
           "2048,16384,65536,262144,1048576,4194304,16777216,67108864,268435456,536870912,1073741824"))) {
    settings.sizes.push_back(static_cast<std::size_t>(std::stoull(size)));
  }
  settings.modes = split(arguments.text("modes", "eager,queued,graph"));
  settings.ways = split(arguments.text("ways", ""));
  settings.row = static_cast<std::size_t>(arguments.number("row", 3072));
  settings.rounds = static_cast<int>(arguments.number("rounds", 200));
  settings.seconds = arguments.number("seconds", 4);
  settings.nccl = arguments.text("nccl", "libnccl.so.2");
  settings.json = arguments.text("json", "");
  settings.options.channels = static_cast<int>(arguments.number("channels", 0));
  settings.options.copy_bytes = static_cast<std::size_t>(arguments.number("copy-bytes", 0));
  settings.nodes = arguments.text("nodes", "");
  settings.options.wire = static_cast<int>(arguments.number("wire", 0));
  settings.options.line_bytes = static_cast<std::size_t>(arguments.number("line-bytes", 0));
  return settings;
}

}  // namespace
}  // namespace tapa::bench

constexpr char kUsage[] =
    R"(usage: device_alltoall [--ranks N] [--sizes BYTES,BYTES,...] [--rounds N] [--seconds S] [--nccl LIBRARY]
  [--json FILE] [--channels N] [--line-bytes N] [--ways LIST] [--modes eager,queued,graph]
  [--copy-bytes N] [--row BYTES] [--nodes N+N...] [--wire N]

The device engine against NCCL and against flat peer copies, in one run, call by call.
--nodes: ranks of each of the nodes that this machine stands for; --wire: a TAPA_DEVICE_WIRE.
device_alltoall_mpi is the same with MPI's ranks.

Ways: "tapa" receives in a symmetric registration (copy engines for long blocks), "tapa-kernel" in a plain
one, "tapa-staged" in memory that is not registered; "nccl" and "nccl-zero-cta"; "copy" moves the blocks
for other ranks alone, by cudaMemcpyAsync, without telling anybody. Named in --ways alone: "scatter",
"gather", "both-strided" and "scatter-staged" have rows of --row bytes side by side in the send buffer, the
receive buffer or both (sizes must be multiples of it times the ranks); "copy-gather" is "copy" with such
rows in the receive buffer, by cudaMemcpy2DAsync.

Sizes are of a rank's whole buffer. "eager": one call and a wait for its stream, by the host's clock;
"graph": a recorded graph of several calls, divided by their number. A round takes each way once, in turn,
behind a barrier; its time is that of the slowest rank; the table has medians of rounds.
)";

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
  using namespace tapa::bench;
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);  // else the first call of each kernel waits for the device
  try {
    const Arguments arguments(argc, argv);
    const Settings settings = settings_of(arguments);
    const int ranks = static_cast<int>(arguments.number("ranks", 2));
    return run_ranks(ranks, [&](Ranks& rank) { return benchmark(rank, settings); }) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_alltoall: %s\n", error.what());
    return 2;
  }
}
