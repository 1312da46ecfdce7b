/// @file
/// What device_check expects of calls that fail.
#pragma once

#include <cstdio>
#include <cstring>

#include "check_parts.hpp"

namespace tapa::bench {

/// Counts what is not as it should be.
class Expectations {
 public:
  explicit Expectations(const Ranks& ranks) : rank_(ranks.rank()) {}
  /// An error of this code whose text holds `text`.
  void error(int code, int expected, const char* text) {
    if (code == expected && std::strstr(TAPA_Device_last_error(), text) != nullptr) return;
    std::printf("rank %d: code %d and \"%s\", expected %d and \"%s\": WRONG\n", rank_, code,
                TAPA_Device_last_error(), expected, text);
    ++wrong_;
  }
  void that(bool right, const char* what) {
    if (right) return;
    std::printf("rank %d: %s: WRONG\n", rank_, what);
    ++wrong_;
  }
  [[nodiscard]] unsigned long long wrong() const { return wrong_; }

 private:
  int rank_;
  unsigned long long wrong_ = 0;
};

}  // namespace tapa::bench
