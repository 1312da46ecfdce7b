/// @file
/// A tool, or a program that has looked MPI's function up, may make an all-to-all past the library on some
/// ranks only: these wait in MPI, the others here, for ever. This finds such a call, and says whose it is.
#pragma once

#include <span>

namespace tapa {

/// From now on this process looks now and then while it waits in MPI: when another rank has waited for it for
/// seconds and it is in MPI's own all-to-all, it says so. For Open MPI, which calls us there.
void watch_for_past_calls();
void stop_watching();

/// While it lives this rank waits in a collective call of MPI in which nobody sees for whom. It asks the one
/// behind it: some rank that waits stands before one that does not come. One at a time, more are not noted.
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
