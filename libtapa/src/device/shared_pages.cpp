#include "device/shared_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "device/cuda_objects.hpp"
#include "device/device_error.hpp"

namespace tapa::device {

namespace {

[[noreturn]] void throw_errno(const std::string& what) {
  throw DeviceError(TAPA_DEVICE_ERR_MEMORY, what + ": " + std::strerror(errno));
}

}  // namespace

Handle make_shared_file(std::size_t bytes) {
  Handle made{Descriptor(::memfd_create("tapa", MFD_CLOEXEC)), bytes};
  if (!made.file.is_open()) throw_errno("memfd_create");
  if (::ftruncate(made.file.get(), static_cast<off_t>(bytes)) != 0)
    throw_errno("a shared file of " + std::to_string(bytes) + " bytes");
  return made;
}

SharedPages::SharedPages(const Handle& file, std::size_t at, std::size_t bytes) : bytes_(bytes) {
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.file.get(), static_cast<off_t>(at));
  if (pages == MAP_FAILED) throw_errno("mapping " + std::to_string(bytes) + " shared bytes");
  (void)::madvise(pages, bytes, MADV_DONTFORK);
  try {
    register_pages(pages, bytes);
  } catch (const DeviceError&) {
    (void)::munmap(pages, bytes);
    throw;
  }
  memory_ = static_cast<std::byte*>(pages);
}
SharedPages::~SharedPages() {
  if (memory_ == nullptr) return;
  (void)cudaHostUnregister(memory_);
  (void)::munmap(memory_, bytes_);
}

}  // namespace tapa::device
