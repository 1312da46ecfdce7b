// What the file of earlier runs costs a job's rank 0 in set-ups and in MPI_Finalize, in microseconds: the
// medians of 200 times each. Usage: tapa_results_benchmark FOLDER (a file is made and removed there)
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "autotune/results_file.hpp"
#include "comm/results_store.hpp"
#include "plain_flags.h"

namespace {

template <class Body>
void measure(const char* what, const Body& body) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto began = std::chrono::steady_clock::now();
    body();
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count());
  }
  std::ranges::nth_element(times, times.begin() + 100);
  std::printf("%-44s %8.1f us\n", what, times[100]);
}

/// A program with 20 sizes, on communicators of 6 kinds.
tapa::Results some(const tapa::ResultsWhere& where) {
  tapa::Results results;
  for (int kind = 0; kind < 6; ++kind) {
    tapa::ShapeResults shape{where, 4 << kind, std::to_string(kind), {}};
    shape.where.job = 128;
    for (int size = 0; size < 20; ++size) {
      shape.sizes.push_back({true, std::size_t{1} << size, true, tapa::today(), {}});
      for (const char* plan : {"tapa:split=node", "mpi", "pairwise"})
        shape.sizes.back().plans.push_back({tapa::parse_choice(plan), 1.2345678901234567e-5, 65, false});
    }
    results.shapes.push_back(std::move(shape));
  }
  return results;
}

}  // namespace

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv,
                                 "usage: tapa_results_benchmark FOLDER\n"
                                 "What the file of earlier runs costs; it is written in FOLDER.\n");
  if (status >= 0) return status;
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: tapa_results_benchmark FOLDER, expected one that exists\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  const std::string file = std::string(argv[1]) + "/tapa_results_benchmark.json";
  const tapa::ResultsWhere where = tapa::results_where(tapa::Options());
  measure("read it, none there", [&] { static_cast<void>(tapa::read_results(file)); });
  measure("write a first result", [&] { static_cast<void>(tapa::write_results(file, {})); });
  const tapa::Results results = some(where);
  measure("write 120 sizes", [&] { static_cast<void>(tapa::write_results(file, results)); });
  std::printf("%-44s %8zu bytes\n", "", static_cast<std::size_t>(std::filesystem::file_size(file)));
  measure("read 120 sizes", [&] { static_cast<void>(tapa::read_results(file)); });
  std::filesystem::remove(file);
  MPI_Finalize();
  return 0;
}
