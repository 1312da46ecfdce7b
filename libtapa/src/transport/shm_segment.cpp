#include "transport/shm_segment.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>

#include "transport/attach.hpp"

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

Mapping::Mapping(int fd, std::size_t offset, std::size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
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

std::optional<ShmSegment> ShmSegment::create(int ranks, std::size_t extra, std::string& why) {
  const auto failed = [&](const char* call) {
    why = std::string(call) + ": " + std::strerror(errno);
    return std::nullopt;
  };
  const int fd = memfd_create("tapa", MFD_CLOEXEC);
  if (fd < 0) return failed("memfd_create");
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) number = 0;
  ShmSegment segment(fd, number);
  const std::size_t bytes = slot_offset(static_cast<std::size_t>(ranks), kMaxCapacity) + extra;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return failed("ftruncate");
  if (pwrite(fd, &number, sizeof number, kNumberAt) != static_cast<ssize_t>(sizeof number))
    return failed("pwrite");
  return segment;
}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), number_(std::move(other.number_)) {}

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
  return std::to_string(getpid()) + ":" + std::to_string(fd_) + ":" + std::to_string(*number_) + ":" +
         std::to_string(reinterpret_cast<std::uintptr_t>(number_.get()));
}

namespace {

struct Token {
  pid_t pid = 0;
  int fd = 0;
  std::uint64_t number = 0;
  std::uint64_t address = 0;
};

std::optional<Token> parse(const std::string& text) {
  Token token;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  const auto take = [&](auto& value, bool last) {
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (last ? next != end : next == end || *next != ':')) return false;
    at = last ? next : next + 1;
    return true;
  };
  if (!take(token.pid, false) || !take(token.fd, false) || !take(token.number, false) ||
      !take(token.address, true) || token.pid <= 0 || token.fd < 0) {
    return std::nullopt;
  }
  return token;
}

}  // namespace

int ShmSegment::open_token(const std::string& text) {
  const auto token = parse(text);
  if (!token) return -1;
  const std::string path = "/proc/" + std::to_string(token->pid) + "/fd/" + std::to_string(token->fd);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return -1;
  std::uint64_t found = 0;
  const bool right = pread(opened, &found, sizeof found, kNumberAt) == static_cast<ssize_t>(sizeof found) &&
                     found == token->number;
  if (right) return opened;
  close(opened);
  return -1;
}

pid_t ShmSegment::process(const std::string& text) {
  const auto token = parse(text);
  return token ? token->pid : 0;
}

bool ShmSegment::readable(const std::string& text) {
  const auto token = parse(text);
  std::uint64_t found = 0;
  return token && read_process(token->pid, token->address, std::as_writable_bytes(std::span(&found, 1))) &&
         found == token->number;
}

}  // namespace tapa
