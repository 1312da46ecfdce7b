/// @file
/// What the engine's two halves share: nonblocking operations in progress.cpp, persistent ones in
/// progress_persistent.cpp.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "run/per_thread.hpp"
#include "run/progress.hpp"

namespace tapa {

struct Progress::Persistent {
  std::unique_ptr<Task> task;
  MPI_Request request = MPI_REQUEST_NULL;
  bool active = false;
  int failure = MPI_SUCCESS;
  std::atomic<bool> freed{false};
};

/// Ownership of the engine by this thread.
class Progress::Inside {
 public:
  explicit Inside(Progress& engine) : lock_(engine.mutex_) { per_thread.inside_engine = true; }
  Inside(Progress& engine, std::try_to_lock_t) {
    if (per_thread.inside_engine) return;
    lock_ = std::unique_lock(engine.mutex_, std::try_to_lock);
    if (lock_) per_thread.inside_engine = true;
  }
  ~Inside() {
    if (lock_) per_thread.inside_engine = false;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  explicit operator bool() const { return lock_.owns_lock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace tapa
