// Every schedule computes the same from the same, on several ranks that really exchange.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "exchange/local/local_ranks.hpp"
#include "graphs.hpp"
#include "predict/choose_order.hpp"
#include "schedule/execute.hpp"

namespace dit {
namespace {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2));
  x *= 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 31);
}

/// A step's result is a number made of its inputs' results; an exchange gives each peer another number.
class MixingWork : public StepWork {
 public:
  MixingWork(const StepGraph& graph, ExchangeContext& context)
      : graph_(graph), context_(context), results_(graph.steps.size(), 0), sent_(graph.steps.size()) {
    received_.resize(graph.steps.size());
  }

  void compute(StepId step) override { result(step) = inputs(step); }
  void pack(StepId step) override {
    auto& sent = sent_[static_cast<std::size_t>(step)];
    for (int peer = 0; peer < context_.size(); ++peer) {
      sent.push_back(mixed(inputs(step), static_cast<std::uint64_t>(peer)));
    }
    received_[static_cast<std::size_t>(step)].resize(sent.size(), 0);
  }
  ExchangeRequest start(StepId step, bool blocking) override {
    const std::size_t number = sizeof(std::uint64_t);
    std::vector<dit_block> blocks;
    for (int peer = 0; peer < context_.size(); ++peer) {
      blocks.push_back({static_cast<std::size_t>(peer) * number, number});
    }
    dit_exchange_call call{};
    call.send = sent_[static_cast<std::size_t>(step)].data();
    call.recv = received_[static_cast<std::size_t>(step)].data();
    call.send_blocks = call.recv_blocks = blocks.data();
    call.flags = blocking ? DIT_EXCHANGE_BLOCKING : 0;
    return context_.start(call);
  }
  void arrived(StepId step) override {
    for (const std::uint64_t number : received_[static_cast<std::size_t>(step)]) {
      result(step) = mixed(result(step), number);
    }
  }
  [[nodiscard]] const std::vector<std::uint64_t>& results() const { return results_; }

 private:
  std::uint64_t& result(StepId step) { return results_[static_cast<std::size_t>(step)]; }
  std::uint64_t inputs(StepId step) {
    std::uint64_t sum = mixed(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(context_.rank()));
    for (const StepId before : graph_.steps[static_cast<std::size_t>(step)].after)
      sum = mixed(sum, result(before));
    return sum;
  }

  const StepGraph& graph_;
  ExchangeContext& context_;
  std::vector<std::uint64_t> results_;
  std::vector<std::vector<std::uint64_t>> sent_;
  std::vector<std::vector<std::uint64_t>> received_;
};

using Results = std::vector<std::vector<std::uint64_t>>;  // by rank

Results results_of(const StepGraph& graph, const Order& order, int ranks) {
  Results results(static_cast<std::size_t>(ranks));
  LocalGroupOptions options;
  options.ranks = ranks;
  options.timeout_seconds = 20;
  run_local_ranks(options, [&](ExchangeContext& context) {
    MixingWork work(graph, context);
    (void)execute(graph, order, work);
    results[static_cast<std::size_t>(context.rank())] = work.results();
  });
  return results;
}

TEST(ExecuteLocal, AllSchedulesComputeTheSame) {
  for (const auto& shape : {BlockGraphOptions{1, 2, 1, false}, {2, 3, 2, false}, {2, 2, 3, true}}) {
    const StepGraph graph = test::with_layer_times(transformer_graph(shape), 1, 1);
    const Results flat = results_of(graph, flat_order(graph), 3);
    EXPECT_NE(flat[0], flat[1]);
    EXPECT_EQ(results_of(graph, v_first_order(graph), 3), flat) << test::name(shape);
    EXPECT_EQ(results_of(graph, pipelined_order(graph), 3), flat) << test::name(shape);
    EXPECT_EQ(results_of(graph, interleaved_order(graph, {true, 1}), 3), flat) << test::name(shape);
  }
}

}  // namespace
}  // namespace dit
