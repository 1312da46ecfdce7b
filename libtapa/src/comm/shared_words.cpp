#include "comm/shared_words.hpp"

#include <unistd.h>

#include <new>
#include <optional>
#include <string>

#include "run/error.hpp"
#include "run/log.hpp"
#include "run/on_all_ranks.hpp"
#include "run/world.hpp"
#include "transport/shm_segment.hpp"

namespace tapa {

namespace {

constexpr std::size_t kWordsAt = 128;  // in a segment: processors fetch lines in pairs

Mapping map_token(const char* token) {
  const int fd = ShmSegment::open_token(token);
  if (fd < 0) return {};
  Mapping mapping(fd, 0, page_bytes());
  ::close(fd);
  return mapping;
}

}  // namespace

// Not MPI's windows, as these are freed together.
bool SharedWords::open(MPI_Comm comm) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  const auto count = static_cast<std::size_t>(size_of(comm));
  std::string why;
  TokenText own{};
  std::optional<ShmSegment> segment;
  std::vector<TokenText> tokens;
  const auto make_room = [&] {
    tokens.resize(count);
    mappings_.reserve(count);
    of_rank_.reserve(count);
    if (share_.grow(count, count * page_bytes(), why)) segment = ShmSegment::create(why);
    if (!segment) throw std::bad_alloc();
    segment->token().copy(own.data(), own.size() - 1);
  };
  constexpr int bytes = sizeof own;
  bool good = on_all_ranks(comm, make_room);
  if (good) {
    check_mpi(PMPI_Allgather(own.data(), bytes, MPI_BYTE, tokens.data(), bytes, MPI_BYTE, comm),
              "MPI_Allgather");
    // New files are clear: who is through here first may write at once.
    good = on_all_ranks(comm, [&] { map(tokens, static_cast<std::size_t>(rank_in(comm))); });
  }
  if (good) return true;
  close();
  log_info("no memory for shared words" + (why.empty() ? why : ": " + why));
  return false;
}

void SharedWords::map(std::span<const TokenText> tokens, std::size_t rank) {
  for (std::size_t peer = 0; peer < tokens.size(); ++peer) {
    Mapping mapping = map_token(tokens[peer].data());
    if (!mapping.ok()) throw std::bad_alloc();
    auto* const words =
        std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping.address() + kWordsAt));
    if (peer == rank)
      own_ = words;
    else
      of_rank_.push_back(words);
    mappings_.push_back(std::move(mapping));
  }
}

void SharedWords::close() {
  of_rank_.clear();
  own_ = nullptr;
  mappings_.clear();
  share_ = {};
}

}  // namespace tapa
