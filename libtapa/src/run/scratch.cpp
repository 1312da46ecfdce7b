#include "run/scratch.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "memory/reserve.hpp"

namespace tapa {

namespace {

constexpr std::size_t kMostPieces = 16;  // to be looked through

struct Piece {
  std::unique_ptr<std::byte[]> memory;
  std::size_t size;
};

/// Never destroyed: MPI may call after static objects end.
struct Kept {
  Kept() { pieces.reserve(kMostPieces); }  // giving back must not fail
  std::mutex mutex;
  std::vector<Piece> pieces;
  std::size_t bytes = 0;
  std::size_t most = std::size_t{32} << 20;
};

Kept& kept_pieces() {
  static auto* instance = new Kept;
  return *instance;
}

/// The smallest that is large enough, but no more than four times as large; or nothing.
Piece take(std::size_t bytes) {
  Kept& k = kept_pieces();
  const std::lock_guard lock(k.mutex);
  auto best = k.pieces.end();
  for (auto piece = k.pieces.begin(); piece != k.pieces.end(); ++piece) {
    const bool fits = piece->size >= bytes && piece->size / 4 <= bytes;
    if (fits && (best == k.pieces.end() || piece->size < best->size)) best = piece;
  }
  if (best == k.pieces.end()) return {nullptr, 0};
  Piece taken = std::move(*best);
  k.pieces.erase(best);
  k.bytes -= taken.size;
  return taken;
}

/// Frees what was given back longest ago until so many bytes and one piece more may be kept.
void make_room(Kept& k, std::size_t bytes) {
  while (!k.pieces.empty() && (k.bytes + bytes > k.most || k.pieces.size() >= kMostPieces)) {
    k.bytes -= k.pieces.front().size;
    k.pieces.erase(k.pieces.begin());
  }
}

void give(Piece piece) noexcept {
  if (piece.memory == nullptr) return;
  Kept& k = kept_pieces();
  const std::lock_guard lock(k.mutex);
  if (piece.size > k.most) return;
  make_room(k, piece.size);
  k.bytes += piece.size;
  k.pieces.push_back(std::move(piece));
}

void free_kept() {
  Kept& k = kept_pieces();
  const std::lock_guard lock(k.mutex);
  k.pieces.clear();
  k.bytes = 0;
}

/// From the system; where it has none, without what is kept for later.
Piece allocate(std::size_t bytes) {
  try {
    return {memory::for_blocks(bytes), bytes};
  } catch (const std::bad_alloc&) {
    free_kept();
    return {memory::for_blocks(bytes), bytes};
  }
}

}  // namespace

Scratch::Scratch(std::size_t bytes) {
  Piece piece = take(bytes);
  if (piece.memory == nullptr) piece = allocate(bytes);
  memory_ = std::move(piece.memory);
  size_ = piece.size;
}

Scratch::~Scratch() {
  give({std::move(memory_), size_});
}

Scratch::Scratch(Scratch&& other) noexcept
    : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

void Scratch::keep_at_most(std::size_t bytes) {
  Kept& k = kept_pieces();
  const std::lock_guard lock(k.mutex);
  k.most = bytes;
  make_room(k, 0);
}

std::size_t Scratch::kept() {
  Kept& k = kept_pieces();
  const std::lock_guard lock(k.mutex);
  return k.bytes;
}

}  // namespace tapa
