// A container whose /dev/shm is full: exchanges work, and a rank that is late is named, as elsewhere.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "memory_group.hpp"

namespace dit {
namespace {

constexpr int kNotAllowed = 77;

/// In a mount namespace of this process: a /dev/shm without a free byte. False where that is not allowed.
bool fill_shared_memory() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) return false;
  std::ofstream file("/dev/shm/full");
  while (file << std::string(4096, 'x') << std::flush) {
  }
  return true;
}

/// Rank 1 comes to the exchange when rank 0 has waited for it in vain: what rank 0 was told, and the bytes.
std::string words_of_who_waits() {
  MemoryGroup group(2);
  std::string words;
  std::atomic<bool> told{false};
  const auto body = [&](ExchangeContext& context) {
    const auto sent = static_cast<unsigned char>(context.rank() + 1);
    std::array<unsigned char, 2> received{};
    const std::array<dit_block, 2> to{dit_block{0, 1}, dit_block{0, 1}},
        from{dit_block{0, 1}, dit_block{1, 1}};
    dit_exchange_call call{};
    call.send = &sent;
    call.recv = received.data();
    call.send_blocks = to.data();
    call.recv_blocks = from.data();
    while (context.rank() == 1 && !told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ExchangeRequest request = context.start(call);
    while (request.active()) {
      try {
        request.wait();
      } catch (const ExchangeError& error) {
        if (context.rank() == 0 && !told) words = error.what();
        told = true;
      }
    }
    if (received != std::array<unsigned char, 2>{1, 2}) words = "wrong bytes";
    context.barrier();
  };
  run_memory_ranks(group, body, {1, ""});
  return words;
}

[[noreturn]] void run_in_a_full_container() {
  if (!fill_shared_memory()) std::exit(kNotAllowed);
  const std::string words = words_of_who_waits();
  std::cerr << words << "\n";
  std::exit(words.find("missing: rank 1") != std::string::npos ? 0 : 1);
}

TEST(BootstrapFullMemory, ExchangesWorkAndWhoIsMissingIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // namespaces are for processes of one thread
  bool allowed = true;
  const auto ended_well = [&](int status) {
    allowed = !testing::ExitedWithCode(kNotAllowed)(status);
    return !allowed || testing::ExitedWithCode(0)(status);
  };
  EXPECT_EXIT(run_in_a_full_container(), ended_well, "");
  if (!allowed) GTEST_SKIP() << "no mount namespaces here";
}

}  // namespace
}  // namespace dit
