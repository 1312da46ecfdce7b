// Bytes must arrive while the program computes and calls nothing. `progress PLUGIN CONFIG yes|no`: whether
// they do.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"

namespace {

// More than fits into any buffer on the way.
constexpr std::size_t kBytes = std::size_t{4} << 20;

bool arrives(std::byte& last, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end)
    if (std::atomic_ref(last).load() == std::byte{1}) return true;
  return false;
}

int run(const std::string& plugin, const std::string& config, bool expected) {
  dit::ExchangeContext context(dit::ExchangePlugin::load(plugin), {nullptr, 60, config});
  const auto size = static_cast<std::size_t>(context.size());
  const auto next = (static_cast<std::size_t>(context.rank()) + 1) % size;
  const auto before = (static_cast<std::size_t>(context.rank()) + size - 1) % size;
  std::vector<std::byte> send(kBytes, std::byte{1});
  std::vector<std::byte> recv(kBytes, std::byte{0});
  std::vector<dit_block> to(size, {0, 0});
  std::vector<dit_block> from(size, {0, 0});
  to[next].bytes = from[before].bytes = kBytes;
  dit_exchange_call call{};
  call.send = send.data();
  call.recv = recv.data();
  call.send_blocks = to.data();
  call.recv_blocks = from.data();
  context.barrier();
  dit::ExchangeRequest request = context.start(call);
  // The negative case ends by time; the positive one by success.
  const bool came = arrives(recv.back(), std::chrono::milliseconds(expected ? 30000 : 300));
  request.wait();
  if (recv.front() != std::byte{1} || recv.back() != std::byte{1}) std::fprintf(stderr, "wrong bytes\n");
  if (came != expected)
    std::fprintf(stderr, "rank %d: the bytes %s while the program computed\n", context.rank(),
                 came ? "came" : "did not come");
  context.barrier();
  return came == expected && recv.back() == std::byte{1} ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: progress PLUGIN CONFIG yes|no\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], std::strcmp(argv[3], "yes") == 0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
