// Handles of memory while another user fills every socket that can be found by its name.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <new>
#include <set>
#include <string>
#include <thread>

#include "agreement_threads.hpp"
#include "device/handle_post.hpp"

namespace tapa::device {
namespace {

/// Names of the sockets for datagrams that are no files, as the system tells anybody.
std::set<std::string> names_of_sockets() {
  std::set<std::string> names;
  std::ifstream table("/proc/net/unix");
  std::string line;
  while (std::getline(table, line)) {
    const std::size_t at = line.find('@');
    const bool datagrams = line.find(" 0002 ") < at;
    if (at != std::string::npos && datagrams) names.insert(line.substr(at + 1));
  }
  return names;
}

/// Sends to a socket until it takes nothing more; whether it took something.
bool fill(int socket, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const std::array<char, 16> words{};
  bool taken = false;
  for (int count = 0; count < 2000; ++count) {
    if (sendto(socket, words.data(), words.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&address),
               length) < 0)
      return taken;
    taken = true;
  }
  return taken;
}

/// A process that fills all sockets that are new, again and again; of another user where this one may become
/// one. Made before there are threads.
class Flooder {
 public:
  Flooder() {
    void* const page =
        mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    counts_ = new (page) Counts{};
    const std::set<std::string> before = names_of_sockets();
    process_ = fork();
    if (process_ == 0) flood(before);
  }
  ~Flooder() {
    kill(process_, SIGKILL);
    TEMP_FAILURE_RETRY(waitpid(process_, nullptr, 0));
    munmap(counts_, sizeof(Counts));
  }
  Flooder(const Flooder&) = delete;
  Flooder& operator=(const Flooder&) = delete;

  /// Until it has gone twice over all sockets that are there now.
  void let_work() const {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (const long now = counts_->rounds; counts_->rounds < now + 2;) {
      ASSERT_LT(std::chrono::steady_clock::now(), late);
      std::this_thread::yield();
    }
  }
  [[nodiscard]] long filled() const { return counts_->filled; }

 private:
  struct Counts {
    std::atomic<long> rounds{0};
    std::atomic<long> filled{0};
  };

  [[noreturn]] void flood(const std::set<std::string>& before) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (geteuid() == 0 && setuid(65534) != 0) _exit(1);
    for (;;) {
      const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);  // one that still has room to send
      for (const std::string& name : names_of_sockets())
        if (!before.contains(name) && fill(socket, name)) ++counts_->filled;
      ++counts_->rounds;
      close(socket);
    }
  }

  Counts* counts_;
  pid_t process_;
};

TEST(HandleFlood, NoDeliveryIsLost) {
  constexpr int kRanks = 3;
  constexpr int kDeliveries = 20;
  const Flooder flooder;
  // Between any two steps of a delivery the flooder has its turn.
  const auto gather = [&](Rank& me, const void* mine, void* all, std::size_t bytes) {
    if (me.rank == 0) flooder.let_work();
    return allgather(&me, mine, all, bytes);
  };
  std::atomic<int> lost{0};
  as_ranks_by(kRanks, gather, [&](const Agreement& agreement) {
    for (int delivery = 0; delivery < kDeliveries; ++delivery) {
      std::vector<Handle> mine;
      Descriptor file(memfd_create("handle_flood_test", MFD_CLOEXEC));
      mine.push_back({std::move(file), static_cast<std::uint64_t>(agreement.rank() + 1)});
      const auto all = post_handles(agreement, std::move(mine));
      for (int rank = 0; rank < kRanks; ++rank) {
        const Delivery& theirs = all[static_cast<std::size_t>(rank)];
        EXPECT_EQ(theirs.missing, "");
        const bool there = theirs.handles.size() == 1;
        if (!there || theirs.handles[0].bytes != static_cast<std::uint64_t>(rank + 1)) ++lost;
      }
    }
  });
  EXPECT_EQ(lost, 0);
  EXPECT_GE(flooder.filled(), kDeliveries);
}

}  // namespace
}  // namespace tapa::device
