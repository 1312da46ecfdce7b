#include "transport/shm_segment.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace tapa {

void Doorbell::ring() {
  // Pairs with the fence in the sleeper: either it sees our change, or we see that it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleeping.load(std::memory_order_relaxed) == 0) return;
  rings.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::sleep(std::uint32_t seen, long microseconds) {
  const timespec timeout{microseconds / 1000000, (microseconds % 1000000) * 1000};
  syscall(SYS_futex, &rings, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

Mapping::Mapping(int fd, std::size_t offset, std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (p == MAP_FAILED) return;
  address_ = p;
  bytes_ = bytes;
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

std::size_t ShmSegment::ring_offset(int from) {
  return kHeader + static_cast<std::size_t>(from) * kRingBytes;
}

std::optional<ShmSegment> ShmSegment::create(int ranks, std::string& why) {
  const int fd = memfd_create("tapa", MFD_CLOEXEC);
  if (fd < 0) {
    why = std::string("memfd_create: ") + std::strerror(errno);
    return std::nullopt;
  }
  ShmSegment segment(fd);
  if (ftruncate(fd, static_cast<off_t>(ring_offset(ranks))) != 0) {
    why = std::string("ftruncate: ") + std::strerror(errno);
    return std::nullopt;
  }
  return segment;
}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ShmSegment::~ShmSegment() {
  if (fd_ >= 0) close(fd_);
}

std::string ShmSegment::token() const {
  return std::to_string(getpid()) + ":" + std::to_string(fd_);
}

int ShmSegment::open_token(const std::string& token) {
  char* end = nullptr;
  const long pid = std::strtol(token.c_str(), &end, 10);
  if (pid <= 0 || *end != ':') return -1;
  const long fd = std::strtol(end + 1, &end, 10);
  if (fd < 0 || *end != '\0') return -1;
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace tapa
