#include "wire/device/code_launcher.hpp"

#include <algorithm>

namespace dit {

void CodeQueue::add(CodeWork work, LaneFormat format, const CodeJob& job) {
  if (job.segments == 0) {
    return;
  }
  const bool remembers = job.memory.value != nullptr;
  auto found = std::find_if(batches_.begin(), batches_.end(), [&](const Batch& batch) {
    return batch.work == work && batch.format == format && batch.remembers == remembers &&
           batch.jobs.count < kMostJobs;
  });
  if (found == batches_.end()) {
    found = batches_.insert(found, Batch{work, format, remembers, {}});
  }
  CodeJobs& jobs = found->jobs;
  jobs.job[jobs.count] = job;
  jobs.job[jobs.count].first_segment = jobs.segments;
  jobs.segments += job.segments;
  ++jobs.count;
}

void CodeQueue::launch(CodeLauncher& launcher, void* stream) {
  for (const Batch& batch : batches_) {
    launcher.launch(batch.work, batch.format, batch.remembers, batch.jobs, stream);
  }
  batches_.clear();
}

}  // namespace dit
