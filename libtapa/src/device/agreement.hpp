/// @file
/// What the ranks of a device communicator tell each other on the host: values, and whether one of them
/// failed. Knows no CUDA.
///
/// Collective steps lie in a step of together(), one in another. Each begins with whether all ranks are well:
/// so what a rank throws between two of them, as it may do where it has no memory, all throw at the second.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <vector>

#include "device/device_error.hpp"
#include "tapa/device.h"

namespace tapa::device {

/// All ranks throw it at once, so none is to be told.
class CommonError : public DeviceError {
  using DeviceError::DeviceError;
};

class Agreement {
 public:
  /// Throws DeviceError when rank or size is out of range or the function is null.
  Agreement(int rank, int size, TAPA_Device_allgather allgather, void* context);
  /// Some ranks of another agreement, in their order, this one among them. It goes through the allgather of
  /// all ranks: they make the same calls at the same time, each with the ranks of its node, and an error of
  /// one is that of all.
  Agreement(const Agreement& all, const std::vector<int>& members);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return members_.empty() ? ranks_ : static_cast<int>(members_.size()); }
  /// What the caller calls a rank.
  [[nodiscard]] int name(int rank) const {
    return members_.empty() ? rank : members_[static_cast<std::size_t>(rank)];
  }

  /// Every rank's value. Collective. Throws CommonError when a rank has no memory for them, or when the
  /// caller's allgather fails.
  template <class Value>
  [[nodiscard]] std::vector<Value> gather(const Value& mine) const {
    std::vector<Value> all = gather_everywhere(mine);
    if (members_.empty()) return all;
    for (std::size_t at = 0; at < members_.size(); ++at)
      all[at] = all[static_cast<std::size_t>(members_[at])];
    all.resize(members_.size());
    return all;
  }
  /// The same with the ranks of all nodes, by name.
  template <class Value>
  [[nodiscard]] std::vector<Value> gather_everywhere(const Value& mine) const {
    static_assert(std::is_trivially_copyable_v<Value>);
    std::vector<Value> all;
    together([&] { all.resize(static_cast<std::size_t>(ranks_)); });
    gather_bytes(&mine, all.data(), sizeof(Value));
    return all;
  }
  /// Waits for all ranks. Needs no memory.
  void meet() const { settle({}); }

  /// Runs `step` here and on all ranks; when it throws on some, all throw the error of the first of them.
  /// Collective. Throws CommonError.
  template <class Step>
  void together(const Step& step) const {
    Outcome mine{};
    try {
      step();
    } catch (const CommonError&) {
      throw;
    } catch (...) {
      mine = outcome_of_exception();
    }
    settle(mine);
  }
  /// Nothing, or why `step` has failed on some rank: all know, and go on together. Collective. Throws
  /// CommonError where a rank has failed before, or the caller's allgather does.
  template <class Step>
  [[nodiscard]] std::optional<CommonError> failure_of(const Step& step) const {
    meet();
    try {
      together(step);
      return std::nullopt;
    } catch (const CommonError& error) {
      if (error.code() == TAPA_DEVICE_ERR_ALLGATHER) throw;
      return error;
    }
  }

 private:
  /// How a step ended on a rank.
  struct Outcome {
    int code = TAPA_DEVICE_SUCCESS;
    std::array<char, 512> text{};
  };
  [[nodiscard]] static Outcome outcome_of_exception();
  /// Throws the first error that there is, with its rank's name if not all have one. Needs no memory but the
  /// stack's.
  void settle(const Outcome& mine) const;
  void gather_bytes(const void* mine, void* all, std::size_t bytes) const;

  int rank_;
  int ranks_;                 ///< that the allgather joins
  std::vector<int> members_;  ///< of them; none: all
  TAPA_Device_allgather allgather_;
  void* context_;
};

}  // namespace tapa::device
