/// @file
/// The ranks have agreed that all-to-alls come to the library. A tool, or a program that has looked MPI's
/// function up, may make one past it on some ranks only: these then wait in MPI, and the others here, for
/// ever. This finds such a call while it waits, and says whose it is.
#pragma once

#include <span>

namespace tapa {

/// From now on this process looks now and then while it waits in MPI: when another rank has waited for it for
/// some seconds and it is in MPI's own all-to-all, it says so. For Open MPI, which calls us there; nothing
/// happens where MPI does not.
void watch_for_past_calls();
void stop_watching();

/// While it lives this rank waits for others in a collective call of MPI in which nobody sees for whom. It
/// asks the one behind it: of some that wait and some that do not come, one that waits stands before one that
/// does not. One at a time, more are not noted.
class WaitsInMpi {
 public:
  /// `ranks`: of the process's world, all that take part; `self`: this one's place among them.
  WaitsInMpi(std::span<const int> ranks, int self);
  ~WaitsInMpi();
  WaitsInMpi(const WaitsInMpi&) = delete;
  WaitsInMpi& operator=(const WaitsInMpi&) = delete;

 private:
  bool noted_;
};

}  // namespace tapa
