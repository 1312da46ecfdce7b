/// What starts the device codecs: on a device, or where tests want it.
#pragma once

#include <utility>
#include <vector>

#include "wire/device/block_jobs.hpp"
#include "wire/device/loss_lanes.hpp"
#include "wire/device/row_choice.hpp"

namespace dit {

class CodeLauncher {
 public:
  virtual ~CodeLauncher() = default;
  /// After what is in the stream; does not wait. Throws std::runtime_error when it cannot be started.
  virtual void launch(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
                      void* stream) = 0;
  virtual void launch(RowWork work, const RowChoices& choices, void* stream) = 0;
  virtual void launch(const LossJobs& losses, void* stream) = 0;
};

/// One job more; there is room for it.
void append(CodeJobs& jobs, const CodeJob& job);

/// Jobs that do not depend on each other, as few launches as can be.
class CodeQueue {
 public:
  void add(CodeWork work, LaneFormat format, const CodeJob& job);
  /// Before the jobs, in the order in which they are added. `first`: measure (then rows are chosen and told),
  /// read (then chosen), compare (then chosen and kept) or write, of rows that were chosen before.
  void add(RowWork first, const RowChoice& choice);
  /// Empties the queue.
  void launch(CodeLauncher& launcher, void* stream);

 private:
  struct Batch {
    CodeWork work;
    LaneFormat format;
    bool remembers;
    CodeJobs jobs;
  };
  void launch_rows(CodeLauncher& launcher, void* stream);

  std::vector<Batch> batches_;
  std::vector<std::pair<RowWork, RowChoices>> choices_;
};

}  // namespace dit
