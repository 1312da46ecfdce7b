/// @file
/// After a failure: what should have been received is no number, so that nobody takes what lies there for a
/// result. Host and device.
#pragma once

#include <cstddef>

#include "device/copy.hpp"

namespace tapa::device {

/// A team whose loads give bytes of ones, which are no number in any type of floating point.
template <class Team>
class Spoiling {
 public:
  using Wide = typename Team::Wide;
  TAPA_HOST_DEVICE explicit Spoiling(Team& team) : team_(team) {}
  TAPA_HOST_DEVICE int lane() const { return team_.lane(); }
  TAPA_HOST_DEVICE int lanes() const { return team_.lanes(); }
  template <class Unit>
  TAPA_HOST_DEVICE Unit load(const std::byte*) {
    union {
      unsigned char bytes[sizeof(Unit)];
      Unit unit;
    } ones;
    for (unsigned char& byte : ones.bytes) byte = 0xff;
    return ones.unit;
  }
  template <class Unit>
  TAPA_HOST_DEVICE void store(std::byte* to, const Unit& unit) {
    team_.template store<Unit>(to, unit);
  }

 private:
  Team& team_;
};

template <class Team>
TAPA_HOST_DEVICE inline void spoil_bytes(Team& team, std::byte* memory, Word bytes) {
  Spoiling<Team> ones(team);
  copy_bytes(ones, memory, memory, bytes);  // it reads nothing
}

}  // namespace tapa::device
