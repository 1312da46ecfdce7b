// How long the pure parts take: planning, choosing, and what the executor does besides moving messages.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "plain_flags.h"
#include "plan/choose.hpp"
#include "plan/cost.hpp"
#include "plan/planner.hpp"
#include "run/executor.hpp"

namespace tapa {
namespace {

constexpr int ranks_per_node = 16;

Topology cluster(int ranks) {
  return make_uniform_topology({ranks / ranks_per_node, ranks_per_node});
}

Choice flat(Algorithm algorithm) {
  Choice choice;
  choice.algorithm = algorithm;
  return choice;
}

Choice split(Algorithm algorithm) {
  Choice choice = flat(algorithm);
  choice.splits = {"node"};
  return choice;
}

// One rank's plan, as the library makes it in a first call; all ranks do so at once.
void plan_rank_of(benchmark::State& state, const Choice& choice) {
  const int ranks = static_cast<int>(state.range(0));
  const Topology topology = cluster(ranks);
  const Counts counts = Counts::uniform(ranks, 1024);
  std::size_t steps = 0;
  while (state.KeepRunning()) {
    const RankPlan plan = plan_rank(topology, counts, choice, ranks / 2);
    steps = plan.steps.size();
    benchmark::DoNotOptimize(plan);
  }
  state.counters["steps"] = static_cast<double>(steps);
}

// Pricing all candidates for one size, as the library does in a first call.
void choose(benchmark::State& state) {
  const Topology topology = cluster(static_cast<int>(state.range(0)));
  const Rates rates = rates_from(topology);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(rank_candidates(topology, rates, {}, 1024, {}));
  }
}

// Messages that are delivered at once, with whatever is in memory: what remains is the executor's own work.
class InstantTransport final : public Transport {
 public:
  void reserve(int slots) override { done_.reserve(static_cast<std::size_t>(slots)); }
  [[nodiscard]] bool takes_pieces(int, std::size_t) const override { return false; }
  void post_send(int slot, int, int, Pieces) override { done_.push_back(slot); }
  void post_recv(int slot, int, int, Pieces) override { done_.push_back(slot); }
  void poll(std::vector<int>& completed, bool) override {
    completed.insert(completed.end(), done_.begin(), done_.end());
    done_.clear();
  }

 private:
  std::vector<int> done_;
};

class Prepared {
 public:
  Prepared(int ranks, std::size_t bytes, const Choice& choice)
      : plan_(std::make_shared<RankPlan>(
            plan_rank(cluster(ranks), Counts::uniform(ranks, bytes), choice, ranks / 2))),
        executor_(plan_, std::make_unique<InstantTransport>()),
        send_memory_(static_cast<std::size_t>(ranks) * bytes),
        recv_memory_(send_memory_.size()) {
    for (std::size_t at = 0; at < send_memory_.size(); at += bytes) {
      send_.push_back(send_memory_.data() + at);
      recv_.push_back(recv_memory_.data() + at);
    }
  }
  void bind() { executor_.bind(send_, recv_); }
  void run() {
    executor_.start(0);
    executor_.wait();
  }
  [[nodiscard]] std::size_t bytes() const { return send_memory_.size(); }

 private:
  std::shared_ptr<const RankPlan> plan_;
  Executor executor_;
  std::vector<std::byte> send_memory_, recv_memory_;
  std::vector<const std::byte*> send_;
  std::vector<std::byte*> recv_;
};

// New buffers for a prepared plan: what a blocking call pays each time.
void bind(benchmark::State& state, const Choice& choice) {
  Prepared prepared(static_cast<int>(state.range(0)), 64, choice);
  while (state.KeepRunning()) {
    prepared.bind();
  }
}

// Packing, unpacking and bookkeeping of one run; bytes per second are those of the caller's send buffer.
void pack_and_unpack(benchmark::State& state, const Choice& choice) {
  Prepared prepared(static_cast<int>(state.range(0)), static_cast<std::size_t>(state.range(1)), choice);
  prepared.bind();
  while (state.KeepRunning()) {
    prepared.run();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(prepared.bytes()) *
                          static_cast<std::int64_t>(state.iterations()));
}

void register_all() {
  const std::vector<Choice> choices{flat(Algorithm::linear), flat(Algorithm::bruck), split(Algorithm::tapa),
                                    split(Algorithm::leaders)};
  for (const Choice& choice : choices) {
    const std::string name = to_string(choice);
    benchmark::RegisterBenchmark(("plan_rank/" + name).c_str(), plan_rank_of, choice)
        ->RangeMultiplier(4)
        ->Range(64, 4096)
        ->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark(("bind/" + name).c_str(), bind, choice)->Arg(64)->Arg(1024);
    benchmark::RegisterBenchmark(("pack_and_unpack/" + name).c_str(), pack_and_unpack, choice)
        ->ArgsProduct({{64}, {16, 1024, 65536}});
  }
  benchmark::RegisterBenchmark("choose", choose)
      ->RangeMultiplier(4)
      ->Range(64, 4096)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace tapa

int main(int argc, char** argv) {
  if (plain_version(argc, argv)) return 0;
  tapa::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
