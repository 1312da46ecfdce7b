// Groups of threads, and running them.
#include "exchange/local/local_ranks.hpp"

#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "exchange/local/local_group.hpp"

namespace dit {
namespace {

constexpr int most_ranks = 1024;

void check_options(const LocalGroupOptions& options) {
  const auto refuse = [](const std::string& words) {
    throw ExchangeError(DIT_ERROR_ARGUMENT, "local ranks: " + words);
  };
  if (options.ranks < 1 || options.ranks > most_ranks)
    refuse("ranks is " + std::to_string(options.ranks) + ", expected 1 to " + std::to_string(most_ranks));
  if (options.ranks_per_node < 0)
    refuse("ranks_per_node is " + std::to_string(options.ranks_per_node) + ", expected 0 (no nodes) or more");
  if (!std::isfinite(options.bytes_per_second) || options.bytes_per_second < 0)
    refuse("bytes_per_second is " + std::to_string(options.bytes_per_second) +
           ", expected 0 (no limit) or more");
  if (options.bytes_per_second > 0 && options.ranks_per_node == 0)
    refuse("bytes_per_second is the rate of a node's NIC: ranks_per_node must be 1 or more with it");
  if (!(options.timeout_seconds >= 0))
    refuse("timeout_seconds is " + std::to_string(options.timeout_seconds) + ", expected 0 (never) or more");
}

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception without words";
  }
}

// Collects what ranks throw: the first one ends the job for all.
class FirstError {
 public:
  explicit FirstError(LocalJob& job) : job_(job) {}
  void add(int rank, const std::exception_ptr& error) {
    const std::scoped_lock lock(mutex_);
    job_.fail("rank " + std::to_string(rank) + " has left: " + words_of(error));
    if (first_ == nullptr) first_ = error;
  }
  void rethrow() const {
    if (first_ != nullptr) std::rethrow_exception(first_);
  }

 private:
  LocalJob& job_;
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace

std::vector<dit_local_member> make_local_group(const LocalGroupOptions& options) {
  check_options(options);
  const bool has_nodes = options.ranks_per_node > 0;
  std::vector<int> nodes;
  for (int rank = 0; rank < options.ranks; ++rank)
    nodes.push_back(has_nodes ? rank / options.ranks_per_node : 0);
  auto job = std::make_shared<LocalJob>(nodes.back() + 1, options.bytes_per_second);
  const auto group = std::make_shared<LocalGroup>(std::move(job), std::move(nodes), has_nodes);
  std::vector<dit_local_member> members;
  for (int rank = 0; rank < options.ranks; ++rank) members.push_back({group, rank});
  return members;
}

void run_local_ranks(const LocalGroupOptions& options, const std::function<void(ExchangeContext&)>& body) {
  std::vector<dit_local_member> members = make_local_group(options);
  FirstError errors(members.front().group->job());
  const auto run = [&](dit_local_member& member) {
    try {
      ExchangeContext context(ExchangePlugin::load("local"), {&member, options.timeout_seconds, ""});
      try {
        body(context);
      } catch (...) {  // the others must hear of it before the context closes
        errors.add(member.rank, std::current_exception());
      }
    } catch (...) {
      errors.add(member.rank, std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;
    if (members.size() == 1) run(members.front());
    for (dit_local_member& member : members) {
      if (members.size() == 1) break;
      try {
        threads.emplace_back(run, std::ref(member));
      } catch (...) {  // no more threads to be had: those that run must not wait for the others
        errors.add(member.rank, std::current_exception());
        break;
      }
    }
  }
  errors.rethrow();
}

}  // namespace dit
