// device_check: strided blocks.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "check_parts.hpp"

namespace tapa::bench {

namespace {

constexpr std::uint8_t kPoison = 0xee;
constexpr std::size_t kLongestGap = 128;
/// Shorter rows take many times their bytes, with the gaps between them.
constexpr std::size_t kShortRow = kLongestGap;
constexpr std::size_t kMostOfShortRows = 64 << 10;

/// A block's bytes as a product, which sender and receiver cut into rows and planes each as they like.
struct Factors {
  std::size_t run, runs, rows, planes;
  [[nodiscard]] std::size_t bytes() const { return run * runs * rows * planes; }
};

/// What both ranks compute.
Factors factors_of(const Settings& settings, int from, int to, int iteration) {
  std::minstd_rand random(settings.seed * 5 + static_cast<unsigned>(iteration * 4096 + from * 64 + to));
  random.discard(4);
  const std::size_t runs[] = {1, 2, 4, 8, 16, 48, 256, 1536, 24, 130};
  const std::size_t limits[] = {1, 700, 64 << 10, 1 << 20, 4 << 20, settings.most};
  std::size_t limit = std::min(limits[random() % 6], settings.most);
  if (limit == 1) return {0, 0, 0, 0};
  Factors factors{runs[random() % 10], 1 + random() % 5, 1, 1 + random() % 3};
  if (factors.run < kShortRow) limit = std::min(limit, kMostOfShortRows);
  const std::size_t one = factors.bytes();
  factors.rows = 1 + random() % std::max<std::size_t>(1, limit / one);
  return factors;
}

/// One of the ways to lay a block out from `offset` on.
TAPA_Device_block layout_of(const Factors& f, std::size_t offset, std::minstd_rand& random) {
  TAPA_Device_block block{offset, f.run, f.runs * f.rows, 0, f.planes, 0};
  switch (random() % 5) {
    case 1:
      block = {offset, f.run * f.runs, f.rows, 0, f.planes, 0};
      break;
    case 2:
      block = {offset, f.run * f.runs * f.rows, f.planes, 0, 1, 0};
      break;
    case 3:
      block = {offset, f.bytes(), 1, 0, 1, 0};
      break;
    case 4:
      block = {offset, f.run, f.runs, 0, f.rows * f.planes, 0};
      break;
    default:
      break;
  }
  const std::size_t gaps[] = {0, 16, 3, std::min(block.row_bytes, kLongestGap), kLongestGap, 8};
  if (random() % 3 == 0) {  // planes side by side, as in a fused projection
    block.plane_stride = block.row_bytes + gaps[random() % 6];
    block.row_stride = block.planes * block.plane_stride;
  } else {
    block.row_stride = block.row_bytes + gaps[random() % 6];
    block.plane_stride = block.rows * block.row_stride + gaps[random() % 6];
  }
  return block;
}

std::size_t end_of(const TAPA_Device_block& block) {
  if (block.row_bytes == 0) return block.offset;
  return block.offset + (block.planes - 1) * block.plane_stride + (block.rows - 1) * block.row_stride +
         block.row_bytes;
}

struct StridedBlocks {
  std::vector<TAPA_Device_block> send, receive;
  std::size_t received_end = 0;
};

StridedBlocks blocks_of(const Settings& settings, const Ranks& ranks, int iteration) {
  std::minstd_rand random(settings.seed * 79 + static_cast<unsigned>(iteration * 64 + ranks.rank()));
  const auto gap = [&] { return random() % 3 == 0 ? random() % 41 : random() % 3 * 16; };
  StridedBlocks blocks;
  std::size_t sent_end = 0;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    blocks.send.push_back(
        layout_of(factors_of(settings, ranks.rank(), peer, iteration), sent_end + gap(), random));
    blocks.receive.push_back(
        layout_of(factors_of(settings, peer, ranks.rank(), iteration), blocks.received_end + gap(), random));
    sent_end = end_of(blocks.send.back());
    blocks.received_end = end_of(blocks.receive.back());
  }
  return blocks;
}

/// Memory for a block whose bytes lie together, and strided buffers.
struct StridedBuffers {
  StridedBuffers(const Settings& settings, const Ranks& ranks, TAPA_Device_comm comm, bool registered)
      : packed(std::max(settings.most, kMostOfShortRows)), strided(wide(settings), ranks, comm, registered) {}
  static Settings wide(Settings settings) {
    settings.most = std::max(settings.most * 2, kMostOfShortRows * (1 + kLongestGap)) + 4096;
    return settings;
  }
  Memory packed;
  Buffers strided;
};

/// One all-to-all of strided blocks on the stream, with filling and checking; `round` may be null.
void exchange_strided(const Settings& settings, const Ranks& ranks, const StridedBuffers& buffers,
                      TAPA_Device_comm comm, const Stream& stream, int iteration, const Wrong& wrong,
                      const Round* round) {
  const StridedBlocks blocks = blocks_of(settings, ranks, iteration);
  char* const send = buffers.strided.send();
  char* const receive = buffers.strided.receive();
  char* const packed = buffers.packed.get();
  cuda(cudaMemsetAsync(receive, kPoison, blocks.received_end, stream.get()), "cudaMemsetAsync");
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const TAPA_Device_block& block = blocks.send[static_cast<std::size_t>(peer)];
    fill(packed, block.row_bytes * block.rows * block.planes, seed_of(ranks.rank(), peer, iteration), round,
         stream.get());
    scatter_rows(send, block, packed, stream.get());
  }
  tapa_call(TAPA_Device_alltoall_strided(send, blocks.send.data(), receive, blocks.receive.data(), comm,
                                         stream.get()));
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const TAPA_Device_block& block = blocks.receive[static_cast<std::size_t>(peer)];
    gather_rows(packed, receive, block, stream.get());
    count_wrong(packed, block.row_bytes * block.rows * block.planes, seed_of(peer, ranks.rank(), iteration),
                round, wrong.get(), stream.get());
    set_rows(receive, block, kPoison, stream.get());
  }
  count_others(receive, blocks.received_end, kPoison, wrong.get(), stream.get());
  cuda(cudaGetLastError(), "a launch");
}

