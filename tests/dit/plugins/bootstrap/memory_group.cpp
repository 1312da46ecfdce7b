#include "memory_group.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace dit {

/// The C functions.
struct MemoryFunctions {
  /// Looks after the rules of dit/bootstrap.h while it lives.
  class Call {
   public:
    Call(MemoryRank& rank, const char* function) : rank_(rank) {
      if (rank_.inside.exchange(true)) rank_.twice = true;
      ++rank_.calls;
      if (rank_.before) code_ = rank_.before(function);
    }
    ~Call() { rank_.inside = false; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    [[nodiscard]] int code() const { return code_; }

   private:
    MemoryRank& rank_;
    int code_ = 0;
  };

  static MemoryRank& self(void* user) { return *static_cast<MemoryRank*>(user); }

  static int allgather(void* user, const void* mine, void* all, std::size_t bytes) {
    MemoryRank& rank = self(user);
    const Call call(rank, "allgather");
    if (call.code() != 0) return call.code();
    return rank.group->meet(rank, {"allgather", mine, &bytes, nullptr}, [&] {
      for (std::size_t peer = 0; peer < rank.group->given_.size(); ++peer) {
        const MemoryGroup::Given& other = rank.group->given_[peer];
        if (*other.counts != bytes) return false;
        std::memcpy(static_cast<std::byte*>(all) + peer * bytes, other.bytes, bytes);
      }
      return true;
    });
  }

  static int alltoallv(void* user, const void* send, const std::size_t* send_bytes,
                       const std::size_t* send_offsets, void* recv, const std::size_t* recv_bytes,
                       const std::size_t* recv_offsets) {
    MemoryRank& rank = self(user);
    const Call call(rank, "alltoallv");
    if (call.code() != 0) return call.code();
    const auto own = static_cast<std::size_t>(rank.rank);
    if (send_bytes[own] != 0 || recv_bytes[own] != 0) return 98;
    return rank.group->meet(rank, {"alltoallv", send, send_bytes, send_offsets}, [&] {
      for (std::size_t peer = 0; peer < rank.group->given_.size(); ++peer) {
        const MemoryGroup::Given& other = rank.group->given_[peer];
        if (other.counts[own] != recv_bytes[peer]) return false;
        if (recv_bytes[peer] > 0)
          std::memcpy(static_cast<std::byte*>(recv) + recv_offsets[peer],
                      static_cast<const std::byte*>(other.bytes) + other.offsets[own], recv_bytes[peer]);
      }
      return true;
    });
  }

  static int make_part(void* user, const int* ranks, int count, dit_bootstrap* part) {
    MemoryRank& rank = self(user);
    const Call call(rank, "make_part");
    if (call.code() != 0) return call.code();
    const int number = rank.calls;
    if (part == nullptr) return 0;
    MemoryGroup& group = rank.group->part({ranks, ranks + count}, number);
    for (int place = 0; place < count; ++place)
      if (ranks[place] == rank.rank) *part = group.bootstrap(place);
    part->node = nullptr;
    return 0;
  }

  static void release(void* user) { ++self(user).released; }
  static const char* last_error(void* user) { return self(user).words.c_str(); }
};

MemoryGroup::MemoryGroup(int size) : given_(static_cast<std::size_t>(size)) {
  for (int rank = 0; rank < size; ++rank) {
    ranks_.push_back(std::make_unique<MemoryRank>());
    ranks_.back()->group = this;
    ranks_.back()->rank = rank;
  }
}

MemoryGroup::~MemoryGroup() {
  for (const auto& rank : ranks_)
    EXPECT_FALSE(rank->twice) << "rank " << rank->rank << " was called twice at once";
}

dit_bootstrap MemoryGroup::bootstrap(int rank) {
  MemoryRank& member = at(rank);
  return {sizeof(dit_bootstrap),
          rank,
          size(),
          MemoryFunctions::allgather,
          alltoallv ? MemoryFunctions::alltoallv : nullptr,
          &member,
          member.node.c_str(),
          parts ? MemoryFunctions::make_part : nullptr,
          MemoryFunctions::release,
          MemoryFunctions::last_error,
          member.reach,
          0,
          0};
}

void MemoryGroup::give_up() {
  const std::scoped_lock lock(mutex_);
  gave_up_ = true;
  changed_.notify_all();
}

bool MemoryGroup::wait_for_all(std::unique_lock<std::mutex>& lock) {
  const unsigned long round = round_;
  if (++arrived_ == size()) {
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
    return true;
  }
  changed_.wait(lock, [&] { return gave_up_ || round_ != round; });
  return round_ != round;
}

// 99: the ranks do not call the same; 97: a rank has not come.
int MemoryGroup::meet(MemoryRank& rank, const Given& given, const std::function<bool()>& take) {
  std::unique_lock lock(mutex_);
  if (gave_up_) return 97;
  given_[static_cast<std::size_t>(rank.rank)] = given;
  if (!wait_for_all(lock)) return 97;
  bool right = true;
  for (const Given& other : given_) right = right && std::strcmp(other.function, given.function) == 0;
  right = right && take();
  if (!wait_for_all(lock)) return 97;
  return right ? 0 : 99;
}

MemoryGroup& MemoryGroup::part(const std::vector<int>& ranks, int number) {
  const std::scoped_lock lock(mutex_);
  auto& group = part_groups_[{number, ranks}];
  if (group == nullptr) {
    group = std::make_unique<MemoryGroup>(static_cast<int>(ranks.size()));
    group->alltoallv = alltoallv;
    group->parts = parts;
  }
  return *group;
}

ExchangeContext open_context(MemoryGroup& group, int rank, const MemoryOptions& options) {
  dit_bootstrap bootstrap = group.bootstrap(rank);
  return ExchangeContext(ExchangePlugin::linked(dit_exchange_bootstrap_plugin_v1),
                         {&bootstrap, options.timeout_seconds, options.config});
}

void run_memory_ranks(MemoryGroup& group, const std::function<void(ExchangeContext&)>& body,
                      const MemoryOptions& options) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < group.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        ExchangeContext context = open_context(group, rank, options);
        body(context);
        context.close();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        group.give_up();
      }
    });
}

}  // namespace dit
