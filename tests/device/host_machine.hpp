/// @file
/// Ranks of the host that run all-to-alls with HostTeam: their regions, windows, and launches.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "host_team.hpp"
#include "kept_threads.hpp"

namespace tapa::device {

/// What HostMachine::run() needs to know of a launch.
struct LaunchStyle {
  int lanes = 1;
  int delays = 0;
  unsigned seed = 1;
};

class HostMachine {
 public:
  HostMachine(int size, const Tuning& tuning) : region_{size, tuning} {
    const Word units = divide_up(region_.bytes(), sizeof(Unit));
    for (int rank = 0; rank < size; ++rank) {
      regions_.push_back(std::make_unique<Unit[]>(units));
      local(rank).sequence = 1;
    }
    windows_.assign(static_cast<std::size_t>(kMaxRanks) * 8, nullptr);
    failures_.resize(static_cast<std::size_t>(size));
  }

  [[nodiscard]] const Region& region() const { return region_; }
  [[nodiscard]] RegionView view(int rank) const { return {base(rank), region_}; }
  [[nodiscard]] LocalState& local(int rank) const { return view(rank).local(); }
  [[nodiscard]] const Failure& failure(int rank) const { return failures_[static_cast<std::size_t>(rank)]; }
  /// Window `window` of a rank, 0 to 7.
  std::byte*& window(Word window, int rank) { return windows_[window * kMaxRanks + static_cast<Word>(rank)]; }

  /// A call of `rank` without blocks, its data through staging.
  template <class CallType = Call>
  [[nodiscard]] CallType call(int rank, Word timeout = 0) {
    CallType made{};
    made.rank = rank;
    made.region = region_;
    made.timeout = timeout;
    for (int peer = 0; peer < region_.size; ++peer) {
      made.regions[peer] = base(peer);
      made.targets[peer] = pack({});
    }
    made.windows = windows_.data();
    made.failure = &failures_[static_cast<std::size_t>(rank)];
    return made;
  }

  /// Carries out a call of one rank: teams and lanes are threads.
  template <class BlockType>
  static void run(CallOf<BlockType> call, const LaunchStyle& style, Part part = Part::all) {
    call.channels = part == Part::all      ? channels_of_call(call)
                    : part == Part::copies ? channels_beside_copies(call.region)
                                           : 1;
    const int teams = call.channels * call.region.size;
    std::vector<std::unique_ptr<TeamMeeting>> meetings;
    std::vector<KeptThreads::Job> jobs;
    for (int index = 0; index < teams; ++index) {
      TeamMeeting& meeting = *meetings.emplace_back(std::make_unique<TeamMeeting>(style.lanes));
      for (int lane = 0; lane < style.lanes; ++lane) {
        const auto seed = style.seed * 7919U + static_cast<unsigned>(index * style.lanes + lane);
        jobs.emplace_back([&call, &meeting, index, lane, seed, part, delays = style.delays] {
          HostTeam team(meeting, index, lane, seed, delays);
          run_team(team, call, part);
        });
      }
    }
    KeptThreads::run(std::move(jobs));
  }

 private:
  struct alignas(128) Unit {
    std::byte bytes[128];
  };
  [[nodiscard]] std::byte* base(int rank) const { return regions_[static_cast<std::size_t>(rank)][0].bytes; }

  Region region_;
  std::vector<std::unique_ptr<Unit[]>> regions_;
  std::vector<std::byte*> windows_;
  std::vector<Failure> failures_;
};

}  // namespace tapa::device
