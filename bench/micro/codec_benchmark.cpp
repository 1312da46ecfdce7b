// How fast tensors become bytes for slow links and back: bytes per second of the tensor (fp32), one core.
// memcpy of as many bytes is the bound.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "plain_flags.h"
#include "wire/codec.hpp"

namespace dit {
namespace {

constexpr std::int64_t kRow = 128;

struct Block {
  Block(const Codec& codec, std::int64_t rows)
      : values(static_cast<std::size_t>(rows * kRow)),
        code(codec.encoded_bytes(rows, kRow)),
        reference(values.size(), 0x3f00),  // 0.5
        digits(values.size()),
        change(values.size(), 66) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : values) {
      value = normal(random);
    }
    codec.encode(rows, kRow, std::as_bytes(std::span(values)), code);
  }
  std::vector<float> values;
  std::vector<std::byte> code;
  std::vector<std::uint16_t> reference;
  std::vector<std::uint8_t> digits, change;
  [[nodiscard]] WireReference remembered() { return {reference, digits, change, 0.5F}; }
};

using Body = void (*)(const Codec&, std::int64_t rows, Block&);

void encode(const Codec& codec, std::int64_t rows, Block& block) {
  codec.encode(rows, kRow, std::as_bytes(std::span(block.values)), block.code);
}
void decode(const Codec& codec, std::int64_t rows, Block& block) {
  codec.decode(rows, kRow, block.code, std::as_writable_bytes(std::span(block.values)));
}
void encode_residual(const Codec& codec, std::int64_t rows, Block& block) {
  codec.encode(rows, kRow, std::as_bytes(std::span(block.values)), block.remembered(), true, block.code);
}
void decode_residual(const Codec& codec, std::int64_t rows, Block& block) {
  codec.decode(rows, kRow, block.code, block.remembered(), true,
               std::as_writable_bytes(std::span(block.values)));
}

void run(benchmark::State& state, Body body, const Codec& codec) {
  Block block(codec, state.range(0));
  while (state.KeepRunning()) {
    body(codec, state.range(0), block);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(block.values.size() * sizeof(float)) *
                          static_cast<std::int64_t>(state.iterations()));
}

void copy(benchmark::State& state) {
  const std::vector<std::byte> from(static_cast<std::size_t>(state.range(0) * kRow) * sizeof(float),
                                    std::byte{1});
  std::vector<std::byte> to(from.size());
  while (state.KeepRunning()) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(from.size()) *
                          static_cast<std::int64_t>(state.iterations()));
}

void register_all() {
  struct Named {
    const char* name;
    Body body;
  };
  benchmark::RegisterBenchmark("memcpy", copy)->ArgName("rows")->Arg(768)->Arg(65536);
  for (const CodecKernels* kernels : codec_kernels()) {
    for (const Named work : {Named{"encode", encode},
                             {"decode", decode},
                             {"encode_residual", encode_residual},
                             {"decode_residual", decode_residual}}) {
      for (const WireFormat format : {WireFormat::bf16, WireFormat::fp8, WireFormat::int8, WireFormat::int4,
                                      WireFormat::int2, WireFormat::int1}) {
        const std::string name = std::string(work.name) + "/" + to_string(format) + "/" + kernels->name;
        const Codec codec(format, WireElement::fp32, *kernels);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) { run(state, work.body, codec); })
            ->ArgName("rows")
            ->Arg(768);
      }
    }
  }
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
