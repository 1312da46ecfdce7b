/// @file
/// MPI's blocking all-to-all of blocks that are described here, where MPI may mix up the layouts of two
/// datatypes as bytes, which are packed and unpacked by us.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "run/arguments.hpp"

namespace tapa {

/// Which blocks of a call MPI may get wrong where they have gaps.
enum class Mixed : std::uint8_t { none, own, all };

/// Of a call on an intracommunicator. Open MPI up to 4.1.4 mixes up the two layouts of MPI_Alltoall, takes
/// the displacements of one rank's MPI_Alltoallw for elements, and gets a rank's own block wrong from 64 KiB
/// on; calls in place go through buffers of its own. It packs what it sends on the way, which costs less than
/// packing all of it before, so other calls are handed over as they were made. Throws CallError for types
/// that cannot be described.
[[nodiscard]] Mixed mixed_by_mpi(const Arguments& arguments, MPI_Comm comm);

/// A blocking call on its way to MPI: as it was made when MPI gets it right so, or could not count the bytes;
/// without this rank's own block, which is copied here, where MPI may get that wrong alone; else, and where
/// buffers overlap, in bytes.
///
/// Which of these is a local matter: whichever it is, the same function of MPI is called and the same bytes
/// move. Open MPI and MPICH choose the algorithm by the number of ranks and the bytes of a block, and each
/// message by its bytes; types only say where these lie. So a rank that has no memory for copies hands the
/// call over as it was made, and the others need not know: MPI may then mix up layouts, which is better than
/// an error where MPI alone has none.
class CallForMpi {
 public:
  /// Takes all memory that is needed; `exchange`, and what the arguments point to, must live as long as this.
  /// Throws CallError.
  CallForMpi(const Arguments& arguments, const Exchange& exchange, MPI_Comm comm);
  /// As it was made.
  CallForMpi(const Arguments& arguments, int ranks, MPI_Comm comm);
  ~CallForMpi();
  CallForMpi(const CallForMpi&) = delete;
  CallForMpi& operator=(const CallForMpi&) = delete;

  /// Packs what is packed and has MPI carry the call out; returns its code. Holds nothing but what this owns:
  /// MPI's error handler may not return.
  [[nodiscard]] int call() const;
  /// Puts what was received where it belongs; after a call without an error. Throws CallError.
  void finish() const;

 private:
  enum class Way : std::uint8_t { made, own, bytes };
  struct Held;

  void take_as_made(const Arguments& arguments, int ranks);
  void prepare(const Arguments& arguments, const Exchange& exchange);
  void prepare_bytes(const Arguments& arguments, const Exchange& exchange);
  void gather() const;
  [[nodiscard]] int call_bytes() const;

  Way way_ = Way::made;
  MPI_Comm comm_;
  Arguments arguments_;    // as MPI takes them
  std::size_t bytes_ = 0;  // of equal blocks
  std::unique_ptr<Held> held_;
};

}  // namespace tapa
