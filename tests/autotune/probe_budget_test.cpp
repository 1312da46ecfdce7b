// What a program loses to probing, at whichever call it stops, with times made up.
#include "autotune/probe_budget.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "autotune/autotuning.hpp"

namespace tapa {
namespace {

/// Plans of which MPI is the second, as Autotuner lists them.
std::vector<Choice> choices(std::size_t count) {
  const std::vector<std::string> names{"linear", "mpi", "pairwise", "bruck:radix=2"};
  std::vector<Choice> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back(parse_choice(names[i]));
  return list;
}

constexpr std::size_t kMpi = 1;

/// A machine: what the plans take on average, and how much that varies.
struct Machine {
  std::vector<double> seconds;              // of each plan
  double making = 0;                        // more in a plan's first call
  double noise = 0;                         // share
  double disturbance = 0;                   // seconds, in one call of a hundred of any plan
  double agreeing = Autotuning::kAgreeing;  // what it takes at most
};

/// A program that makes calls of one size, beside the same one with MPI alone.
class Program {
 public:
  Program(Machine machine, ProbeBudget& budget, unsigned seed)
      : machine_(std::move(machine)),
        agreeing_(std::min(machine_.seconds[kMpi], machine_.agreeing)),
        choices_(choices(machine_.seconds.size())),
        called_(choices_.size()),
        tuning_(choices_, budget),
        random_(seed) {}

  /// Makes a call; the ranks agree first when a round is over.
  void call() {
    if (tuning_.round_over()) {
      tuning_.end_round();
      ours_ += agreeing_;
    }
    const bool probes = !tuning_.complete() && !tuning_.resting();
    const Choice& choice = tuning_.complete() ? choices_[tuning_.ranking().front()] : tuning_.next();
    const auto plan = static_cast<std::size_t>(std::ranges::find(choices_, choice) - choices_.begin());
    const double luck = 1 + machine_.noise * std::normal_distribution<double>()(random_);
    const double more = random_() % 100 == 0 ? machine_.disturbance : 0;
    const double factor = std::max(luck, 0.5);
    const double first = called_[plan]++ == 0 && plan != kMpi ? machine_.making : 0;
    const double seconds = factor * machine_.seconds[plan] + more + first;
    ours_ += seconds;
    mpis_ += factor * machine_.seconds[kMpi] + more;
    if (probes) {
      tuning_.record(seconds, 0);
    } else if (!tuning_.complete()) {
      tuning_.count_rest();
    }
  }

  [[nodiscard]] double ours() const { return ours_; }
  [[nodiscard]] double mpis() const { return mpis_; }
  [[nodiscard]] bool decided() const { return tuning_.complete(); }
  [[nodiscard]] std::size_t winner() const { return tuning_.ranking().front(); }

 private:
  Machine machine_;
  double agreeing_;
  std::vector<Choice> choices_;
  std::vector<std::size_t> called_;
  Autotuning tuning_;
  std::mt19937 random_;
  double ours_ = 0;
  double mpis_ = 0;
};

/// The most that a program has lost after any of so many calls, as a share of what MPI would have taken.
double worst_share(Program& program, double spent, int calls) {
  double worst = 0;
  for (int call = 0; call < calls; ++call) {
    program.call();
    worst = std::max(worst, (program.ours() - program.mpis()) / (spent + program.mpis()));
  }
  return worst;
}

constexpr double kBound = 1.5 * ProbeBudget::kShare;

// Whatever the plans take, of what the model lets through.
TEST(ProbeBudget, WhateverPlansTakeLittleIsLost) {
  for (const double mpi : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1}) {
    for (const double spent : {0.06, 0.3, 3.0}) {
      for (const double a : {0.3, 0.7, 0.97, 1.03, 1.3, 2.0, 3.0}) {
        for (const double b : {0.5, 0.98, 1.1, 3.0}) {
          ProbeBudget budget(spent);
          Program program({{a * mpi, mpi, b * mpi}, 1e-4, 0, 0}, budget, 1);
          EXPECT_LE(worst_share(program, spent, 10000), kBound)
              << mpi << " s, " << a << " and " << b << " times, after " << spent << " s";
        }
      }
    }
  }
}

TEST(ProbeBudget, NorWhereTimesVary) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> exponent(-6, -1);
  std::uniform_real_distribution<double> factor(std::log(0.3), std::log(4));
  for (unsigned trial = 0; trial < 300; ++trial) {
    const double mpi = std::pow(10, exponent(random));
    std::vector<double> seconds{mpi * std::exp(factor(random)), mpi};
    while (seconds.size() < 2 + trial % 3) seconds.push_back(mpi * std::exp(factor(random)));
    const double spent = 0.06 + 1e-3 * trial;
    ProbeBudget budget(spent);
    // What disturbs calls is taken to be no longer than some milliseconds.
    const double noise = std::min(0.2, 2e-3 / mpi);
    const double disturbance = trial % 2 == 0 ? 0 : std::min(5 * mpi, 5e-3);
    Program program({seconds, Autotuning::kMaking, noise, disturbance}, budget, trial);
    EXPECT_LE(worst_share(program, spent, 10000), 2 * kBound) << "trial " << trial << ", " << mpi << " s";
  }
}

