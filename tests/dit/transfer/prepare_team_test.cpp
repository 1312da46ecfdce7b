// Teams of lanes, here threads: the bits of the host's path, whose order of sums prepare.hpp promises.
#include "transfer/device/prepare_team.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include "prepare_job.hpp"

namespace dit {
namespace {

using test::all_settings;
using test::Job;
using test::Setting;

struct Shared {
  explicit Shared(int lanes) : values(static_cast<std::size_t>(lanes)), all(lanes) {}
  std::vector<float> values;
  std::barrier<> all;
};

// What lanes of a warp get by a shuffle.
class ThreadTeam {
 public:
  ThreadTeam(Shared& shared, int lane) : shared_(shared), lane_(lane) {}
  [[nodiscard]] int lane() const { return lane_; }
  [[nodiscard]] float across(float value, int distance) const {
    shared_.values[static_cast<std::size_t>(lane_)] = value;
    shared_.all.arrive_and_wait();
    const float other = shared_.values[static_cast<std::size_t>(lane_ ^ distance)];
    shared_.all.arrive_and_wait();
    return other;
  }

 private:
  Shared& shared_;
  int lane_;
};

template <class Element, int lanes>
void run_by_threads(const PrepareJob& job) {
  Shared shared(lanes);
  const int units = job.samples * job.rows * units_of_token(job);
  std::vector<std::jthread> threads;
  for (int lane = 0; lane < lanes; ++lane)
    threads.emplace_back([&, lane] {
      const ThreadTeam team(shared, lane);
      for (int unit = 0; unit < units; ++unit) TeamUnit<Element, lanes, ThreadTeam>(job, team, unit).run();
    });
}

template <class Element>
void run_by_team(const PrepareJob& job) {
  constexpr int whole = static_cast<int>(128 * sizeof(Element) / 16);
  const int lanes = team_lanes(job, sizeof(Element));
  ASSERT_EQ(lanes, job.head_dim * static_cast<int>(sizeof(Element)) / 16);
  if (lanes == whole) return run_by_threads<Element, whole>(job);
  if (lanes == whole / 2) return run_by_threads<Element, whole / 2>(job);
  ASSERT_EQ(lanes, whole / 4);
  run_by_threads<Element, whole / 4>(job);
}

std::vector<Setting> settings_of_teams() {
  std::vector<Setting> settings;
  for (const int dim : {32, 64, 128})
    for (const int heads : {1, 5, 13})  // less than a unit of heads, and more than two
      for (const Norm norm : {Norm::none, Norm::head, Norm::token})
        for (const Rope rope : {Rope::none, Rope::interleaved, Rope::halves})
          for (const bool own : {false, true})
            settings.push_back({2, 4, heads, dim, norm, rope, heads == 5, heads != 13, own});
  return settings;
}

template <class Element>
void check_bits() {
  for (const Setting& setting : settings_of_teams()) {
    Job<Element> host(setting), team(setting);
    host.run();
    run_by_team<Element>(team.job());
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    EXPECT_EQ(std::memcmp(host.target().data(), team.target().data(), host.target().size() * sizeof(Element)),
              0)
        << setting.heads << " heads of " << setting.head_dim << ", norm " << static_cast<int>(setting.norm)
        << ", RoPE " << static_cast<int>(setting.rope);
  }
}

TEST(PrepareTeam, HasTheBitsOfTheHost) {
  check_bits<Bf16>();
  check_bits<Fp16>();
  check_bits<float>();
}

// Two ranks, text and image apart, and heads that two ranks want.
TEST(PrepareTeam, PartsTakeTheirRowsAndHeads) {
  const Setting setting{2, 5, 8, 64, Norm::head, Rope::interleaved, true, true};
  const auto parted = [&](auto& job, std::vector<Bf16>& memory) {
    memory.assign(2 * 5 * 8 * 64 * 2, Bf16{0x1234});
    PrepareJob& how = job.job();
    how.parts = 3;
    how.part[0] = {memory.data(), 5 * 512, 512, 64, 0, 5, 0, 3};
    how.part[1] = {memory.data() + 256, 5 * 512, 512, 64, 1, 3, 2, 5};
    how.part[2] = {memory.data() + 5120, 5 * 512, 512, 64, 3, 5, 7, 8};
  };
  std::vector<Bf16> right, given;
  Job<Bf16> host(setting), team(setting);
  parted(host, right);
  parted(team, given);
  host.run();
  run_by_team<Bf16>(team.job());
  EXPECT_EQ(std::memcmp(right.data(), given.data(), right.size() * sizeof(Bf16)), 0);
}

TEST(PrepareTeam, IsForRowsOfSixteenBytes) {
  Job<Bf16> job({1, 5, 3, 64, Norm::head, Rope::none, true, true});
  EXPECT_EQ(team_lanes(job.job(), sizeof(Bf16)), 8);
  PrepareJob apart = job.job();
  apart.row += 4;
  EXPECT_EQ(team_lanes(apart, sizeof(Bf16)), 0);
  apart = job.job();
  apart.part[0].target = job.target().data() + 4;
  EXPECT_EQ(team_lanes(apart, sizeof(Bf16)), 0);
  EXPECT_TRUE(is_wide(apart, sizeof(Bf16)));
  apart = job.job();
  apart.cosine += 1;
  EXPECT_EQ(team_lanes(apart, sizeof(Bf16)), 0);
  apart = job.job();
  apart.head_dim = 96;
  EXPECT_EQ(team_lanes(apart, sizeof(Bf16)), 0);
  apart = job.job();
  apart.samples = apart.rows = 1 << 16;
  EXPECT_EQ(team_lanes(apart, sizeof(Bf16)), 0);
}

}  // namespace
}  // namespace dit
