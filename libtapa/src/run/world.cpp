#include "run/world.hpp"

#include <mpi.h>

#include <atomic>

namespace tapa {

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
