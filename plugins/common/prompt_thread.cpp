#include "common/prompt_thread.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace dit {
namespace {

// As linux/sched/types.h has it, which cannot be included beside sched.h.
struct SchedulingAttributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime, deadline, period;
};

constexpr unsigned long kTimerSlack = 1000;       // nanoseconds; the default is 50 times that
constexpr std::uint64_t kShortestSlice = 100000;  // nanoseconds: the least that the kernel takes

}  // namespace

void be_prompt() noexcept {
  prctl(PR_SET_TIMERSLACK, kTimerSlack);
  SchedulingAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  attributes.size = sizeof attributes;
  attributes.runtime = kShortestSlice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace dit