/// Strided calls recorded in a graph; what is sent differs in each replay.
void replay_strided(const Settings& settings, Ranks& ranks, TAPA_Device_comm comm, const Stream& stream,
                    const Wrong& wrong) {
  const Memory round(sizeof(Round));
  cuda(cudaMemset(round.get(), 0, round.bytes()), "cudaMemset");
  auto* const number = reinterpret_cast<Round*>(round.get());
  const StridedBuffers direct(settings, ranks, comm, true);
  const StridedBuffers staged(settings, ranks, comm, false);
  const Graph graph(stream, [&] {
    next_round(number, stream.get());
    for (int call = 0; call < 6; ++call) {
      exchange_strided(settings, ranks, call % 2 == 0 ? direct : staged, comm, stream, 1000000 + call, wrong,
                       number);
    }
  });
  for (int replay = 0; replay < 20; ++replay) graph.launch(stream);
  stream.wait();
}

}  // namespace

int test_strided(Ranks& ranks, const Settings& settings) {
  const Comm comm(ranks, long_timeout(settings));
  const Stream stream;
  const Wrong wrong;
  Settings small = settings;
  small.most = std::min<std::size_t>(settings.most, 8 << 20);
  const auto began = std::chrono::steady_clock::now();
  std::unique_ptr<StridedBuffers> buffers;
  int iteration = 0;
  for (; iteration < settings.iterations; ++iteration) {
    if (iteration % 50 == 0) {
      if (ranks.first_says(since(began) > settings.seconds)) break;
      stream.wait();
      buffers.reset();
      buffers = std::make_unique<StridedBuffers>(small, ranks, comm.get(), iteration / 50 % 3 != 2);
    }
    exchange_strided(small, ranks, *buffers, comm.get(), stream, iteration, wrong, nullptr);
  }
  stream.wait();
  buffers.reset();
  replay_strided(small, ranks, comm.get(), stream, wrong);
  const unsigned long long count = wrong.value(stream);
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  return verdict(ranks, "strided", iteration, count, since(began));
}

}  // namespace tapa::bench
