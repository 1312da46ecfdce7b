#include "transport/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "transport/memory_file.hpp"

namespace tapa {

namespace {

/// The first page of an allocation's file; others read it.
struct Header {
  ArenaKey key;
  std::uint64_t first;  // address of the first byte of the allocation in its process
  std::uint64_t bytes;
  std::atomic<std::uint32_t> freed;
};

/// The allocation begins behind the page of the header.
std::size_t header_bytes() {
  return page_bytes();
}

const Header& header_of(const Mapping& map) {
  return *reinterpret_cast<const Header*>(map.address());
}

std::uintptr_t number(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

ArenaKey key_of(int fd, std::uint32_t serial) {
  return static_cast<ArenaKey>(serial) << 32 | static_cast<std::uint32_t>(fd);
}

int descriptor_of(ArenaKey key) {
  return static_cast<int>(key & 0xffffffffU);
}

}  // namespace

Arenas& Arenas::of_process() {
  static auto* const instance = new Arenas;
  return *instance;
}

/// An arena with a file, or an empty one.
Arenas::Arena Arenas::open(std::size_t bytes) {
  if (bytes < kShortest || files_ >= kMost) return {};
  std::string why;
  Arena arena;
  arena.fd = open_memory_file("tapa-buffer", header_bytes() + bytes, why);
  if (arena.fd < 0) return {};
  arena.map = Mapping(arena.fd, 0, header_bytes() + bytes);
  if (!arena.map.ok()) {
    close(arena.fd);
    return {};
  }
  std::byte* const base = arena.map.address();
  madvise(base, arena.map.bytes(), MADV_HUGEPAGE);  // where the system allows them for shared memory
  arena.bytes = bytes;
  arena.key = key_of(arena.fd, next_++);
  auto* const header = reinterpret_cast<Header*>(base);
  header->key = arena.key;
  header->first = number(base + header_bytes());
  header->bytes = bytes;
  return arena;
}

void* Arenas::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Arena arena = open(bytes);
  void* memory = nullptr;
  if (arena.map.ok()) {
    memory = arena.map.address() + header_bytes();
    ++files_;
  } else {
    memory = std::aligned_alloc(page_bytes(), whole_units(std::max<std::size_t>(bytes, 1), page_bytes()));
  }
  if (memory != nullptr) arenas_.emplace(number(memory), std::move(arena));
  return memory;
}

bool Arenas::free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = arenas_.find(number(memory));
  if (found == arenas_.end()) return false;
  const Arena& arena = found->second;
  if (arena.map.ok()) {
    reinterpret_cast<Header*>(arena.map.address())->freed.store(1, std::memory_order_release);
    // Others may still map it, for as long as they live; they do not read it any more.
    discard_file_bytes(arena.fd, header_bytes(), whole_units(arena.bytes, page_bytes()));
    close(arena.fd);
    --files_;
  } else {
    std::free(memory);
  }
  arenas_.erase(found);
  return true;
}

ArenaKey Arenas::find(const void* memory, std::size_t bytes) const {
  const std::shared_lock lock(mutex_);
  if (files_ == 0) return 0;
  auto after = arenas_.upper_bound(number(memory));
  if (after == arenas_.begin()) return 0;
  const auto& [first, arena] = *std::prev(after);
  const std::size_t offset = number(memory) - first;
  return offset <= arena.bytes && bytes <= arena.bytes - offset ? arena.key : 0;
}

ArenaViews& ArenaViews::of_process() {
  static auto* const instance = new ArenaViews;
  return *instance;
}

ArenaViews::View ArenaViews::open(pid_t pid, ArenaKey key) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor_of(key));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  struct stat status {};
  const std::size_t bytes = fstat(fd, &status) == 0 ? static_cast<std::size_t>(status.st_size) : 0;
  View view;
  std::string why;
  if (bytes > header_bytes() && view.share.grow(1, bytes, why)) view.map = Mapping(fd, 0, bytes, PROT_READ);
  close(fd);
  if (!view.map.ok()) return {};
  const Header& header = header_of(view.map);
  const bool right = header.key == key && header.bytes == bytes - header_bytes();
  return right ? std::move(view) : View();
}

bool ArenaViews::stale(const View& view) {
  return header_of(view.map).freed.load(std::memory_order_acquire) != 0;
}

/// Looks at one view, another one each time.
void ArenaViews::drop_if_stale() {
  if (next_look_ == views_.end()) next_look_ = views_.begin();
  if (next_look_ == views_.end()) return;
  next_look_ = stale(next_look_->second) ? views_.erase(next_look_) : std::next(next_look_);
}

const std::byte* ArenaViews::view(pid_t pid, ArenaKey key, std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  drop_if_stale();
  auto found = views_.find({pid, key});
  if (found == views_.end()) {
    std::erase_if(views_, [](const auto& entry) { return stale(entry.second); });
    next_look_ = views_.end();
    try {
      View view = open(pid, key);
      if (!view.map.ok()) return nullptr;
      found = views_.emplace(std::pair(pid, key), std::move(view)).first;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  const Header& header = header_of(found->second.map);
  if (address < header.first || address - header.first > header.bytes ||
      bytes > header.bytes - (address - header.first)) {
    return nullptr;
  }
  return found->second.map.address() + header_bytes() + (address - header.first);
}

}  // namespace tapa
