/// @file
/// A line on a terminal's standard error that tells how far long work is; nothing elsewhere.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace tapa {

/// Writes over itself; gone when the work is done.
class StatusLine {
 public:
  explicit StatusLine(bool wanted = true) : active_(wanted && isatty(STDERR_FILENO) == 1) {}
  ~StatusLine() {
    if (active_) std::fprintf(stderr, "\r\033[K");
  }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  [[nodiscard]] bool active() const { return active_; }
  void show(const std::string& text) const {
    if (!active_) return;
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    std::fflush(stderr);
  }

 private:
  bool active_;
};

}  // namespace tapa
