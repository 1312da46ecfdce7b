#include "transport/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tapa {

namespace {

// Newer than the headers of some systems. Under vm.memfd_noexec=2 the kernel refuses files without it.
constexpr unsigned kNoExecSeal = 0x8;

std::string failed(const char* call) {
  return std::string(call) + ": " + std::strerror(errno);
}

}  // namespace

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

int open_memory_file(const char* name, std::size_t bytes, std::string& why) {
  int fd = memfd_create(name, MFD_CLOEXEC | kNoExecSeal);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC);  // an older kernel
  if (fd < 0) {
    why = failed("memfd_create");
    return -1;
  }
  if (set_file_bytes(fd, bytes, why)) return fd;
  close(fd);
  return -1;
}

bool set_file_bytes(int fd, std::size_t bytes, std::string& why) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
    why = "files of this process may have " + std::to_string(limit.rlim_cur) + " bytes (ulimit -f), " +
          std::to_string(bytes) + " are needed";
    return false;
  }
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) return true;
  why = failed("ftruncate");
  return false;
}

void discard_file_bytes(int fd, std::size_t from, std::size_t bytes) {
  if (bytes == 0) return;
  // Where the kernel refuses, the memory lives until the last one unmaps it.
  static_cast<void>(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                              static_cast<off_t>(bytes)));
}

}  // namespace tapa
