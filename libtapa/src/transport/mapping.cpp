#include "transport/mapping.hpp"

#include <sys/resource.h>

#include <fstream>
#include <utility>

#include "transport/memory_file.hpp"

namespace tapa {

namespace {

constexpr std::size_t kPart = 10;  // of what the system allows, the part that this library may hold

std::size_t allowed_mappings() {
  constexpr std::size_t usual = 65'530;  // where the system does not tell
  std::size_t most = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  return (most > 0 ? most : usual) / kPart;
}

std::size_t allowed_bytes() {
  // Address space alone costs nothing where it is not limited: communicators then come to some GiB before
  // they reach the number of mappings; buffers of other ranks may be longer.
  constexpr std::size_t enough = std::size_t{1} << 40;
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? static_cast<std::size_t>(limit.rlim_cur) / kPart : enough;
}

}  // namespace

Mapping::Mapping(void* address, std::size_t bytes) {
  if (address == MAP_FAILED) return;
  address_ = address;
  bytes_ = bytes;
}

Mapping::Mapping(int fd, std::size_t offset, std::size_t bytes, int protection)
    : Mapping(mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset)), bytes) {}

// Of a shared mapping without length the kernel makes another one, as long as one likes.
Mapping Mapping::behind(const Mapping& before, std::size_t bytes) {
  const std::size_t page = page_bytes();
  std::byte* const last = before.address() + before.bytes() - page;
  return {mremap(last, 0, page + bytes, MREMAP_MAYMOVE), page + bytes};
}

Mapping::Mapping(Mapping&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

MapBudget& MapBudget::of_process() {
  static auto* const instance = new MapBudget(allowed_mappings(), allowed_bytes());
  return *instance;
}

bool MapBudget::take(std::size_t mappings, std::size_t bytes, std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto over = [&](std::size_t held, std::size_t more, std::size_t most, const char* what) {
    if (more <= most - held) return false;
    why = "shared memory of this process would take " + std::to_string(held + more) + " " + what + ", " +
          std::to_string(most) + " are its share of what the system allows";
    return true;
  };
  if (over(mappings_, mappings, most_mappings_, "mappings") ||
      over(bytes_, bytes, most_bytes_, "bytes of address space")) {
    return false;
  }
  mappings_ += mappings;
  bytes_ += bytes;
  return true;
}

void MapBudget::give(std::size_t mappings, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  mappings_ -= mappings;
  bytes_ -= bytes;
}

std::size_t MapBudget::left_bytes() {
  const std::lock_guard lock(mutex_);
  return most_bytes_ - bytes_;
}

MapShare::MapShare(MapShare&& other) noexcept
    : mappings_(std::exchange(other.mappings_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

MapShare& MapShare::operator=(MapShare&& other) noexcept {
  std::swap(mappings_, other.mappings_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MapShare::~MapShare() {
  if (mappings_ > 0 || bytes_ > 0) MapBudget::of_process().give(mappings_, bytes_);
}

bool MapShare::grow(std::size_t mappings, std::size_t bytes, std::string& why) {
  if (!MapBudget::of_process().take(mappings, bytes, why)) return false;
  mappings_ += mappings;
  bytes_ += bytes;
  return true;
}

}  // namespace tapa
