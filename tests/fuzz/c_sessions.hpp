/// Steps of the C interface's fuzzer: what a session says of itself, its parts, its registrations, the
/// library.
#pragma once

#include <list>
#include <vector>

#include "c_calls.hpp"

namespace fuzz {

/// Of a rank.
class Sessions {
 public:
  Sessions(const Place& place, Numbers& numbers) : place_(place), numbers_(numbers) {}

  void check_ranks() const;
  void ask_levels();
  void ask_totals();
  void exchange_by_plugin();
  void split();
  void close_part();
  void add_registration();
  void free_registration();
  void ask_library();
  void misuse();
  /// The session is not closed while something of it is there.
  void require_open(dit_session** session) const;
  void release_all();
  [[nodiscard]] bool empty() const { return parts_.empty() && registrations_.empty(); }
  /// The last one; null when there is none.
  [[nodiscard]] dit_registration* registration() const {
    return registrations_.empty() ? nullptr : registrations_.back();
  }

 private:
  void exchange_in(dit_session* part, int ranks, int rank) const;

  const Place& place_;
  Numbers& numbers_;
  std::vector<dit_session*> parts_;  // where this rank's colour has one
  std::size_t splits_ = 0;           // that may have made parts: the same on all ranks
  std::vector<dit_registration*> registrations_;
  std::list<std::vector<std::uint8_t>> memory_;
};

}  // namespace fuzz
