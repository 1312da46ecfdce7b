#include "device/at_exit.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

namespace tapa::device {

namespace {

struct Living {
  std::recursive_mutex mutex;  ///< held while a function runs, which may destroy its object
  std::vector<AtExit*> objects;
};

/// Never destroyed: objects may outlive everything that exit() destroys.
Living& living() {
  static Living* const all = new Living;
  return *all;
}

}  // namespace

void run_at_exit() {
  Living& all = living();
  for (std::function<void()> AtExit::*const phase : {&AtExit::begin_, &AtExit::end_}) {
    for (;;) {
      const std::lock_guard lock(all.mutex);
      const auto next = std::find_if(all.objects.begin(), all.objects.end(), [phase](const AtExit* object) {
        return object->process_ == ::getpid() && object->*phase;
      });
      if (next == all.objects.end()) break;
      const std::function<void()> function = std::exchange((*next)->*phase, {});
      function();
    }
  }
}

AtExit::AtExit(std::function<void()> begin, std::function<void()> end)
    : begin_(std::move(begin)), end_(std::move(end)), process_(::getpid()) {
  static const int registered = std::atexit(run_at_exit);
  (void)registered;
  Living& all = living();
  const std::lock_guard lock(all.mutex);
  all.objects.push_back(this);
}

AtExit::~AtExit() {
  Living& all = living();
  const std::lock_guard lock(all.mutex);
  std::erase(all.objects, this);
}

}  // namespace tapa::device
