// Handles of memory from rank to rank; threads as ranks, and files in memory as handles.
#include "device/handle_post.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "agreement_threads.hpp"

namespace tapa::device {
namespace {

using Received = std::vector<Delivery>;

/// A file that says whose it is and which.
Handle file_of(int rank, std::size_t index) {
  const std::array<std::size_t, 2> content = {static_cast<std::size_t>(rank), index};
  Descriptor file(memfd_create("handle_post_test", MFD_CLOEXEC));
  EXPECT_EQ(write(file.get(), content.data(), sizeof(content)), static_cast<ssize_t>(sizeof(content)));
  return {std::move(file), 1000 * static_cast<std::uint64_t>(rank) + index};
}

std::vector<Handle> files_of(int rank, std::size_t count) {
  std::vector<Handle> files;
  for (std::size_t index = 0; index < count; ++index) files.push_back(file_of(rank, index));
  return files;
}

void expect_files_of(int rank, std::size_t count, const Delivery& delivery) {
  const std::vector<Handle>& files = delivery.handles;
  ASSERT_EQ(files.size(), count) << "of rank " << rank;
  for (std::size_t index = 0; index < count; ++index) {
    std::array<std::size_t, 2> content{};
    ASSERT_EQ(pread(files[index].file.get(), content.data(), sizeof(content), 0),
              static_cast<ssize_t>(sizeof(content)));
    EXPECT_EQ(content[0], static_cast<std::size_t>(rank));
    EXPECT_EQ(content[1], index);
    EXPECT_EQ(files[index].bytes, 1000 * static_cast<std::uint64_t>(rank) + index);
  }
}

int open_files() {
  int count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

TEST(HandlePost, CarriesEveryRanksHandlesToAllOthersInOrder) {
  const std::vector<std::size_t> counts = {3, 0, 1, 200};  // the last one in several messages
  const int before = open_files();
  as_ranks(4, [&](const Agreement& agreement) {
    const Received all = post_handles(
        agreement, files_of(agreement.rank(), counts[static_cast<std::size_t>(agreement.rank())]));
    ASSERT_EQ(all.size(), counts.size());
    for (int rank = 0; rank < 4; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      expect_files_of(rank, counts[index], all[index]);
    }
  });
  EXPECT_EQ(open_files(), before);
}

TEST(HandlePost, OfManyRanksAtOnce) {
  as_ranks(16, [](const Agreement& agreement) {
    const Received all = post_handles(agreement, files_of(agreement.rank(), 5));
    for (int rank = 0; rank < 16; ++rank) expect_files_of(rank, 5, all[static_cast<std::size_t>(rank)]);
  });
}

TEST(HandlePost, WithoutHandlesIsOneMeeting) {
  as_ranks(3, [](const Agreement& agreement) {
    const Received all = post_handles(agreement, {});
    ASSERT_EQ(all.size(), 3U);
    for (const Delivery& each : all) EXPECT_TRUE(each.handles.empty() && each.missing.empty());
  });
}

TEST(HandlePost, StaysInTheNode) {
  const std::vector<std::vector<int>> nodes = {{0, 3, 4}, {1, 2}};
  const std::vector<std::size_t> counts = {70, 0, 2, 1, 130};
  as_ranks(5, [&](const Agreement& all) {
    const std::vector<int>& members = nodes[all.rank() == 1 || all.rank() == 2 ? 1 : 0];
    const Agreement node(all, members);
    const Received received =
        post_handles(node, files_of(all.rank(), counts[static_cast<std::size_t>(all.rank())]));
    ASSERT_EQ(received.size(), members.size());
    for (std::size_t index = 0; index < members.size(); ++index) {
      expect_files_of(members[index], counts[static_cast<std::size_t>(members[index])], received[index]);
    }
  });
}

/// Lets this process open no more than so many files beyond those it has (which have the lowest numbers).
class FewFiles {
 public:
  explicit FewFiles(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDERR_FILENO);
    close(next);
    const rlimit few{static_cast<rlim_t>(next + more), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(HandlePost, WhatCannotBeReceivedIsMissingAsAWhole) {
  const int before = open_files();
  as_ranks(2, [](const Agreement& agreement) {
    std::vector<Handle> mine = files_of(agreement.rank(), agreement.rank() == 0 ? 100 : 0);
    agreement.meet();
    std::optional<FewFiles> few;
    if (agreement.rank() == 0) few.emplace(80);  // of the process: the first message arrives
    agreement.meet();
    const Received all = post_handles(agreement, std::move(mine));
    agreement.meet();
    few.reset();
    if (agreement.rank() == 0) expect_files_of(0, 100, all[0]);
    if (agreement.rank() == 1) {
      EXPECT_TRUE(all[0].handles.empty());
      EXPECT_EQ(all[0].missing, "recvmsg: Too many open files");
    }
  });
  EXPECT_EQ(open_files(), before);
}

TEST(HandlePost, WithoutASocketNothingArrives) {
  as_ranks(2, [](const Agreement& agreement) {
    std::vector<Handle> mine = files_of(agreement.rank(), 1);
    agreement.meet();
    std::optional<FewFiles> few;
    if (agreement.rank() == 0) few.emplace(0);
    agreement.meet();
    const Received all = post_handles(agreement, std::move(mine));
    agreement.meet();
    few.reset();
    expect_files_of(agreement.rank(), 1, all[static_cast<std::size_t>(agreement.rank())]);
    const Delivery& other = all[static_cast<std::size_t>(1 - agreement.rank())];
    EXPECT_TRUE(other.handles.empty());
    EXPECT_EQ(other.missing, "a socket: Too many open files");
  });
}

TEST(HandlePost, WhatAnotherUserSendsIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root is another user at will";
  const int before = open_files();
  as_ranks(2, [](const Agreement& agreement) {
    // The system's own call: of this thread alone.
    if (agreement.rank() == 1) {
      ASSERT_EQ(syscall(SYS_setresuid, 65534, -1, -1), 0);
    }
    const Received all = post_handles(agreement, files_of(agreement.rank(), 1));
    const Delivery& other = all[static_cast<std::size_t>(1 - agreement.rank())];
    EXPECT_TRUE(other.handles.empty());
    EXPECT_EQ(other.missing, "another user has sent them");
  });
  EXPECT_EQ(open_files(), before);
}

/// A process may send what others of its user have left it of a number of files (RLIMIT_NOFILE), unless it
/// has rights over the system's resources.
class InFlight {
 public:
  InFlight() {
    const rlimit few{100, 100};
    EXPECT_TRUE(geteuid() != 0 || setuid(65534) == 0);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends_.data()), 0);
    while (send()) continue;
  }
  void end() {
    for (const int each : ends_) close(each);
  }

 private:
  [[nodiscard]] bool send() const {
    constexpr std::size_t kFiles = 60;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kFiles * sizeof(int))> control{};
    char word = 0;
    iovec part{&word, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    *header = {CMSG_LEN(kFiles * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::vector<int> files(kFiles, STDERR_FILENO);
    std::memcpy(CMSG_DATA(header), files.data(), kFiles * sizeof(int));
    return sendmsg(ends_[0], &message, MSG_DONTWAIT) >= 0;
  }
  std::array<int, 2> ends_{};
};

TEST(HandlePost, WhatFindsNoRoomIsSentLater) {
  const auto deliver = [] {
    InFlight others;
    EXPECT_EQ(errno, ETOOMANYREFS);
    std::jthread end([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      others.end();
    });
    as_ranks(2, [](const Agreement& agreement) {
      const Received all = post_handles(agreement, files_of(agreement.rank(), 2));
      for (int rank = 0; rank < 2; ++rank) expect_files_of(rank, 2, all[static_cast<std::size_t>(rank)]);
    });
  };
  EXPECT_EXIT((deliver(), std::_Exit(testing::Test::HasFailure() ? 1 : 0)), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tapa::device
