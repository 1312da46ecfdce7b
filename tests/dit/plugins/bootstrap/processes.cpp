// Ranks that are processes, joined by sockets with the first one: the checks for any plugin, with the plugin
// as it is loaded by name. "processes RANKS".
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "checks.hpp"
#include "dit/bootstrap.h"

namespace {

/// Sockets to the ranks that this one talks to: of rank 0 to all others, of others to rank 0.
struct Sockets {
  int rank = 0;
  std::vector<int> to;
};

bool send_all(int socket, const void* bytes, std::size_t count) {
  for (std::size_t done = 0; done < count;) {
    const ssize_t sent =
        TEMP_FAILURE_RETRY(send(socket, static_cast<const char*>(bytes) + done, count - done, MSG_NOSIGNAL));
    if (sent <= 0) return false;
    done += static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* bytes, std::size_t count) {
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = TEMP_FAILURE_RETRY(recv(socket, static_cast<char*>(bytes) + done, count - done, 0));
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

// Rank 0 collects what all give and sends it to all.
int allgather(void* user, const void* mine, void* all, std::size_t bytes) {
  const auto& sockets = *static_cast<const Sockets*>(user);
  const std::size_t size = sockets.to.size();
  auto* const begin = static_cast<char*>(all);
  if (sockets.rank != 0)
    return send_all(sockets.to[0], mine, bytes) && receive_all(sockets.to[0], begin, size * bytes) ? 0 : 1;
  std::memcpy(begin, mine, bytes);
  for (std::size_t peer = 1; peer < size; ++peer)
    if (!receive_all(sockets.to[peer], begin + peer * bytes, bytes)) return 1;
  for (std::size_t peer = 1; peer < size; ++peer)
    if (!send_all(sockets.to[peer], begin, size * bytes)) return 1;
  return 0;
}

int run_checks(dit::ExchangeContext& context) {
  int failed = 0;
  for (const dit::conformance::Check& check : dit::conformance::all_checks()) {
    const dit::conformance::Result result = run_check(check, context);
    if (result.passed()) continue;
    ++failed;
    std::fprintf(stderr, "rank %d: %s: %s\n", context.rank(), result.name.c_str(), result.problem.c_str());
  }
  return failed;
}

int run_rank(Sockets& sockets) {
  dit_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof(bootstrap);
  bootstrap.rank = sockets.rank;
  bootstrap.size = static_cast<int>(sockets.to.size());
  bootstrap.allgather = allgather;
  bootstrap.user = &sockets;
  try {
    dit::ExchangeContext context(dit::ExchangePlugin::load("bootstrap"), {&bootstrap, 60, ""});
    const int failed = run_checks(context);
    context.close();
    return failed == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", sockets.rank, error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc == 2 ? std::atoi(argv[1]) : 0;
  if (ranks < 1) {
    std::fprintf(stderr, "usage: %s RANKS\n", argv[0]);
    return 2;
  }
  Sockets first{0, std::vector<int>(static_cast<std::size_t>(ranks), -1)};
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 2;
    const pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
      for (const int other : first.to)
        if (other >= 0) close(other);
      close(pair[0]);
      Sockets mine{rank, std::vector<int>(static_cast<std::size_t>(ranks), pair[1])};
      return run_rank(mine);
    }
    close(pair[1]);
    first.to[static_cast<std::size_t>(rank)] = pair[0];
    children.push_back(child);
  }
  int failed = run_rank(first);
  for (const int socket : first.to)
    if (socket >= 0) close(socket);  // whoever still waits for rank 0 is told
  for (const pid_t child : children) {
    int status = 0;
    TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
    failed += status == 0 ? 0 : 1;
  }
  std::printf("%d ranks, %d failed\n", ranks, failed);
  return failed == 0 ? 0 : 1;
}
