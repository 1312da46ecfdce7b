/// @file
/// The pipes of one rank over memory of the host, with threads as teams of the device, for tests of pipes and
/// of what moves their messages.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "device/proxy.hpp"
#include "host_team.hpp"

namespace tapa::device {

class HostPipes {
 public:
  struct Style {
    int channels = 1;
    int lanes = 1;
    int delays = 0;
    Word timeout = 0;
  };
  struct Part {
    std::byte* memory;
    std::size_t bytes;
  };

  /// Pipes to and from all ranks but this one.
  HostPipes(int rank, int ranks, std::size_t chunk, const Style& style, std::unique_ptr<Messenger> messenger)
      : rank_(rank),
        ranks_(ranks),
        chunk_(chunk),
        style_(style),
        missing_(static_cast<std::size_t>(ranks), 0) {
    own_->sequence = 1;
    const std::size_t count = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(style.channels) * 2;
    words_ = std::make_unique<PipeWords[]>(count);
    passed_ = std::make_unique<Word[]>(count);
    slots_.resize(count * kPipeSlots * chunk);
    std::vector<HostPipe> pipes;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      for (int channel = 0; channel < style.channels; ++channel) {
        for (const bool sends : {true, false}) {
          const std::size_t index = index_of(peer, channel, sends);
          pipes.push_back({{peer, channel}, sends, &words_[index], slots(index)});
        }
      }
    }
    proxy_ = std::make_unique<Proxy>(std::move(messenger), std::move(pipes), chunk);
  }

  /// What one rank sends to each other and receives from it. Blocks until it is done, as a kernel does.
  void exchange(std::span<const Part> sends, std::span<const Part> receives, unsigned seed) {
    std::vector<PipeJob> jobs;
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      for (int channel = 0; channel < style_.channels; ++channel) {
        add(jobs, peer, channel, true, sends[static_cast<std::size_t>(peer)]);
        add(jobs, peer, channel, false, receives[static_cast<std::size_t>(peer)]);
      }
    }
    run(jobs, seed);
  }

  [[nodiscard]] Word missing(int peer) const { return missing_[static_cast<std::size_t>(peer)]; }
  /// Chunks that the device has filled for a peer, on the first channel.
  [[nodiscard]] Word filled(int peer) const { return words_[index_of(peer, 0, true)].device; }
  LocalState& state() { return *state_; }
  [[nodiscard]] Proxy& proxy() const { return *proxy_; }

 private:
  [[nodiscard]] std::size_t index_of(int peer, int channel, bool sends) const {
    return static_cast<std::size_t>((peer * style_.channels + channel) * 2 + (sends ? 0 : 1));
  }
  std::byte* slots(std::size_t index) { return slots_.data() + index * kPipeSlots * chunk_; }

  void add(std::vector<PipeJob>& jobs, int peer, int channel, bool sends, const Part& part) {
    const Slice slice = slice_of(part.bytes, channel, style_.channels);
    if (slice.bytes == 0) return;
    const std::size_t index = index_of(peer, channel, sends);
    jobs.push_back({pipe_to_host(words_[index], slots(index), &passed_[index]), part.memory + slice.begin,
                    slice.bytes, &missing_[static_cast<std::size_t>(peer)], sends});
  }

  void run(const std::vector<PipeJob>& jobs, unsigned seed) {
    const PipeTurn turn{chunk_, style_.timeout, state_.get(), own_.get()};
    std::vector<std::unique_ptr<TeamMeeting>> meetings;
    std::vector<std::jthread> threads;
    const int teams = static_cast<int>(jobs.size());
    for (int index = 0; index < teams; ++index) {
      TeamMeeting& meeting = *meetings.emplace_back(std::make_unique<TeamMeeting>(style_.lanes));
      for (int lane = 0; lane < style_.lanes; ++lane) {
        threads.emplace_back([&, index, lane] {
          const auto mixed = seed * 7919U + static_cast<unsigned>(index * style_.lanes + lane);
          HostTeam team(meeting, index, lane, mixed, style_.delays);
          run_pipe(team, turn, jobs[static_cast<std::size_t>(index)], teams);
        });
      }
    }
    threads.clear();
  }

  int rank_;
  int ranks_;
  std::size_t chunk_;
  Style style_;
  std::unique_ptr<PipeWords[]> words_;
  std::unique_ptr<Word[]> passed_;
  std::vector<std::byte> slots_;
  std::vector<Word> missing_;
  // On the heap: the address sanitizer's stack does not align as they ask for.
  std::unique_ptr<LocalState> state_ = std::make_unique<LocalState>();
  std::unique_ptr<LocalState> own_ = std::make_unique<LocalState>();
  std::unique_ptr<Proxy> proxy_;  ///< last: its thread uses the rest
};

}  // namespace tapa::device
