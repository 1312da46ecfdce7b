/// @file
/// CUDA's driver as the program has loaded it: what memory an address is of, copies between it and the host.
/// No CUDA header, nothing linked: the driver's functions are looked up in the program's own library. Knows
/// no MPI.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace tapa {

/// A call of the driver that failed.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using CudaContext = void*;
using CudaStream = void*;

/// What the driver knows of the memory at an address. All zero but `device` for memory that is none of its.
struct CudaMemory {
  bool on_device = false;         ///< the device's alone: neither managed nor the host's
  int device = -1;                ///< its number; -1: none
  CudaContext context = nullptr;  ///< null: of none, as memory of pools
  std::uint64_t buffer = 0;       ///< names the allocation; a later one never has the same
  std::uintptr_t base = 0;        ///< where the allocation begins
  std::size_t bytes = 0;          ///< its length
  bool shareable = false;         ///< other processes can open it by a handle of CUDA IPC

  /// Whether an address is of the same allocation.
  [[nodiscard]] bool holds(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return on_device && at >= base && at - base < bytes;
  }
};

/// Thread-safe.
class CudaDriver {
 public:
  /// `library`: a handle of dlopen(), kept for good.
  explicit CudaDriver(void* library);
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  /// Whether the program has initialised it.
  [[nodiscard]] bool initialised() const;
  /// Whether an address is of a device's memory, as CudaMemory::on_device.
  [[nodiscard]] bool owns(const void* address) const;
  /// Whether all functions are there that copies need.
  [[nodiscard]] bool can_copy() const;
  [[nodiscard]] CudaMemory memory(const void* address) const;
  /// The same; sooner when the memory is still that of `known`.
  [[nodiscard]] CudaMemory memory(const void* address, const CudaMemory& known) const;

  /// What the program has copied to `memory` before is there, and from now on it is when its copies return: a
  /// copy of some KiB from memory that is not pinned returns before, and only streams of the program's wait
  /// for it. For all memory that is to be read. Cheap for memory that was seen lately. No error: what comes
  /// after it has that.
  void settle(const CudaMemory& memory);

  /// Lets devices reach memory of the host, so that copies are fast; false when that cannot be.
  [[nodiscard]] bool pin(const CudaMemory& near, void* memory, std::size_t bytes);
  void unpin(void* memory);
  /// Memory of the device on which `near` lies. Throws CudaError.
  [[nodiscard]] void* allocate_device(const CudaMemory& near, std::size_t bytes);
  void free_device(const CudaMemory& near, void* memory);

  /// Puts a copy of `rows` rows of `bytes` bytes each on the stream of all copies beside `near`; wait() waits
  /// for all that is on it. `to` and `from` are of the host or of any device. Throw CudaError.
  struct Rows {
    std::byte* to;
    std::size_t to_pitch;
    const std::byte* from;
    std::size_t from_pitch;
    std::size_t bytes;
    std::size_t rows;
  };
  void copy(const CudaMemory& near, const Rows& rows);
  void wait(const CudaMemory& near);
  /// The same on a stream of the current context.
  void copy(CudaStream stream, const Rows& rows);
  void wait(CudaStream stream);
  /// A new stream of the context of `near`; it waits for no other stream, and no other for it. For what waits
  /// for other ranks: nothing else may stand behind that.
  [[nodiscard]] CudaStream make_stream(const CudaMemory& near);
  void end_stream(const CudaMemory& near, CudaStream stream);

  /// The context of memory is this thread's while it lives.
  class Current {
   public:
    Current(CudaDriver& driver, const CudaMemory& near);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    CudaDriver& driver_;
  };

 private:
  struct Functions;
  void check(int code, const char* call) const;
  [[nodiscard]] CudaContext context_of(const CudaMemory& memory);
  [[nodiscard]] CudaStream copy_stream(const CudaMemory& near);
  void wait_for_default_streams() const;
  template <class Work>
  void on_stream(const CudaMemory& near, const Work& work);

  std::shared_ptr<const Functions> call_;
  std::mutex mutex_;
  std::map<int, CudaContext> primary_;         // contexts of devices, for memory of none
  std::map<CudaContext, CudaStream> streams_;  // of copies
  std::array<std::uint64_t, 64> settled_{};    // allocations, the last ones
  std::size_t next_settled_ = 0;
};

}  // namespace tapa
