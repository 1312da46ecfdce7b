/// @file
/// A wire of NCCL's sends and receives, which knows the network's way into device memory. With each message
/// goes a token (tokens.hpp), so that nobody takes the bytes of a rank that has failed for good ones. A
/// thread of the host ends an exchange that takes longer than the time-out, or of which NCCL says that it
/// failed.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/agreement.hpp"
#include "device/cuda_objects.hpp"
#include "device/lane_kernels.hpp"
#include "device/nccl_library.hpp"
#include "device/wire.hpp"

namespace tapa::device {

class NcclWire final : public Wire {
 public:
  /// On the current device; collective, and sends to all `peers` (ranks of other nodes) once, as NCCL
  /// connects ranks when they first send. `timeout`: nanoseconds. Throws DeviceError, on all ranks alike.
  NcclWire(const Agreement& agreement, const std::vector<int>& peers, std::unique_ptr<NcclLibrary> library,
           LocalState* state, Word timeout);
  ~NcclWire() override;

  [[nodiscard]] std::string describe() const override { return "nccl " + library_->version(); }
  void exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                cudaStream_t stream) override;
  [[nodiscard]] unsigned long long missing(int rank) const override;
  [[nodiscard]] std::string failure() const override;
  void abandon() override;
  void finish(bool) override {}  // its thread only looks on

 private:
  void join(const Agreement& agreement);
  void watch();
  [[nodiscard]] bool has_error();
  [[nodiscard]] bool is_aborted() const;
  [[nodiscard]] Word* words() const { return static_cast<Word*>(words_.get()); }

  std::unique_ptr<NcclLibrary> library_;
  LastingMemory words_;  ///< begun, ended, missing of each rank
  DeviceMemory own_, tokens_;
  Tokens common_{};
  Word timeout_;
  int device_ = -1;
  NcclCommunicator* communicator_ = nullptr;
  std::atomic<bool> stop_ = false;
  std::atomic<Word> longest_ = 0;  ///< bytes of an exchange, both ways
  int process_ = getpid();
  mutable std::mutex mutex_;  ///< guards what ends the communicator
  bool aborted_ = false;
  std::atomic<int> error_ = 0;  ///< NCCL's, beside its calls
  std::thread watchman_;
};

}  // namespace tapa::device
