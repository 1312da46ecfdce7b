/// @file
/// What is told of calls that MPI has carried out: to the autotuner, the report and the explanation.
#pragma once

#include "route/route.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// Times a call, where somebody wants to know. Needs no destructor: MPI's error handler may jump over it.
class MpiNote {
 public:
  /// Both are borrowed.
  MpiNote(const Arguments& arguments, const Route& route);
  /// The call has ended with this code, which is returned.
  int end(int code);

 private:
  const Arguments* arguments_;
  const Route* route_;
  bool wanted_;
  std::uint64_t freed_ = 0;
  double began_ = 0;
};

}  // namespace tapa
