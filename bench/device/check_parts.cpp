#include "check_parts.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

namespace tapa::bench {

namespace {

constexpr std::uint8_t kPoison = 0xee;

/// Bytes that one rank sends to another in an iteration: what both compute.
std::size_t block_bytes(const Settings& settings, int from, int to, int iteration) {
  std::minstd_rand random(settings.seed + static_cast<unsigned>(iteration * 4096 + from * 64 + to));
  random.discard(4);
  const auto kind = random() % 100;
  const std::size_t limits[] = {65, 8 << 10, 512 << 10, 4 << 20, settings.most + 1};
  if (kind < 15) return 0;
  const int which = kind < 35 ? 0 : kind < 55 ? 1 : kind < 85 ? 2 : kind < 99 ? 3 : 4;
  return random() % std::min(limits[which], settings.most + 1);
}

/// The blocks of one rank in one iteration, at odd places with gaps.
struct Blocks {
  std::vector<std::size_t> send_bytes, send_at, receive_bytes, receive_at;
  std::size_t received_extent = 0;
};

Blocks blocks_of(const Settings& settings, const Ranks& ranks, int iteration) {
  std::minstd_rand random(settings.seed * 77 + static_cast<unsigned>(iteration * 64 + ranks.rank()));
  const auto gap = [&] { return random() % 3 == 0 ? random() % 41 : random() % 3 * 16; };
  Blocks blocks;
  std::size_t send = gap();
  std::size_t receive = gap();
  for (int peer = 0; peer < ranks.size(); ++peer) {
    blocks.send_bytes.push_back(block_bytes(settings, ranks.rank(), peer, iteration));
    blocks.receive_bytes.push_back(block_bytes(settings, peer, ranks.rank(), iteration));
    blocks.send_at.push_back(send);
    blocks.receive_at.push_back(receive);
    send += blocks.send_bytes.back() + gap();
    receive += blocks.receive_bytes.back() + gap();
  }
  blocks.received_extent = receive;
  return blocks;
}

}  // namespace

bool Buffers::replace_receive() {
  if (segments_) {
    segments_->replace();
    return true;
  }
  const char* const place = plain_->get();
  plain_.reset();
  std::vector<std::unique_ptr<Memory>> elsewhere;
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto memory = std::make_unique<Memory>(extent_);
    const bool there = memory->get() == place;
    elsewhere.push_back(std::move(memory));
    if (!there && attempt < 19) continue;
    plain_ = std::move(elsewhere.back());
    return there;
  }
  return false;
}

double since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::uint64_t seed_of(int from, int to, int iteration) {
  return (static_cast<std::uint64_t>(iteration) * 64 + static_cast<std::uint64_t>(from)) * 64 +
         static_cast<std::uint64_t>(to);
}

void exchange(const Settings& settings, const Ranks& ranks, const Buffers& buffers, TAPA_Device_comm comm,
              const Stream& stream, int iteration, const Wrong& wrong, std::uint64_t delay_ns) {
  const Blocks blocks = blocks_of(settings, ranks, iteration);
  cuda(cudaMemsetAsync(buffers.receive(), kPoison, blocks.received_extent, stream.get()), "cudaMemsetAsync");
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    fill(buffers.send() + blocks.send_at[p], blocks.send_bytes[p], seed_of(ranks.rank(), peer, iteration),
         nullptr, stream.get());
  }
  delay(delay_ns, stream.get());
  tapa_call(TAPA_Device_alltoallv(buffers.send(), blocks.send_bytes.data(), blocks.send_at.data(),
                                  buffers.receive(), blocks.receive_bytes.data(), blocks.receive_at.data(),
                                  comm, stream.get()));
  std::size_t end = 0;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    count_others(buffers.receive() + end, blocks.receive_at[p] - end, kPoison, wrong.get(), stream.get());
    count_wrong(buffers.receive() + blocks.receive_at[p], blocks.receive_bytes[p],
                seed_of(peer, ranks.rank(), iteration), nullptr, wrong.get(), stream.get());
    end = blocks.receive_at[p] + blocks.receive_bytes[p];
  }
  count_others(buffers.receive() + end, blocks.received_extent - end, kPoison, wrong.get(), stream.get());
  cuda(cudaGetLastError(), "a launch");
}

void exchange_equal(const Ranks& ranks, const Buffers& buffers, TAPA_Device_comm comm, const Stream& stream,
                    std::size_t bytes, int iteration, const Wrong& wrong) {
  const auto size = static_cast<std::size_t>(ranks.size());
  cuda(cudaMemsetAsync(buffers.receive(), kPoison, size * bytes + 64, stream.get()), "cudaMemsetAsync");
  for (std::size_t peer = 0; peer < size; ++peer) {
    fill(buffers.send() + peer * bytes, bytes, seed_of(ranks.rank(), static_cast<int>(peer), iteration),
         nullptr, stream.get());
  }
  tapa_call(TAPA_Device_alltoall(buffers.send(), buffers.receive(), bytes, comm, stream.get()));
  for (std::size_t peer = 0; peer < size; ++peer) {
    count_wrong(buffers.receive() + peer * bytes, bytes,
                seed_of(static_cast<int>(peer), ranks.rank(), iteration), nullptr, wrong.get(), stream.get());
  }
  count_others(buffers.receive() + size * bytes, 64, kPoison, wrong.get(), stream.get());
  cuda(cudaGetLastError(), "a launch");
}

int verdict(Ranks& ranks, const char* test, int iterations, unsigned long long wrong, double seconds) {
  unsigned long long all = 0;
  for (const unsigned long long each : ranks.gather(wrong)) all += each;
  if (ranks.rank() == 0) {
    std::printf("%-8s %d ranks, %6d iterations, %6.1f s: %s", test, ranks.size(), iterations, seconds,
                all == 0 ? "right\n" : "WRONG");
    if (all != 0) std::printf(", %llu bytes\n", all);
    std::fflush(stdout);
  }
  return all == 0 ? 0 : 1;
}

TAPA_Device_options long_timeout(const Settings& settings) {
  TAPA_Device_options options{};
  options.timeout = 20;
  options.wire = settings.wire;
  options.channels = settings.channels;
  return options;
}

}  // namespace tapa::bench
