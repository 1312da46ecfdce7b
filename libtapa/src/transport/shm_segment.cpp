#include "transport/shm_segment.hpp"

#include <fcntl.h>
#include <linux/futex.h>
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
constexpr off_t kNumberAt = 0;  // in the file
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

std::optional<ShmSegment> ShmSegment::create(std::string& why) {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) number = 0;
  const int fd = open_memory_file("tapa", page_bytes(), why);
  if (fd < 0) return std::nullopt;
  ShmSegment segment(fd, number);
  if (pwrite(fd, &number, sizeof number, kNumberAt) == static_cast<ssize_t>(sizeof number)) return segment;
  why = std::string("pwrite: ") + std::strerror(errno);
  return std::nullopt;
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
