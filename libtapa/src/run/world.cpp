#include "run/world.hpp"

#include <mpi.h>

#include <atomic>

namespace tapa {

namespace {
constinit std::atomic<bool> ends{false};
}

void end_world() {
  ends.store(true, std::memory_order_relaxed);
}

bool world_ends() {
  return ends.load(std::memory_order_relaxed);
}

bool world_began() {
  static constinit std::atomic<bool> began{false};
  if (began.load(std::memory_order_relaxed)) return true;
  int initialized = 0;
  PMPI_Initialized(&initialized);
  if (initialized != 0) began.store(true, std::memory_order_relaxed);
  return initialized != 0;
}

bool world_runs() {
  int finalized = 0;
  PMPI_Finalized(&finalized);
  return finalized == 0 && world_began();
}

}  // namespace tapa
