#include "bootstrap/shared_starts.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>

#include "common/agree.hpp"

namespace dit {
namespace {

constexpr std::size_t kChannels = 64;  ///< those with greater numbers are not looked after

struct File {
  explicit File(int opened) : number(opened) {}
  ~File() {
    if (number >= 0) close(number);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const int number;
};

/// How the others of a node find a file of a process.
struct Place {
  std::array<char, 48> path{};  ///< "": there is none
  std::array<char, 48> title{};
};

Place new_place() {
  Place place;
  std::random_device random;
  std::snprintf(place.title.data(), place.title.size(), "dit-starts-%08x%08x", random(), random());
  return place;
}

/// An anonymous one, and none of /dev/shm: that may be full, in containers, and who writes to a full one is
/// killed.
int make_file(Place& place, std::size_t bytes) {
  const int file = memfd_create(place.title.data(), MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0)
    std::snprintf(place.path.data(), place.path.size(), "/proc/%ld/fd/%d", static_cast<long>(getpid()), file);
  return file;
}

/// -1 where it is not to be seen. Processes that number others differently may have another file at that
/// path.
int open_file(const Place& place) {
  std::array<char, 96> target{};
  const ssize_t length = readlink(place.path.data(), target.data(), target.size());
  const std::string expected = std::string("/memfd:") + place.title.data() + " (deleted)";
  if (length < 0 || std::string_view(target.data(), static_cast<std::size_t>(length)) != expected) return -1;
  return open(place.path.data(), O_RDWR | O_CLOEXEC);
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
  Place mine = new_place();
  const File own(creates ? make_file(mine, bytes_for(node_of.size())) : -1);
  const File file(open_file(gather(ranks, mine)[first]));
  const std::vector<char> all = gather(ranks, static_cast<char>(starts->map(file.number) ? 1 : 0));
  for (std::size_t peer = 0; peer < all.size(); ++peer)
    if (node_of[peer] == node && all[peer] == 0) return nullptr;
  return starts;
}

bool SharedStarts::map(int file) {
  if (file < 0) return false;
  void* const memory = mmap(nullptr, bytes_for(node_of_.size()), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return false;
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
