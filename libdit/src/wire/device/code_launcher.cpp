#include "wire/device/code_launcher.hpp"

#include <algorithm>

namespace dit {

void append(CodeJobs& jobs, const CodeJob& job) {
  jobs.job[jobs.count] = job;
  jobs.job[jobs.count].first_segment = jobs.segments;
  jobs.segments += job.segments;
  ++jobs.count;
}

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
  append(found->jobs, job);
}

void CodeQueue::add(RowWork work, const RowChoice& choice) {
  if (choices_.empty() || choices_.back().first != work || choices_.back().second.count == kMostChoices) {
    choices_.push_back({work, {}});
  }
  RowChoices& choices = choices_.back().second;
  choices.choice[choices.count] = choice;
  ++choices.count;
}

void CodeQueue::launch_rows(CodeLauncher& launcher, void* stream) {
  for (const auto& [first, choices] : choices_) {
    launcher.launch(first, choices, stream);
    if (first != RowWork::write) {
      launcher.launch(RowWork::choose, choices, stream);
    }
    if (first == RowWork::measure) {
      launcher.launch(RowWork::write, choices, stream);
    } else if (first == RowWork::compare) {
      launcher.launch(RowWork::keep, choices, stream);
    }
  }
  choices_.clear();
}

void CodeQueue::launch(CodeLauncher& launcher, void* stream) {
  launch_rows(launcher, stream);
  for (const Batch& batch : batches_) {
    launcher.launch(batch.work, batch.format, batch.remembers, batch.jobs, stream);
  }
  batches_.clear();
}

}  // namespace dit
