#include "carry/operation_pool.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "run/error.hpp"

namespace tapa {

namespace {

struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Operation>> idle;
};

// Never destroyed: MPI may end after static objects do.
Pool& pool() {
  static auto* instance = new Pool;
  return *instance;
}

}  // namespace

std::unique_ptr<Operation> acquire_operation() {
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  if (p.idle.empty()) return std::make_unique<Operation>();
  auto operation = std::move(p.idle.back());
  p.idle.pop_back();
  return operation;
}

void release_operation(std::unique_ptr<Operation> operation) {
  operation->end();
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  p.idle.push_back(std::move(operation));
}

bool run_to_end(std::unique_ptr<Operation> operation, Route& route) {
  complete(*operation);
  const bool mpis = operation->is_mpis(route);
  const Operation::Outcome outcome = operation->outcome();
  release_operation(std::move(operation));
  if (outcome.code != MPI_SUCCESS) throw CallError(outcome.code, outcome.message, outcome.seen);
  return !mpis;
}

void run_to_end(std::unique_ptr<Operation> operation) {
  Route none;
  static_cast<void>(run_to_end(std::move(operation), none));
}

}  // namespace tapa
