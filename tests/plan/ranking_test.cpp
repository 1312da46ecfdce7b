// Every rank ranks the plans for itself, and all must come to the same: so ranking uses no function whose
// result differs between processors, and what it chooses is kept here for many machines, sizes and
// measurements.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "plan/choose.hpp"
#include "plan/exact.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"

namespace tapa {
namespace {

/// FNV-1a over the chosen plans.
class Digest {
 public:
  void add(const std::string& text) {
    for (const char c : text + "\n") {
      value_ ^= static_cast<unsigned char>(c);
      value_ *= 0x100000001b3U;
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

/// Times of a part of the candidates at a part of the sizes, as a tuning file or probes may have them.
std::vector<Measurement> measured(const Topology& topology, const Rates& rates, unsigned seed) {
  std::mt19937 random(seed);  // its numbers are the standard's
  const auto share = [&] { return static_cast<double>(random() % 1024) / 1024; };
  std::vector<Measurement> list;
  for (const Choice& choice : candidates(topology, {true, true, false})) {
    for (const std::size_t bytes : {16, 700, 4096, 65536}) {
      const double noise = 0.7 + share();
      if (random() % 3 == 0) continue;
      Choice priced = choice;
      if (choice.algorithm == Algorithm::mpi) priced = {};
      list.push_back({choice, bytes, noise * predict(topology, rates, priced, bytes)});
    }
  }
  return list;
}

/// What is chosen on one machine, from predictions alone and with three sets of measurements.
std::uint64_t chosen_on(const Topology& topology) {
  const Rates rates = rates_from(topology);
  Digest digest;
  for (const unsigned seed : {0U, 1U, 2U, 3U}) {
    const std::vector<Measurement> times =
        seed == 0 ? std::vector<Measurement>{} : measured(topology, rates, seed);
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 22; bytes = bytes * 3 / 2 + 1) {
      for (const Offer offer : {Offer{}, Offer{true, true, false}, Offer{true, false, true}}) {
        const auto ranked = rank_candidates(topology, rates, times, bytes, offer);
        digest.add(to_string(ranked.front().choice));
      }
    }
  }
  return digest.value();
}

struct Case {
  const char* machine;
  int ranks;
  Placement placement;
  std::uint64_t choices;
};

// Who changes the cost model or the candidates on purpose takes over what the test prints.
TEST(Ranking, ChoosesTheSameAsEver) {
  for (const Case& c : {
           Case{"2x2", 4, Placement::block, 0x43e592e6c1834b54U},
           Case{"4x4", 16, Placement::block, 0x82afd3c53180f881U},
           Case{"1x31", 31, Placement::block, 0xf73deebc81403802U},
           Case{"8x2x4", 64, Placement::block, 0x21fbfcb14e1f25deU},
           Case{"16x8", 128, Placement::block, 0x6580ab250f482b15U},
           Case{"aurora", 96, Placement::block, 0xbd37256059863dfcU},
           Case{"aurora", 41, Placement::round_robin, 0x3243fe89fb067647U},
           Case{"frontier", 64, Placement::block, 0x4542e6e3dff42f78U},
           Case{"polaris", 30, Placement::block, 0x6cdbd3cef63b6d68U},
           Case{"hgx-h100", 32, Placement::round_robin, 0xb4a5a547e12d2935U},
           Case{"cpu-2socket", 112, Placement::block, 0x114db690a8394aacU},
       }) {
    const bool factors = c.machine[0] >= '0' && c.machine[0] <= '9';
    const Topology topology = factors ? make_uniform_topology(parse_factors(c.machine))
                                      : load_topology(c.machine, c.ranks, c.placement);
    ASSERT_EQ(topology.ranks, c.ranks) << c.machine;
    const std::uint64_t choices = chosen_on(topology);
    EXPECT_EQ(choices, c.choices) << c.machine << " " << c.ranks << std::hex << " 0x" << choices;
  }
}

TEST(Exact, LogarithmAndItsInverse) {
  for (int step = -120; step <= 120; ++step) {
    const double x = std::pow(1.26, step);
    EXPECT_NEAR(binary_logarithm(x), std::log2(x), 4e-15 * std::max(1.0, std::abs(std::log2(x)))) << x;
    EXPECT_NEAR(power_of_two(binary_logarithm(x)) / x, 1, 3e-14) << x;
  }
  for (int step = -347; step <= 347; ++step) {
    const double x = 0.173 * step;
    EXPECT_NEAR(power_of_two(x) / std::exp2(x), 1, 1e-15) << x;
  }
  for (int power = -40; power <= 40; ++power) {
    EXPECT_EQ(binary_logarithm(std::ldexp(1.0, power)), power);
    EXPECT_EQ(power_of_two(power), std::ldexp(1.0, power));
  }
}

TEST(Exact, Roots) {
  EXPECT_EQ(root_above(1, 2), 1);
  EXPECT_EQ(root_above(16, 2), 4);
  EXPECT_EQ(root_above(17, 2), 5);
  EXPECT_EQ(root_above(27, 3), 3);
  EXPECT_EQ(root_above(28, 3), 4);
  EXPECT_EQ(root_above(1 << 20, 2), 1 << 10);
  EXPECT_EQ(root_above(1 << 20, 3), 102);
}

}  // namespace
}  // namespace tapa
