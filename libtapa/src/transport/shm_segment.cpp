#include "transport/shm_segment.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace tapa {

namespace {
constexpr off_t kNumberAt = 1024;  // in the first page, behind the doorbell
}

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

std::size_t ShmSegment::slot_bytes(std::size_t capacity) {
  constexpr std::size_t page = 4096;
  return (ShmRing::bytes_for(capacity) + page - 1) / page * page;
}

std::size_t ShmSegment::slot_offset(std::size_t index, std::size_t capacity) {
  return kHeader + index * slot_bytes(capacity);
}

std::optional<ShmSegment> ShmSegment::create(int ranks, std::string& why) {
  const auto failed = [&](const char* call) {
    why = std::string(call) + ": " + std::strerror(errno);
    return std::nullopt;
  };
  const int fd = memfd_create("tapa", MFD_CLOEXEC);
  if (fd < 0) return failed("memfd_create");
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) number = 0;
  ShmSegment segment(fd, number);
  const std::size_t bytes = slot_offset(static_cast<std::size_t>(ranks), kMaxCapacity);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return failed("ftruncate");
  if (pwrite(fd, &number, sizeof number, kNumberAt) != static_cast<ssize_t>(sizeof number))
    return failed("pwrite");
  return segment;
}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), number_(other.number_) {}

ShmSegment& ShmSegment::operator=(ShmSegment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(number_, other.number_);
  return *this;
}

ShmSegment::~ShmSegment() {
  close_file();
}

void ShmSegment::close_file() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string ShmSegment::token() const {
  return std::to_string(getpid()) + ":" + std::to_string(fd_) + ":" + std::to_string(number_);
}

int ShmSegment::open_token(const std::string& token) {
  char* end = nullptr;
  const long pid = std::strtol(token.c_str(), &end, 10);
  if (pid <= 0 || *end != ':') return -1;
  const long fd = std::strtol(end + 1, &end, 10);
  if (fd < 0 || *end != ':') return -1;
  const std::uint64_t number = std::strtoull(end + 1, &end, 10);
  if (*end != '\0') return -1;
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return -1;
  std::uint64_t found = 0;
  const bool right =
      pread(opened, &found, sizeof found, kNumberAt) == static_cast<ssize_t>(sizeof found) && found == number;
  if (right) return opened;
  close(opened);
  return -1;
}

}  // namespace tapa
