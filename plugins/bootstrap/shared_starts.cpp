#include "bootstrap/shared_starts.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <random>

namespace dit {
namespace {

constexpr std::size_t kChannels = 64;  ///< those with greater numbers are not looked after

using Name = std::array<char, 64>;

Name new_name() {
  static std::atomic<unsigned> made{0};
  Name name{};
  std::snprintf(name.data(), name.size(), "/dit-starts-%ld-%u-%08x", static_cast<long>(getpid()), made++,
                std::random_device()());
  return name;
}

std::size_t bytes_for(std::size_t ranks) {
  return ranks * kChannels * sizeof(std::uint64_t);
}

}  // namespace

SharedStarts::SharedStarts(int rank, const std::vector<int>& node_of)
    : rank_(static_cast<std::size_t>(rank)), node_of_(node_of) {}

SharedStarts::~SharedStarts() {
  if (counts_ != nullptr) munmap(counts_, bytes_for(node_of_.size()));
}

std::unique_ptr<SharedStarts> SharedStarts::make(Ranks& ranks, const std::vector<int>& node_of) {
  std::unique_ptr<SharedStarts> starts(new SharedStarts(ranks.rank(), node_of));
  const int node = node_of[starts->rank_];
  const auto first =
      static_cast<std::size_t>(std::find(node_of.begin(), node_of.end(), node) - node_of.begin());
  const bool creates = first == starts->rank_;
  Name mine{};
  if (creates) mine = new_name();
  bool mapped = creates && starts->map(mine.data(), true);
  if (!mapped) mine = {};
  const Name name = gather(ranks, mine)[first];
  if (!creates) mapped = name[0] != '\0' && starts->map(name.data(), false);
  const std::vector<char> all =
      gather(ranks, static_cast<char>(mapped ? 1 : 0));  // nobody needs the name any more
  if (creates && mapped) shm_unlink(name.data());
  for (std::size_t peer = 0; peer < all.size(); ++peer)
    if (node_of[peer] == node && all[peer] == 0) return nullptr;
  return starts;
}

bool SharedStarts::map(const char* name, bool create) {
  const int file = shm_open(name, O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
  if (file < 0) return false;
  const std::size_t bytes = bytes_for(node_of_.size());
  void* memory = MAP_FAILED;
  if (!create || ftruncate(file, static_cast<off_t>(bytes)) == 0)
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    if (create) shm_unlink(name);
    return false;
  }
  counts_ = static_cast<std::uint64_t*>(memory);
  return true;
}

std::uint64_t* SharedStarts::at(std::size_t rank, int channel) const {
  return counts_ + rank * kChannels + static_cast<std::size_t>(channel);
}

void SharedStarts::set(int channel, std::uint64_t number) {
  if (channel >= static_cast<int>(kChannels)) return;
  std::atomic_ref(*at(rank_, channel)).store(number);
}

std::string SharedStarts::missing(int channel, std::uint64_t number) const {
  std::string words;
  if (channel >= static_cast<int>(kChannels)) return words;
  for (std::size_t peer = 0; peer < node_of_.size(); ++peer) {
    if (node_of_[peer] != node_of_[rank_] || std::atomic_ref(*at(peer, channel)).load() >= number) continue;
    words += (words.empty() ? "rank " : ", rank ") + std::to_string(peer);
  }
  return words;
}

}  // namespace dit
