/// @file
/// A call whose buffers lie in a device's memory, carried out on copies in the host's: whoever carries it
/// out, this library or MPI, sees host memory. A matter of this rank alone: the others need not know.
#pragma once

#include <string>
#include <vector>

#include "run/arguments.hpp"
#include "run/cuda_driver.hpp"
#include "run/staged_rows.hpp"
#include "run/staging_memory.hpp"

namespace tapa {

/// The name of a buffer of which a block that has any bytes lies in a device's memory; null: none does.
/// Arguments need not be right: what is wrong is left to those that check. `ranks`: peers on each side.
[[nodiscard]] const char* buffer_on_device(const Arguments& arguments, int ranks);

class StagedCall {
 public:
  /// Makes room for the blocks. Types, counts and displacements are not needed any more when it has returned.
  /// Precondition: checked arguments. Throws CallError, CudaError, std::bad_alloc.
  StagedCall(const Arguments& arguments, int ranks, CudaDriver& driver);

  /// The call on host memory: as it was made but for buffers. Needs the caller's arrays and types.
  [[nodiscard]] const Arguments& arguments() const { return staged_; }

  /// Copies to the host what the call reads, and waits for it: before each run. What the program's kernels
  /// have written there before the call is there, if the program has waited for them, as MPI asks.
  void fetch();
  /// Copies to the device what the call has received, no other byte, and waits for it: after each run.
  void put_back();
  /// Either of them; returns MPI's code, and in `message` what went wrong.
  [[nodiscard]] int try_copy(void (StagedCall::*way)(), std::string& message) noexcept;

 private:
  /// Rows of a block, at both places.
  struct Piece {
    std::byte* device;
    std::byte* host;
    std::size_t bytes;
    std::size_t rows;
    std::size_t pitch;
    CudaMemory memory;  ///< of the device's side; not on_device: it is host memory too
  };
  struct Image {
    StagingMemory memory;
    std::vector<Piece> pieces;
  };
  struct Placed;
  static std::vector<Placed> place(const Arguments& a, const Side& side, int ranks, CudaDriver& driver);
  const void* make_image(const std::vector<Placed>& blocks, const void* buffer, Image& image);
  void cut_to_sent(std::vector<Placed>& blocks);
  void copy(const Image& image, bool to_device);

  CudaDriver& driver_;
  Arguments staged_;
  Image send_;
  Image recv_;
  bool reads_recv_ = false;
};

}  // namespace tapa
