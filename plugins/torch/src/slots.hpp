/// Tensors over memory that peers write into, taken in turn.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <array>
#include <optional>
#include <vector>

#include "attention.hpp"
#include "transfers.hpp"

namespace dit::operators {

/// Whoever still holds what a slot had gets it in other memory before the slot is filled again: results are
/// tensors as any others are, for as long as they are held, and compilers may put other values into them. Not
/// across the bounds of a captured graph, whose kernels keep their addresses.
class Slots {
 public:
  Slots(const Attention& attention, const Transfers& transfers)
      : attention_(attention), transfers_(transfers) {}
  /// The held ones outlive the memory.
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  /// A tensor for the next result; what is put into torch's current stream afterwards may overwrite it.
  [[nodiscard]] at::Tensor take(int what);
  /// The first ones are taken next. A rank writes into that one of its peers which it takes itself: after a
  /// failure, which ranks had at different ones, they begin together.
  void restart() noexcept;

 private:
  struct Slot {
    c10::Storage storage;
    unsigned long long capture = 0;  ///< in which it was taken; 0: it runs
  };
  struct Ring {
    std::vector<std::optional<Slot>> slots;
    std::size_t next = 0;
  };
  void move_held(const Slot& slot, unsigned long long capture) const;

  const Attention& attention_;
  const Transfers& transfers_;
  std::array<Ring, kTransfers> rings_;
};

}  // namespace dit::operators
