#include "comm/shared_words.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string>

#include "run/error.hpp"
#include "run/log.hpp"
#include "transport/shm_segment.hpp"

namespace tapa {

namespace {

constexpr std::size_t kWordsAt = 128;  // in a segment: processors fetch lines in pairs
constexpr std::size_t kTokenBytes = 128;
using TokenText = std::array<char, kTokenBytes>;

Mapping map_token(const TokenText& token) {
  const int fd = ShmSegment::open_token(token.data());
  if (fd < 0) return {};
  Mapping mapping(fd, 0, page_bytes());
  ::close(fd);
  return mapping;
}

}  // namespace

// Not MPI's windows, as these are freed together.
bool SharedWords::open(MPI_Comm comm) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  int rank = 0;
  int ranks = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &ranks);
  const auto count = static_cast<std::size_t>(ranks);
  std::string why;
  TokenText own{};
  std::optional<ShmSegment> segment;
  if (share_.grow(count, count * page_bytes(), why)) segment = ShmSegment::create(why);
  if (segment) segment->token().copy(own.data(), own.size() - 1);
  std::vector<TokenText> tokens(count);
  check_mpi(PMPI_Allgather(own.data(), kTokenBytes, MPI_BYTE, tokens.data(), kTokenBytes, MPI_BYTE, comm),
            "MPI_Allgather");
  for (int peer = 0; peer < ranks; ++peer) {
    Mapping mapping = map_token(tokens[static_cast<std::size_t>(peer)]);
    if (!mapping.ok()) break;
    auto* const words =
        std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping.address() + kWordsAt));
    if (peer == rank)
      own_ = words;
    else
      of_rank_.push_back(words);
    mappings_.push_back(std::move(mapping));
  }
  int good = mappings_.size() == count ? 1 : 0;
  if (good == 0) log_info("no memory for shared words" + (why.empty() ? why : ": " + why));
  // New files are clear: who is through here first may write at once.
  check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  if (good == 0) close();
  return good != 0;
}

void SharedWords::close() {
  of_rank_.clear();
  own_ = nullptr;
  mappings_.clear();
  share_ = {};
}

}  // namespace tapa
