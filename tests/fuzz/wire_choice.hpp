/// Wires that the C interface's fuzzer makes, and what is known of what they do to a tensor.
#pragma once

#include <dit/dit.h>

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "c_calls.hpp"

namespace fuzz {

/// What a number that travelled is, when it was bf16's before.
enum class Arrival : std::uint8_t {
  exact,  ///< the same bits
  late,   ///< of K and V from the fifth step on the bits of the start before, in this layer and branch
  past,   ///< the same bits, or those of an earlier start of this layer and branch, a whole row
  near,   ///< not far off
  lossy   ///< a number, and nothing enormous
};

struct PolicyChoice {
  const char* text;
  Arrival arrival = Arrival::lossy;
  bool world = false;  ///< on links of the level "world"; else on those that leave a node
  bool guard = false;
  bool v_major = false;
  bool remembers = true;
  int sure_from =
      0;  ///< in runs of so many steps or more all queries, keys and values are remembered; 0: not surely
};

/// Policies that are right on every session.
[[nodiscard]] const PolicyChoice& policy_choice(int number);
[[nodiscard]] int policy_choices();

/// One that is alive on a rank. Rows that V-Major has chosen: dit_wire_choose_rows in dit.h.
struct WireState {
  dit_wire* wire = nullptr;
  const PolicyChoice* policy = nullptr;
  int number = 0;
  int layers = 1, steps = 1, branches = 1, groups = 1;
  int element_type = DIT_ELEMENT_FP32;
  bool off = false;  ///< everything travels in full
  int transfers = 0;

  using Visited = std::tuple<int, int, int>;  ///< layer, step, branch
  struct Visit {
    bool any = false;
    Visited place;
    std::set<std::pair<int, int>> taken;  ///< tensor and group
  };
  Visit visits[2];

  [[nodiscard]] std::size_t element_bytes() const { return element_type == DIT_ELEMENT_FP32 ? 4 : 2; }
  [[nodiscard]] int slot(int branch) const { return branches > 1 ? branch : 0; }
  /// Whether a tensor is certainly remembered, on some link.
  [[nodiscard]] bool surely_remembers(const Case& of, int kind) const {
    return !off && policy->sure_from > 0 && steps >= policy->sure_from && kind != DIT_GATHER_OUTPUT &&
           (policy->world || of.slow_level() < of.levels());
  }
  /// Whether what one rank sends to another is coded.
  [[nodiscard]] bool touches(const Case& of, int from, int to) const {
    if (off || from == to) return false;
    if (policy->world) return of.level_of(from, to) == of.levels() - 1;
    return of.level_of(from, to) >= of.slow_level();
  }
};

/// Numbers that bf16, fp16 and fp32 all have.
void store_number(int eighths, int element_type, std::uint8_t* out);
[[nodiscard]] float load_number(const std::uint8_t* in, int element_type);

}  // namespace fuzz
