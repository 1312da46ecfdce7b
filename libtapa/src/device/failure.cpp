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
void throw_of_rank(const volatile Failure& failure, int peer, int name) {
  if (failure.elsewhere[peer] != 0) {
    raise(
        TAPA_DEVICE_ERR_WINDOW, failure.elsewhere[peer],
        rank_text(name) +
            " makes another call than this rank, or receives at another offset of a symmetric registration, "
            "or not in it");
  }
  if (failure.no_window[peer] != 0) {
    raise(TAPA_DEVICE_ERR_WINDOW, failure.no_window[peer],
          rank_text(name) + " receives in memory whose registration is gone");
  }
  const volatile Disagreement& to = failure.to[peer];
  if (to.call != 0) {
    raise(TAPA_DEVICE_ERR_COUNT, to.call,
          "this rank sends " + std::to_string(to.sent) + " bytes to " + rank_text(name) + ", which expects " +
              std::to_string(to.expected));
  }
  const volatile Disagreement& from = failure.from[peer];
  if (from.call != 0) {
    raise(TAPA_DEVICE_ERR_COUNT, from.call,
          rank_text(name) + " sends another number of bytes to this rank than the " +
              std::to_string(from.expected) + " that it expects, or makes another call");
  }
}

}  // namespace

std::string short_text(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", number);
  return text.data();
}

void say_not_freed(int rank, double timeout) {
  std::fprintf(stderr, "tapa: freeing a device communicator: rank %d did not come within %g s\n", rank,
               timeout);
}

void throw_failure(const volatile Failure& failure, std::span<const int> names, double timeout, int& rank) {
  int peer = 0;
  for (const int name : names) {
    rank = name;
    throw_of_rank(failure, peer++, name);
  }
  peer = 0;
  for (const int name : names) {
    rank = name;
    const Word at = failure.parted[peer++];
    if (at != 0) {
      raise(TAPA_DEVICE_ERR_TIMEOUT, at,
            rank_text(name) + " does not arrive: it has had an error, or has freed its communicator");
    }
  }
  rank = -1;
  std::string missing;
  Word call = 0;
  peer = 0;
  for (const int name : names) {
    const Word at = failure.missing[peer++];
    if (at == 0) continue;
    if (rank < 0) rank = name;
    call = at;
    missing += (missing.empty() ? "" : ", ") + std::to_string(name);
  }
  if (rank < 0) return;
  throw DeviceError(TAPA_DEVICE_ERR_TIMEOUT, "rank " + missing + " did not arrive at call " +
                                                 std::to_string(call) + " within " + short_text(timeout) +
                                                 " seconds");
}

}  // namespace tapa::device
