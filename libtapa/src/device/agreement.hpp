/// @file
/// What the ranks of a device communicator tell each other on the host: values, and whether one of them
/// failed. Knows no CUDA.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tapa/device.h"

namespace tapa::device {

class Agreement {
 public:
  /// Throws DeviceError when rank or size is out of range or the function is null.
  Agreement(int rank, int size, TAPA_Device_allgather allgather, void* context);
  /// Some ranks of another agreement, this one among them. It goes through the allgather of all ranks: they
  /// make the same calls at the same time, each with the ranks of its node, and an error of one is that of
  /// all.
  Agreement(const Agreement& all, const std::vector<int>& members);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return members_.empty() ? ranks_ : static_cast<int>(members_.size()); }
  /// What the caller calls a rank.
  [[nodiscard]] int name(int rank) const {
    return members_.empty() ? rank : members_[static_cast<std::size_t>(rank)];
  }

  /// Every rank's value. Collective. Throws DeviceError when the caller's allgather fails.
  template <class Value>
  [[nodiscard]] std::vector<Value> gather(const Value& mine) const {
    std::vector<Value> all = gather_everywhere(mine);
    if (members_.empty()) return all;
    std::vector<Value> some;
    for (const int member : members_) some.push_back(all[static_cast<std::size_t>(member)]);
    return some;
  }
  /// The same with the ranks of all nodes, by name.
  template <class Value>
  [[nodiscard]] std::vector<Value> gather_everywhere(const Value& mine) const {
    static_assert(std::is_trivially_copyable_v<Value>);
    std::vector<Value> all(static_cast<std::size_t>(ranks_));
    gather_bytes(&mine, all.data(), sizeof(Value));
    return all;
  }
  /// Waits for all ranks.
  void meet() const { (void)gather(char{0}); }

  /// Runs `step` here and on all ranks; when it throws on one, all throw that rank's error. Collective.
  template <class Step>
  void together(const Step& step) const {
    Outcome mine{};
    try {
      step();
    } catch (...) {
      mine = outcome_of_exception();
    }
    raise_first(gather_everywhere(mine));
  }

 private:
  /// How a step ended on a rank.
  struct Outcome {
    int code;
    char text[508];
  };
  [[nodiscard]] static Outcome outcome_of_exception();
  static void raise_first(const std::vector<Outcome>& outcomes);
  void gather_bytes(const void* mine, void* all, std::size_t bytes) const;

  int rank_;
  int ranks_;                 ///< that the allgather joins
  std::vector<int> members_;  ///< of them; none: all
  TAPA_Device_allgather allgather_;
  void* context_;
};

}  // namespace tapa::device
