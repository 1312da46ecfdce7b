/// @file
/// The ranks of a program: MPI's (job_mpi.cpp), or processes that it forks itself (job_forked.cpp) for the
/// exchange that needs no MPI.
#pragma once

#include <cstdint>
#include <functional>

namespace tapa::bench {

/// One in each process. All functions but rank and size are for all ranks.
class Job {
 public:
  Job(int rank, int size) : rank_(rank), size_(size) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  static void barrier();
  [[nodiscard]] static double greatest(double value);
  [[nodiscard]] static std::uint64_t sum(std::uint64_t value);

  /// dit_open_options::communicator for one more session of all ranks.
  [[nodiscard]] static void* communicator();
  /// The exchange for host memory, and the one for device memory that is tried unless told otherwise.
  [[nodiscard]] static const char* host_plugin();
  [[nodiscard]] static const char* device_plugin();

 private:
  int rank_;
  int size_;
};

/// A program's main. An error ends all ranks. Where they are forked: "--ranks N" of them, 2 unless told.
int run_program(const char* name, int argc, char** argv, const std::function<int(Job&)>& body);

}  // namespace tapa::bench
