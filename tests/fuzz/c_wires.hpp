/// Steps of the C interface's fuzzer: wires.
#pragma once

#include <memory>
#include <vector>

#include "c_calls.hpp"
#include "wire_choice.hpp"

namespace fuzz {

/// Of a rank.
class Wires {
 public:
  Wires(const Place& place, Numbers& numbers) : place_(place), numbers_(numbers) {}

  void create();
  void create_wrong();
  void ask();
  void choose_rows();
  void release();
  void misuse();
  /// Of which all transfers are freed.
  void release_all();
  /// One of those that are there; null when none is.
  [[nodiscard]] std::shared_ptr<WireState> choose();
  [[nodiscard]] bool empty() const { return wires_.empty(); }

 private:
  [[nodiscard]] dit_wire_options options_of(const WireState& wire) const;
  void ask_of_level(const WireState& wire, int level);
  void check_text(const WireState& wire);
  void check_steps(WireState& wire);

  const Place& place_;
  Numbers& numbers_;
  std::vector<std::shared_ptr<WireState>> wires_;
  int made_ = 0;
  bool timed_ = false;
};

}  // namespace fuzz
