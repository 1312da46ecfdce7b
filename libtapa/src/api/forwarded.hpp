/// @file
/// Calls that are forwarded to MPI, in the report: counted with the reason, while the report is wanted.
#pragma once

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// Why a call is forwarded. Static texts: the program's error handler may jump out of the call.
namespace reasons {
inline constexpr const char* foreign = "intercommunicator, or outside of MPI_Init and MPI_Finalize";
inline constexpr const char* alone = "communicator of one rank";
inline constexpr const char* not_ready = "communicator not set up";
inline constexpr const char* device = "buffers may be in GPU memory";
inline constexpr const char* no_progress = "nothing would make it progress";
inline constexpr const char* proven = "no plan is known to be faster";
inline constexpr const char* asked = "TAPA_PLAN=mpi";
inline constexpr const char* tags = "no tags are left";
}  // namespace reasons

/// Times a call, if the report is wanted, and counts it as forwarded when that is said and it succeeded.
class ForwardedCall {
 public:
  explicit ForwardedCall(const Arguments& arguments);
  /// Whether the reason is of interest: finding it may take as long as a short call.
  [[nodiscard]] bool wanted() const { return wanted_; }
  void forwarded(const char* reason) { reason_ = reason; }
  /// Returns `code`.
  int end(int code);

 private:
  const Arguments* arguments_;
  const char* reason_ = nullptr;
  double began_ = 0;
  bool wanted_;
};

/// Why the ranks of a communicator whose state is `state` (may be null) leave a blocking call to MPI.
[[nodiscard]] const char* reason_for_blocking(MPI_Comm comm, const CommState* state);

}  // namespace tapa
