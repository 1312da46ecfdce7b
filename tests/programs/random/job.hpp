// What a process of a running program has: its communicators, requests and windows, what it counts.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exchange.h"
#include "lines.hpp"

namespace random_program {

/// A communicator, or what this rank has instead of one.
struct Comm {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm whole = MPI_COMM_NULL;  // of an intercommunicator: of both groups, for this program's own checks
  int rank = 0;
  int size = 0;
  bool inter = false;
  bool second = false;
  std::uint64_t name = 0;  // the same on its ranks only
};

/// What a request stands for, with the buffers that must live as long.
struct Pending {
  MPI_Request request = MPI_REQUEST_NULL;
  bool persistent = false;
  bool active = false;
  std::function<void()> finished;
  std::unique_ptr<Exchange> exchange;
  std::vector<std::uint64_t> sent, received;
  std::vector<MPI_Request> more;  // messages have many
  std::vector<MPI_Status> statuses;
};

struct Window {
  MPI_Win win = MPI_WIN_NULL;
  std::uint64_t* memory = nullptr;
  Comm* comm = nullptr;
};

extern std::uint64_t seed;
extern int world_rank;
extern int world_size;
extern bool layouts;
extern std::array<std::atomic<int>, kMostThreads> at_line;
extern std::atomic<std::uint64_t> checksum;
extern std::atomic<long long> wrong;
extern std::atomic<long long> copies;
extern std::atomic<long long> deletions;
extern std::mutex objects;  // guards the maps, not what is in them
extern std::map<std::string, Comm> comms;
extern std::map<std::string, Pending> requests;
extern std::map<std::string, Window> windows;
extern pthread_barrier_t everybody;

template <class T>
T& object(std::map<std::string, T>& all, const std::string& name) {
  const std::lock_guard lock(objects);
  return all[name];
}

template <class T>
void drop(std::map<std::string, T>& all, const std::string& name) {
  const std::lock_guard lock(objects);
  all.erase(name);
}

/// Says what is wrong; only the first few times.
void tell(const Line& line, const std::string& what);
/// Counts what is not right, and tells it.
void expect(const Line& line, bool right, const char* what);

/// What a line needs beside its words: the same on all ranks, or this rank's own.
Random common_of(const Line& line);
Random own_of(const Line& line);
/// What a rank of a communicator gives to a collective or a message.
std::uint64_t value_of(const Line& line, const Comm& c, int rank);

}  // namespace random_program
