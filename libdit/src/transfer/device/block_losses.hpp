/// What encodings on a device leave behind: summed there, told to the host.
#pragma once

#include <cstddef>
#include <vector>

#include "transfer/transfer_memory.hpp"
#include "wire/device/code_launcher.hpp"

namespace dit {

class BlockLosses {
 public:
  /// Of at most `blocks` blocks at once. `memory` and `launcher`: the device's; they outlive this.
  BlockLosses(std::size_t blocks, const TransferMemory& memory, CodeLauncher& launcher)
      : blocks_(blocks), memory_(memory), launcher_(launcher) {}

  /// All rows of a block, and what is remembered of them.
  void add(const CodeJob& job);
  /// Those that were added, after what is in the stream; does not wait.
  void launch(void* stream);
  /// The sum of what was launched since the last time, in the order in which it was added. Waits for the
  /// stream.
  [[nodiscard]] BlockLoss take(void* stream);

 private:
  std::size_t blocks_;
  const TransferMemory& memory_;
  CodeLauncher& launcher_;
  std::vector<CodeJobs> batches_;
  TransferBuffer segments_, on_host_;
  std::size_t count_ = 0;  // of blocks that are told or will be
};

}  // namespace dit
