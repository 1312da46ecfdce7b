/// @file
/// The ranks of one node that exchange device buffers: their regions, mapped by all, and the calls.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/agreement.hpp"
#include "device/blocks.hpp"
#include "device/call.hpp"
#include "device/cuda_objects.hpp"
#include "device/device_error.hpp"
#include "device/windows.hpp"

namespace tapa::device {

/// Sizes and places of the blocks of one call, as its arguments give them.
struct Layout {
  std::span<const std::size_t> send_bytes, send_displs, receive_bytes, receive_displs;
};

class Communicator {
 public:
  /// Collective, in a step of Agreement::together(). Throws DeviceError.
  Communicator(const Agreement& agreement, const TAPA_Device_options& options);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Collective, local after a failure.
  ~Communicator();

  [[nodiscard]] int size() const { return agreement_.size(); }
  [[nodiscard]] int rank() const { return agreement_.rank(); }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] Windows& windows() { return *windows_; }

  /// See Agreement::together(): of the ranks of all nodes.
  template <class Step>
  void together(const Step& step) const {
    agreement_.together(step);
  }

  /// Puts an all-to-all on a stream. Throws DeviceError.
  void alltoall(const void* send, void* receive, std::size_t bytes, cudaStream_t stream);
  void alltoallv(const void* send, void* receive, const Layout& layout, cudaStream_t stream);
  void alltoall_strided(const void* send, void* receive, const StridedLayout& layout, cudaStream_t stream);

  /// Stores of the caller's kernels into a window. Throws DeviceError.
  void begin_stores(int window, cudaStream_t stream);
  void end_stores(int window, cudaStream_t stream);
  /// Throws DeviceError between begin_stores() and end_stores().
  void require_no_stores() const;

  /// Throws DeviceError when a call has failed on the device. `rank`: the one that did not arrive, or -1.
  void check_failure(int& rank) const;
  void check_failure() const;
  [[nodiscard]] bool has_failed() const;

  /// In device memory: whether a call has failed. What fails elsewhere on this rank is noted there too, so
  /// that nothing more is written to other ranks.
  [[nodiscard]] LocalState* state() const;
  /// Others are not waited for when this is destroyed: something else has failed.
  void abandon() {
    abandoned_ = true;
    if (parted_well_) parted_well_ = false;
  }
  /// A call could not be put on its stream: later ones return that, with its code, and the other ranks are
  /// told, who wait for it.
  void break_down(const DeviceError& why) noexcept;
  /// As new, after failures: collective. Throws DeviceError.
  void restart();
  /// Nothing is put on streams any more: waits for the device, tells the other ranks whether this one has
  /// seen an error, and, if not, waits for them to do the same, as long as for a call. False: one has, or did
  /// not come, which a line on stderr says, and no rank is to be waited for. Does all that once. Throws
  /// DeviceError.
  [[nodiscard]] bool part();

 private:
  void tell(int peer, Teardown teardown);
  void agree_on_tuning(const TAPA_Device_options& options, int multiprocessors);
  void map_regions();
  void begin_region();
  [[nodiscard]] bool by_copy_engines(std::size_t bytes, Target target) const;
  void launch_copies(Call& call, Target target, cudaStream_t stream);
  /// A call without blocks.
  template <class CallType>
  [[nodiscard]] CallType new_call() const;

  Agreement agreement_;
  std::vector<int> names_;  ///< what the caller calls the ranks
  int device_ = -1;
  CallHead head_{};  ///< what all calls have in common
  double timeout_ = 0;
  std::size_t copy_from_ = 0;  ///< bytes of the shortest block that copy engines move
  std::optional<DeviceMemory> region_;
  std::optional<LastingMemory> failure_;
  std::optional<Windows> windows_;
  std::optional<SideStreams> side_streams_;
  std::vector<std::optional<Import>> imports_;
  std::optional<int> storing_;  ///< the window of begin_stores() without end_stores()
  bool complete_ = false;
  bool abandoned_ = false;
  std::optional<DeviceError> broken_;  ///< why no more calls can be made
  std::optional<bool> parted_well_;    ///< what part() has found
};

}  // namespace tapa::device
