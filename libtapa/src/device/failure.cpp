#include "device/failure.hpp"

#include <array>
#include <cstdio>

#include "device/device_error.hpp"

namespace tapa::device {

namespace {

std::string rank_text(int rank) {
  return "rank " + std::to_string(rank);
}

[[noreturn]] void raise(int code, Word call, const std::string& what) {
  throw DeviceError(code, "call " + std::to_string(call) + ": " + what);
}

/// Throws what is noted of one rank, but for its absence, which others' errors entail. Calls that are right
/// come here too, and put no words together.
void throw_of_rank(const volatile Failure& failure, int peer) {
  if (failure.elsewhere[peer] != 0) {
    raise(
        TAPA_DEVICE_ERR_WINDOW, failure.elsewhere[peer],
        rank_text(peer) +
            " makes another call than this rank, or receives at another offset of a symmetric registration, "
            "or not in it");
  }
  if (failure.no_window[peer] != 0) {
    raise(TAPA_DEVICE_ERR_WINDOW, failure.no_window[peer],
          rank_text(peer) + " receives in memory whose registration is gone");
  }
  const volatile Disagreement& to = failure.to[peer];
  if (to.call != 0) {
    raise(TAPA_DEVICE_ERR_COUNT, to.call,
          "this rank sends " + std::to_string(to.sent) + " bytes to " + rank_text(peer) + ", which expects " +
              std::to_string(to.expected));
  }
  const volatile Disagreement& from = failure.from[peer];
  if (from.call != 0) {
    raise(TAPA_DEVICE_ERR_COUNT, from.call,
          rank_text(peer) + " sends another number of bytes to this rank than the " +
              std::to_string(from.expected) + " that it expects, or makes another call");
  }
}

}  // namespace

std::string short_text(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", number);
  return text.data();
}

void throw_failure(const volatile Failure& failure, int size, double timeout, int& rank) {
  for (rank = 0; rank < size; ++rank) throw_of_rank(failure, rank);
  rank = -1;
  std::string names;
  Word call = 0;
  for (int peer = 0; peer < size; ++peer) {
    if (failure.missing[peer] == 0) continue;
    if (rank < 0) rank = peer;
    call = failure.missing[peer];
    names += (names.empty() ? "" : ", ") + std::to_string(peer);
  }
  if (rank < 0) return;
  throw DeviceError(TAPA_DEVICE_ERR_TIMEOUT, "rank " + names + " did not arrive at call " +
                                                 std::to_string(call) + " within " + short_text(timeout) +
                                                 " seconds");
}

}  // namespace tapa::device
