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
  std::mutex mutex;
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
  std::vector<AtExit*> objects;
  {
    const std::lock_guard lock(all.mutex);
    objects = std::exchange(all.objects, {});
  }
  for (AtExit* const object : objects)
    if (object->process_ == ::getpid()) object->function_();
}

AtExit::AtExit(std::function<void()> function) : function_(std::move(function)), process_(::getpid()) {
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