// A plan that takes far longer than anything the model expects is called once, and paid off before the next.
TEST(ProbeBudget, WhatOneBadPlanCostsIsPaidOffBeforeTheNextTry) {
  const double mpi = 1e-4;
  const double spent = 0.06;
  ProbeBudget budget(spent);
  Program program({{50 * mpi, mpi, 0.9 * mpi}, 0, 0, 0}, budget, 3);
  worst_share(program, spent, 200000);
  EXPECT_LE((program.ours() - program.mpis()) / (spent + program.mpis()), kBound);
}

TEST(ProbeBudget, WhatIsFasterIsFoundSoon) {
  for (const double mpi : {1e-5, 1e-4, 1e-3}) {
    for (const std::size_t fastest : {std::size_t{0}, std::size_t{2}}) {
      std::vector<double> seconds{1.5 * mpi, mpi, 1.5 * mpi};
      seconds[fastest] = 0.6 * mpi;
      ProbeBudget budget(0.3);
      Program program({seconds, 1e-4, 0.05, 0}, budget, 4);
      for (int call = 0; call < 10000; ++call) program.call();
      ASSERT_TRUE(program.decided()) << mpi;
      EXPECT_EQ(program.winner(), fastest);
      EXPECT_LE(program.ours(), 0.8 * program.mpis()) << mpi;
    }
  }
}

TEST(ProbeBudget, MpiIsKeptUnlessAPlanIsClearlyFaster) {
  ProbeBudget budget(100);
  Program program({{0.98e-4, 1e-4, 1.02e-4}, 0, 0, 0}, budget, 5);
  for (int call = 0; call < 10000; ++call) program.call();
  ASSERT_TRUE(program.decided());
  EXPECT_EQ(program.winner(), kMpi);
}

// The sizes of a communicator have one budget.
TEST(ProbeBudget, ManySizesAreNotManyBudgets) {
  const double spent = 0.3;
  ProbeBudget budget(spent);
  std::vector<Program> programs;
  for (unsigned size = 0; size < 17; ++size) {
    const double mpi = 1e-5 * std::pow(1.5, size);
    programs.emplace_back(Machine{{2 * mpi, mpi, 3 * mpi}, 1e-4, 0.05, 0, 2e-5}, budget, size);
  }
  for (int call = 0; call < 3000; ++call) {
    double ours = 0;
    double mpis = 0;
    for (Program& program : programs) {
      program.call();
      ours += program.ours();
      mpis += program.mpis();
    }
    ASSERT_LE((ours - mpis) / (spent + mpis), kBound) << call;
  }
}

TEST(ProbeBudget, WithoutALimitNothingRests) {
  ProbeBudget budget;
  Autotuning tuning(choices(3), budget);
  EXPECT_FALSE(tuning.resting());
  EXPECT_EQ(tuning.next(), choices(3)[0]);
}

}  // namespace
}  // namespace tapa
