/// @file
/// Threads in a process that a fork made.
#pragma once

#include <memory>
#include <thread>

namespace tapa::device {

/// The parent's thread is not in this process: nothing may be asked of it, not even to be detached. The
/// handle forgets it.
inline void leave_to_parent(std::thread& thread) {
  std::construct_at(&thread);  // over the old one, which holds no more than a number
}

}  // namespace tapa::device
