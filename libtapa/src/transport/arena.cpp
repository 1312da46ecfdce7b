#include "transport/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

namespace tapa {

namespace {

constexpr std::size_t kHeaderBytes = 4096;

/// The first page of an allocation's file; others read it.
struct Header {
  ArenaKey key;
  std::uint64_t first;  // address of the first byte of the allocation in its process
  std::uint64_t bytes;
  std::atomic<std::uint32_t> freed;
};

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
  Arena arena;
  arena.fd = memfd_create("tapa-buffer", MFD_CLOEXEC);
  if (arena.fd < 0) return {};
  if (ftruncate(arena.fd, static_cast<off_t>(kHeaderBytes + bytes)) == 0)
    arena.map = Mapping(arena.fd, 0, kHeaderBytes + bytes);
  if (!arena.map.ok()) {
    close(arena.fd);
    return {};
  }
  auto* const base = static_cast<std::byte*>(arena.map.address());
  madvise(base, kHeaderBytes + bytes, MADV_HUGEPAGE);  // where the system allows them for shared memory
  arena.bytes = bytes;
  arena.key = key_of(arena.fd, next_++);
  auto* const header = reinterpret_cast<Header*>(base);
  header->key = arena.key;
  header->first = number(base + kHeaderBytes);
  header->bytes = bytes;
  return arena;
}

void* Arenas::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Arena arena = open(bytes);
  void* memory = nullptr;
  if (arena.map.ok()) {
    memory = static_cast<std::byte*>(arena.map.address()) + kHeaderBytes;
    ++files_;
  } else {
    memory = std::aligned_alloc(
        kHeaderBytes, (std::max<std::size_t>(bytes, 1) + kHeaderBytes - 1) / kHeaderBytes * kHeaderBytes);
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
    static_cast<Header*>(arena.map.address())->freed.store(1, std::memory_order_release);
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

Mapping ArenaViews::open(pid_t pid, ArenaKey key) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor_of(key));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  struct stat status {};
  Mapping map;
  if (fstat(fd, &status) == 0 && static_cast<std::size_t>(status.st_size) > kHeaderBytes)
    map = Mapping(fd, 0, static_cast<std::size_t>(status.st_size), PROT_READ);
  close(fd);
  if (!map.ok()) return {};
  const auto* const header = static_cast<const Header*>(map.address());
  const bool right = header->key == key && header->bytes == map.bytes() - kHeaderBytes;
  return right ? std::move(map) : Mapping();
}

const std::byte* ArenaViews::view(pid_t pid, ArenaKey key, std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto found = std::ranges::find_if(views_, [&](const View& v) { return v.pid == pid && v.key == key; });
  if (found == views_.end()) {
    std::erase_if(views_, [](const View& v) {
      return static_cast<const Header*>(v.map.address())->freed.load(std::memory_order_acquire) != 0;
    });
    Mapping map = open(pid, key);
    if (!map.ok()) return nullptr;
    views_.push_front({pid, key, std::move(map)});
    found = views_.begin();
  }
  views_.splice(views_.begin(), views_, found);
  const auto* const header = static_cast<const Header*>(found->map.address());
  if (address < header->first || address - header->first > header->bytes ||
      bytes > header->bytes - (address - header->first)) {
    return nullptr;
  }
  return static_cast<const std::byte*>(found->map.address()) + kHeaderBytes + (address - header->first);
}

}  // namespace tapa
