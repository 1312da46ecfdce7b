/// @file
/// What a process does when it exits, with objects that still live then.
#pragma once

#include <sys/types.h>

#include <functional>

namespace tapa::device {

/// Its functions are called in exit(), or when the library is unloaded, unless this has been destroyed
/// before: first `begin` of all objects, then `end` of all. Who destroys one of them meanwhile waits for its
/// function to return. Not in processes that were forked since. The objects that live are state of the
/// library's own.
class AtExit {
 public:
  AtExit(std::function<void()> begin, std::function<void()> end);
  ~AtExit();
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  friend void run_at_exit();
  std::function<void()> begin_, end_;
  pid_t process_;  ///< whose it is: in another one its threads do not run
};

}  // namespace tapa::device
