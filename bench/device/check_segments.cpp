// device_check: receive buffers of the calls for virtual memory (cuMemCreate, cuMemMap).
#include <algorithm>
#include <random>
#include <vector>

#include "check_parts.hpp"

namespace tapa::bench {

namespace {

/// Random blocks into one buffer, which must be direct or not; returns how many calls were made.
int exchange_into(Ranks& ranks, const Settings& settings, const Comm& comm, const Stream& stream,
                  MemoryKind kind, int first, const Wrong& wrong, unsigned long long& mistakes) {
  constexpr int kCalls = 20;
  const Buffers buffers(settings, ranks, comm.get(), true, 0, kind);
  const bool expected = kind != MemoryKind::private_segments;
  if (buffers.is_direct() != expected) ++mistakes;
  for (int call = 0; call < kCalls; ++call) {
    exchange(settings, ranks, buffers, comm.get(), stream, first + call, wrong, 0);
  }
  stream.wait();
  return kCalls;
}

/// Long equal blocks by copy engines, of ranks whose memory is of two kinds.
void copy_into(Ranks& ranks, const Settings& settings, const Comm& comm, const Stream& stream, int iteration,
               const Wrong& wrong) {
  const MemoryKind kind = ranks.rank() % 2 == 0 ? MemoryKind::segments : MemoryKind::plain;
  const Buffers buffers(settings, ranks, comm.get(), true, TAPA_DEVICE_SYMMETRIC, kind);
  exchange_equal(ranks, buffers, comm.get(), stream, settings.most, iteration, wrong);
  const Graph graph(stream, [&] {
    exchange_equal(ranks, buffers, comm.get(), stream, settings.most, iteration + 1, wrong);
  });
  for (int replay = 0; replay < 3; ++replay) graph.launch(stream);
  stream.wait();
}

}  // namespace

int test_segments(Ranks& ranks, const Settings& settings) {
  TAPA_Device_options options = long_timeout(settings);
  options.copy_bytes = 1 << 20;
  const Comm comm(ranks, options);
  const Stream stream;
  const Wrong wrong;
  Settings some = settings;
  some.most = std::min<std::size_t>(settings.most, 8 << 20);
  unsigned long long mistakes = 0;
  const auto began = std::chrono::steady_clock::now();
  int iteration = 0;
  while (iteration < settings.iterations) {
    if (ranks.first_says(since(began) > settings.seconds)) break;
    for (const MemoryKind kind :
         {MemoryKind::segments, MemoryKind::plain, MemoryKind::segments, MemoryKind::private_segments}) {
      iteration += exchange_into(ranks, some, comm, stream, kind, iteration, wrong, mistakes);
    }
    copy_into(ranks, some, comm, stream, iteration, wrong);
    iteration += 2;
  }
  const unsigned long long count = wrong.value(stream) + mistakes;
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  return verdict(ranks, "segments", iteration, count, since(began));
}

}  // namespace tapa::bench
