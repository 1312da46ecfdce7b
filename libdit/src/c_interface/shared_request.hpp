/// An exchange that stands for several transfers, each of which a thread of its own may wait for.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "c_interface/joint_exchange.hpp"
#include "exchange/exchange.hpp"
#include "transfer/transfer_memory.hpp"

namespace dit::c_interface {

/// What late ranks may still use of a transfer that asks no longer.
struct LeftBuffers {
  TransferBuffers own;
  TransferBuffer prepared;
  std::shared_ptr<JointExchange> joint;
  std::shared_ptr<void> of_caller;
};

/// What one transfer finds all find, also a failure. By any threads.
class SharedRequest {
 public:
  /// Takes the memory that dropping it will need, for so many transfers.
  explicit SharedRequest(std::size_t members) : members_(members) {
    auto left = std::make_shared<std::vector<LeftBuffers>>();
    left->reserve(members);
    left_ = left.get();
    keep_->buffers = std::move(left);
  }
  /// It begins. Before other threads know of it.
  void set(ExchangeRequest request) noexcept {
    request_ = std::move(request);
    request_.also_keep_alive(std::move(keep_));
  }

  /// Until it is known to be done: false also while another thread asks or waits.
  [[nodiscard]] bool test() {
    if (done_) {
      return true;
    }
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      return false;
    }
    if (keeping_failure([&] { return request_.test(); })) {
      done_ = true;
    }
    return done_;
  }
  void wait() {
    const std::scoped_lock lock(mutex_);
    (void)keeping_failure([&] { return request_.wait(), true; });
    done_ = true;
  }
  void wait_stream(void* stream) {
    const std::scoped_lock lock(mutex_);
    (void)keeping_failure([&] { return request_.wait_stream(stream), true; });
  }
  /// It will never be done.
  [[nodiscard]] bool lost() const { return lost_; }

  /// A transfer asks no longer: the last one gives up what is under way. `buffers` stay until the exchange is
  /// done. Waits for a thread that waits.
  void drop(LeftBuffers buffers) {
    const std::scoped_lock lock(mutex_);
    if (request_.active()) {
      left_->push_back(std::move(buffers));
    }
    if (--members_ == 0) {
      request_.cancel();
    }
  }

 private:
  template <typename Ask>
  [[nodiscard]] bool keeping_failure(const Ask& ask) {
    if (lost_) {
      std::rethrow_exception(failure_);
    }
    const bool was_active = request_.active();
    try {
      return ask();
    } catch (...) {
      if (was_active && !request_.active()) {
        failure_ = std::current_exception();
        lost_ = true;
      }
      throw;
    }
  }

  std::mutex mutex_;                // of all but done_ and lost_
  std::vector<LeftBuffers>* left_;  // kept by the request while it is active
  std::unique_ptr<KeptBuffers> keep_ = std::make_unique<KeptBuffers>();
  ExchangeRequest request_;
  std::size_t members_;
  std::exception_ptr failure_;
  std::atomic<bool> done_{false};
  std::atomic<bool> lost_{false};
};

}  // namespace dit::c_interface
