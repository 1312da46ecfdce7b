/// What starts the device codecs: on a device, or where tests want it.
#pragma once

#include <vector>

#include "wire/device/block_jobs.hpp"

namespace dit {

class CodeLauncher {
 public:
  virtual ~CodeLauncher() = default;
  /// After what is in the stream; does not wait. Throws std::runtime_error when it cannot be started.
  virtual void launch(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
                      void* stream) = 0;
};

/// Jobs that do not depend on each other, as few launches as can be.
class CodeQueue {
 public:
  void add(CodeWork work, LaneFormat format, const CodeJob& job);
  /// Empties the queue.
  void launch(CodeLauncher& launcher, void* stream);

 private:
  struct Batch {
    CodeWork work;
    LaneFormat format;
    bool remembers;
    CodeJobs jobs;
  };
  std::vector<Batch> batches_;
};

}  // namespace dit
