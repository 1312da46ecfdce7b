/// @file
/// Threads that are kept from launch to launch: making one takes longer than most launches, and QEMU's user
/// mode keeps 280 KiB for each that has ended.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tapa::device {

class KeptThreads {
 public:
  using Job = std::function<void()>;

  /// Carries out all jobs at the same time, each in a thread of its own. Returns when all have ended.
  static void run(std::vector<Job> jobs) {
    std::vector<std::unique_ptr<Worker>> workers = take(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) workers[i]->begin(std::move(jobs[i]));
    for (const auto& worker : workers) worker->wait();
    const std::lock_guard lock(mutex());
    for (auto& worker : workers) idle().push_back(std::move(worker));
  }

 private:
  class Worker {
   public:
    Worker() = default;
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker() { thread_.request_stop(); }

    void begin(Job job) {
      const std::lock_guard lock(mutex_);
      job_ = std::move(job);
      changed_.notify_all();
    }

    void wait() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !job_; });
    }

   private:
    void work(const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      while (changed_.wait(lock, stop, [&] { return static_cast<bool>(job_); })) {
        lock.unlock();
        job_();
        lock.lock();
        job_ = nullptr;
        changed_.notify_all();
      }
    }

    std::mutex mutex_;
    std::condition_variable_any changed_;
    Job job_;
    std::jthread thread_{[this](const std::stop_token& stop) { work(stop); }};  ///< last: it uses the rest
  };

  static std::vector<std::unique_ptr<Worker>> take(std::size_t count) {
    std::vector<std::unique_ptr<Worker>> taken;
    const std::lock_guard lock(mutex());
    for (; taken.size() < count && !idle().empty(); idle().pop_back())
      taken.push_back(std::move(idle().back()));
    while (taken.size() < count) taken.push_back(std::make_unique<Worker>());
    return taken;
  }

  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::vector<std::unique_ptr<Worker>>& idle() {
    static std::vector<std::unique_ptr<Worker>> idle;
    return idle;
  }
};

}  // namespace tapa::device
