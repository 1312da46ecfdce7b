// How fast rows go between tensors and exchange buffers, and how long V-Major's choices take. Bytes per
// second are those copied; memcpy of as many bytes is the bound.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "layout/layout.hpp"
#include "plain_flags.h"
#include "wire/pack.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

constexpr int ranks = 12;
constexpr int rank = 5;
constexpr std::size_t element_bytes = 2;

// 24 heads as FLUX and Qwen-Image have them; few and short rows are the hard case: 16 heads of 16.
AttentionShape shape_of(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim) {
  return {1, 0, tokens, heads, heads, head_dim};
}

struct Memory {
  explicit Memory(const std::vector<PeerBlock>& peers)
      : tensor(packed_bytes(peers, element_bytes), std::byte{1}), buffer(tensor.size(), std::byte{2}) {}
  std::vector<std::byte> tensor, buffer;
};

void count(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(state.iterations()));
}

// A rank's whole sequence-layout tensor to the buffer of a scatter.
void pack_scatter(benchmark::State& state) {
  const UlyssesLayout layout(shape_of(state.range(0), state.range(1), state.range(2)), ranks);
  const std::vector<PeerBlock> peers = layout.scatter_heads(AttentionTensor::query, rank).send;
  Memory memory(peers);
  while (state.KeepRunning()) {
    pack(peers, element_bytes, memory.tensor, memory.buffer);
    benchmark::ClobberMemory();
  }
  count(state, memory.buffer.size());
}

// What a gather brought to the sequence-layout tensor.
void unpack_gather(benchmark::State& state) {
  const UlyssesLayout layout(shape_of(state.range(0), state.range(1), state.range(2)), ranks);
  const std::vector<PeerBlock> peers = layout.gather_heads(rank).recv;
  Memory memory(peers);
  while (state.KeepRunning()) {
    unpack(peers, element_bytes, memory.buffer, memory.tensor);
    benchmark::ClobberMemory();
  }
  count(state, memory.buffer.size());
}

// The bound.
void copy(benchmark::State& state) {
  const UlyssesLayout layout(shape_of(state.range(0), state.range(1), state.range(2)), ranks);
  Memory memory(layout.gather_heads(rank).recv);
  while (state.KeepRunning()) {
    std::memcpy(memory.buffer.data(), memory.tensor.data(), memory.buffer.size());
    benchmark::ClobberMemory();
  }
  count(state, memory.buffer.size());
}

// Making one exchange's layout.
void make_layout(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  const UlyssesLayout layout({2, 333, 4096, 38, 38, 64}, count);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(layout.scatter_heads(AttentionTensor::query, count / 2));
  }
}

void choose_rows(benchmark::State& state) {
  std::mt19937 random(1);
  std::vector<float> scores(static_cast<std::size_t>(state.range(0)));
  for (float& score : scores) {
    score = std::uniform_real_distribution<float>()(random);
  }
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(choose_active_rows(scores, 0.6));
  }
  state.SetItemsProcessed(state.range(0) * static_cast<std::int64_t>(state.iterations()));
}

void register_all() {
  struct Named {
    const char* name;
    void (*run)(benchmark::State&);
  };
  for (const Named part :
       {Named{"pack_scatter", pack_scatter}, {"unpack_gather", unpack_gather}, {"memcpy", copy}}) {
    benchmark::RegisterBenchmark(part.name, part.run)
        ->ArgNames({"tokens", "heads", "dim"})
        ->Args({9216, 24, 128})
        ->Args({4096, 16, 16})
        ->Args({1024, 16, 16})
        ->Args({4429, 38, 64});
  }
  benchmark::RegisterBenchmark("make_layout", make_layout)->Arg(12)->Arg(96)->ArgName("ranks");
  benchmark::RegisterBenchmark("choose_rows", choose_rows)->Arg(341)->Arg(36864)->ArgName("rows");
}

}  // namespace
}  // namespace dit

int main(int argc, char** argv) {
  if (plain_version(argc, argv)) return 0;
  dit::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
