/// @file
/// Some of the blocking calls that this rank has timed, so that the ranks' times of the same call can be
/// compared when MPI ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tapa {

struct CallSample {
  std::uint64_t communicator = 0;  ///< see Membership::id()
  std::uint64_t call = 0;          ///< which of the blocking calls on it
  std::uint64_t ranks = 0;         ///< of the communicator
  std::uint64_t bytes = 0;         ///< that this rank sent and received
  double seconds = 0;              ///< from call to completion
};

/// Which calls are kept depends on nothing but their numbers: ranks that have made the same calls keep the
/// same ones. Not thread-safe.
class CallSamples {
 public:
  static constexpr std::size_t kMost = 256;

  [[nodiscard]] bool wants(std::uint64_t communicator, std::uint64_t call) const;
  /// Does nothing where it is not wanted.
  void add(const CallSample& sample);
  [[nodiscard]] const std::vector<CallSample>& samples() const { return samples_; }

 private:
  std::vector<CallSample> samples_;  // a heap, the first to go at its front
};

/// Those of this process. Thread-safe.
[[nodiscard]] bool wants_sample(std::uint64_t communicator, std::uint64_t call);
void keep_sample(const CallSample& sample);
/// Not more than so many, the same ones on ranks that have kept the same.
[[nodiscard]] std::vector<CallSample> kept_samples(std::size_t most);

}  // namespace tapa
