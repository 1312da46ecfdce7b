#include "exchange/log.hpp"

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
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

// To stderr it needs no memory, as there may be none.
void log_warning(std::string_view what, std::string_view why) noexcept {
  const auto length = [](std::string_view text) { return static_cast<int>(text.size()); };
  try {
    std::shared_ptr<const LogSink> current;
    {
      const std::scoped_lock lock(sink().mutex);
      current = sink().current;
    }
    if (current != nullptr)
      (*current)(std::string(what).append(why));
    else
      std::fprintf(stderr, "libdit: %.*s%.*s\n", length(what), what.data(), length(why), why.data());
  } catch (...) {  // a warning is no reason to end the program
  }
}

}  // namespace dit
