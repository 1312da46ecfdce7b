// The run of an operation: packing, the executor or MPI, unpacking, checksums, explanation.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "comm/names.hpp"
#include "comm/operation.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/mpi_bytes.hpp"
#include "run/mpi_call.hpp"
#include "run/private_comm.hpp"
#include "run/progress.hpp"

namespace tapa {

namespace {

constexpr int kSumsTag = 3;
constexpr int kPlanTags = 6;  // the plan's channels begin here
constexpr std::size_t kAlign = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
std::size_t checksum(const std::byte* data, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3ULL;
  return hash;
}

std::string microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  return text;
}

}  // namespace

void Operation::start() {
  stage_ = Stage::launch;
  code_ = MPI_SUCCESS;
  message_.clear();
  started_ = PMPI_Wtime();
  warned_ = 0;
}

// Blocks that are not dense are packed once into staging, or will be unpacked from it.
void Operation::stage_blocks() {
  std::size_t total = 0;
  for (const Block& b : exchange_.send) total += exchange_.overlaps || !b.dense() ? aligned(b.bytes) : 0;
  for (const Block& b : exchange_.recv) total += b.dense() ? 0 : aligned(b.bytes);
  if (total > staging_size_) {
    staging_ = std::make_unique_for_overwrite<std::byte[]>(total);
    staging_size_ = total;
  }
  staged_ = true;
  std::byte* next = staging_.get();
  const auto take = [&](std::size_t bytes) { return std::exchange(next, next + aligned(bytes)); };
  send_.clear();
  recv_.clear();
  for (const Block& b : exchange_.send) {
    const bool direct = b.dense() && !exchange_.overlaps;
    send_.push_back(direct ? b.data : take(b.bytes));
    if (!direct && b.bytes > 0) gather_block(b, const_cast<std::byte*>(send_.back()), alone_comm());
  }
  for (const Block& b : exchange_.recv) {
    recv_.push_back(b.dense() ? b.data : take(b.bytes));
    // What is shorter than expected leaves the rest of the receiver's memory as it is.
    if (!b.dense() && b.bytes > 0 && !exchange_.uniform) gather_block(b, recv_.back(), alone_comm());
  }
}

/// False: not yet.
bool Operation::launch() {
  staged_ = false;
  if (buffers_ != nullptr) {
    if (!launch_memory()) return false;
  } else if (entry_->plan == nullptr) {
    stage_ = Stage::mpi;
  } else {
    launch_plan();
  }
  leave_queue();
  return true;
}

void Operation::launch_plan() {
  if (entry_->plan->channels > tags_.count - kPlanTags) {
    throw CallError(MPI_ERR_INTERN, "plan " + entry_->text + " needs " +
                                        std::to_string(entry_->plan->channels) + " tags, expected at most " +
                                        std::to_string(tags_.count - kPlanTags));
  }
  if (sample_is_due()) sample_mpi();
  stage_blocks();
  if (options_->settings().check == Check::data) start_sums();
  if (!executor_) executor_ = state_->take_executor(*entry_);
  executor_->bind(send_, recv_);
  executor_->start(tags_.first + kPlanTags);
  stage_ = Stage::running;
}

bool Operation::step_running(bool block) {
  if (executor_ ? !executor_->progress(block) : !step_memory(block)) return false;
  if (!executor_ && compares() && !shm_exchange_.sizes_agree()) {
    judging_ = true;
    after_arrivals();
    return true;
  }
  if (options_->settings().check == Check::data) {
    stage_ = Stage::sums;
  } else {
    finish();
  }
  return true;
}

void Operation::start_sums() {
  outgoing_.clear();
  for (const int peer : others()) {
    const auto at = static_cast<std::size_t>(peer);
    outgoing_.push_back(checksum(send_[at], exchange_.send[at].bytes));
  }
  sums_.start(state_->space(), tags_.first + kSumsTag, others(), 1, outgoing_, false);
}

void Operation::check_sums() {
  for (std::size_t i = 0; i < sums_.members().size(); ++i) {
    const int peer = sums_.members()[i];
    const auto at = static_cast<std::size_t>(peer);
    const std::size_t arrived = checksum(recv_[at], exchange_.recv[at].bytes);
    const std::size_t sent = sums_.from(i)[0];
    if (arrived == sent) continue;
    char text[160];
    std::snprintf(text, sizeof text,
                  "the %zu bytes from rank %d to rank %d have checksum %016zx, expected %016zx",
                  exchange_.recv[at].bytes, peer, state_->rank(), arrived, sent);
    throw CallError(MPI_ERR_OTHER, text);
  }
}

void Operation::finish() {
  if (staged_) {
    for (std::size_t s = 0; s < exchange_.recv.size(); ++s) {
      const Block& block = exchange_.recv[s];
      if (!block.dense() && block.bytes > 0) scatter_block(recv_[s], block, alone_comm());
    }
  }
  leave_queue();
  stage_ = Stage::finished;
  if (!entry_) return;
  tell_probe();
  const Settings& settings = options_->settings();
  if (settings.explain) explain_run();
  if (settings.report != Reporting::off) report_run();
}

/// Tells the autotuner how long a probe took, also when it failed: all ranks stay in step.
void Operation::tell_probe() {
  if (mode_ == Mode::blocking && !exchange_.uniform && entry_) note_blocks();
  if (!tried_) return;
  std::uint64_t sent = 0;
  for (const Block& block : exchange_.send) sent += block.bytes;
  state_->record_probe(*std::exchange(tried_, std::nullopt), PMPI_Wtime() - started_, sent);
}

/// Tells what the next call with blocks of different sizes goes by.
void Operation::note_blocks() {
  if (!exchange_tells_mean()) return;
  if (buffers_ != nullptr) state_->parts()->mean.note(shm_exchange_.total_bytes(), state_->size());
  if (entry_->choice.algorithm == Algorithm::mpi) state_->parts()->mean.note(std::nullopt, state_->size());
}

std::string explanation(const PlanEntry& entry, const char* function, int ranks, double seconds) {
  std::string line = name_here(function) + ", " + std::to_string(ranks) + " ranks, " +
                     std::to_string(entry.bytes) + " B per pair: " + entry.text + " (" + entry.why + ")";
  if (entry.predicted > 0) line += ", predicted " + microseconds(entry.predicted);
  return line + ", first run " + microseconds(seconds);
}

void Operation::explain_run() {
  if (state_->rank() != 0 || entry_->explained.exchange(true)) return;
  print_line(explanation(*entry_, function_, state_->size(), PMPI_Wtime() - started_));
}

void complete(Operation& operation) {
  using namespace std::chrono_literals;
  constexpr int drive_every = 4;  // advances: those that wait for memory, or for their turn, do not call MPI
  for (int idle = 1; !operation.advance(operation.may_block()); ++idle) {
    Progress::relay();
    if (idle % drive_every == 0) operation.state()->waiter().drive_mpi();
    switch (operation.wait_mode()) {
      case Wait::yield:
        sched_yield();
        break;
      case Wait::sleep:
        std::this_thread::sleep_for(20us);
        break;
      default:
        break;
    }
  }
}

Wait Operation::wait_mode() const {
  const Wait wait = options_->settings().wait;
  if (wait != Wait::automatic) return wait;
  return state_->oversubscribed() ? Wait::yield : Wait::spin;
}

bool Operation::may_block() const {
  return timeout() <= 0;
}

}  // namespace tapa
