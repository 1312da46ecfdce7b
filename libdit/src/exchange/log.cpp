#include "exchange/log.hpp"

#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace dit {
namespace {

struct Sink {
  std::mutex mutex;
  std::shared_ptr<const LogSink> current;
};

// Never destroyed: contexts may close at the very end of the program.
Sink& sink() {
  static auto* const made = new Sink;
  return *made;
}

}  // namespace

void set_log_sink(LogSink wanted) {
  auto next = wanted ? std::make_shared<const LogSink>(std::move(wanted)) : nullptr;
  const std::scoped_lock lock(sink().mutex);
  sink().current.swap(next);
}

void log_warning(const std::string& line) noexcept {
  try {
    std::shared_ptr<const LogSink> current;
    {
      const std::scoped_lock lock(sink().mutex);
      current = sink().current;
    }
    if (current != nullptr)
      (*current)(line);
    else
      std::fprintf(stderr, "libdit: %s\n", line.c_str());
  } catch (...) {  // a warning is no reason to end the program
  }
}

}  // namespace dit
