#include "world/drop_in.hpp"

#include <atomic>

#include "run/log.hpp"

namespace tapa {

namespace {

std::atomic<bool> is_it{false};
std::atomic<double> beginning{0};

}  // namespace

void become_drop_in() {
  begin_clock();
  is_it = true;
}

bool is_drop_in() {
  return is_it.load(std::memory_order_relaxed);
}

void warn_all_is_mpis(const std::string& why) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) log_warn(why + "; all-to-all stays with MPI");
}

void begin_clock() {
  double none = 0;
  beginning.compare_exchange_strong(none, PMPI_Wtime());
}

double seconds_since_beginning() {
  return PMPI_Wtime() - beginning;
}

}  // namespace tapa
