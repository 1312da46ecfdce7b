/// What the fuzzers share. Each is one file with LLVMFuzzerTestOneInput: libFuzzer calls it in the preset
/// `fuzz`, and replay.cpp with the committed inputs in all others.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace fuzz {

/// What must hold whatever the input is. Of several threads the first one ends the program: libFuzzer keeps
/// the input of one end only.
inline void require(bool holds, std::string_view what) {
  if (holds) return;
  static std::atomic_flag ends = ATOMIC_FLAG_INIT;
  while (ends.test_and_set()) std::this_thread::sleep_for(std::chrono::seconds(1));
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// The error that bad input is answered with; it has words.
inline void require_words(const std::exception& error) {
  require(!std::string_view(error.what()).empty(), "an error has words");
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Numbers taken from the front of an input; zeros when it is used up.
class Numbers {
 public:
  Numbers(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  [[nodiscard]] bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  /// From 0 to `most`.
  int up_to(int most) { return byte() % (most + 1); }
  bool coin() { return byte() % 2 == 1; }
  [[nodiscard]] std::string_view rest() const { return text_of(data_, left_); }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
