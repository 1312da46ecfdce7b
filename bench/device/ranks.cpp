#include "ranks.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>

namespace tapa::bench {

namespace {
constexpr int kMaxRanks = 16;
constexpr std::size_t kPiece = 4096;
constexpr std::size_t kPages = 16;  ///< for ranks that gather several times at once
}  // namespace

struct SharedPage {
  std::atomic<int> arrived{0};
  std::atomic<unsigned> round{0};
  std::array<std::array<char, kPiece>, kMaxRanks> pieces;
};

namespace {

class ForkedRanks final : public Ranks {
 public:
  ForkedRanks(int rank, int size, std::span<SharedPage> pages)
      : Ranks(rank, size), page_(pages[0]), others_(pages.subspan(1)) {}
  void barrier() override;
  void allgather(const void* mine, void* all, std::size_t bytes) override;
  std::unique_ptr<Ranks> another() override {
    if (others_.empty()) throw std::runtime_error("the ranks cannot gather at more places at once");
    const std::span<SharedPage> page = others_.subspan(0, 1);
    others_ = others_.subspan(1);
    return std::make_unique<ForkedRanks>(rank(), size(), page);
  }
  void leave(double) override { _exit(0); }

 private:
  SharedPage& page_;
  std::span<SharedPage> others_;  ///< that nobody gathers at
};

void ForkedRanks::barrier() {
  const unsigned round = page_.round.load();
  if (page_.arrived.fetch_add(1) + 1 == size()) {
    page_.arrived.store(0);
    page_.round.store(round + 1);
    return;
  }
  const auto began = std::chrono::steady_clock::now();
  for (unsigned spins = 0; page_.round.load() == round; ++spins) {
    if (spins % 1024 != 1023) continue;
    sched_yield();
    if (std::chrono::steady_clock::now() - began > std::chrono::minutes(2)) {
      std::fprintf(stderr, "rank %d: another rank did not come to a barrier\n", rank());
      _exit(3);
    }
  }
}

void ForkedRanks::allgather(const void* mine, void* all, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += kPiece) {
    const std::size_t piece = std::min(kPiece, bytes - done);
    std::memcpy(page_.pieces[static_cast<std::size_t>(rank())].data(), static_cast<const char*>(mine) + done,
                piece);
    barrier();
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(size()); ++rank) {
      std::memcpy(static_cast<char*>(all) + rank * bytes + done, page_.pieces[rank].data(), piece);
    }
    barrier();
  }
}

}  // namespace

int Ranks::allgather_for_tapa(void* context, const void* mine, void* all, std::size_t bytes) {
  static_cast<Ranks*>(context)->allgather(mine, all, bytes);
  return 0;
}

namespace {

int run_body(Ranks& ranks, const std::function<int(Ranks&)>& body) {
  try {
    return body(ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", ranks.rank(), error.what());
    return 1;
  }
}

}  // namespace

int run_ranks(int size, const std::function<int(Ranks&)>& body) {
  if (size < 1 || size > kMaxRanks) throw std::runtime_error("ranks: expected 1 to 16");
  constexpr std::size_t kBytes = kPages * sizeof(SharedPage);
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap of the pages that ranks share failed");
  const std::span<SharedPage> pages(static_cast<SharedPage*>(memory), kPages);
  for (SharedPage& page : pages) new (&page) SharedPage;
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child == 0) {
      ForkedRanks ranks(rank, size, pages);
      const int code = run_body(ranks, body);
      std::fflush(nullptr);
      _exit(code);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failed;
  }
  munmap(memory, kBytes);
  return failed;
}

}  // namespace tapa::bench
