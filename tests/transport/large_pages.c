/* Loaded before a test: a system whose pages have 64 KiB, as many of arm64 have. The page size is told so,
 * mappings begin on such pages, and what is not on them is refused as the kernel would. What the C library
 * maps for itself is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPage = 64 << 10 };

static int refuse(const char* call) {
  fprintf(stderr, "%s: not on a page of 64 KiB\n", call);
  errno = EINVAL;
  return -1;
}

static int on_page(const void* address) {
  return (uintptr_t)address % kPage == 0;
}

long sysconf(int name) {
  if (name == _SC_PAGESIZE) return kPage;
  long (*next)(int) = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "sysconf");
  return next(name);
}

int getpagesize(void) {
  return kPage;
}

static void* map(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return (void*)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}

static size_t whole_pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

/* Address space of whole pages: of one page more, the beginning and the end go back. */
static char* room_on_page(size_t bytes) {
  char* const room = map(NULL, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return room;
  char* const begin = room + (kPage - (uintptr_t)room % kPage) % kPage;
  if (begin > room) syscall(SYS_munmap, room, begin - room);
  if (begin < room + kPage) syscall(SYS_munmap, begin + bytes, room + kPage - begin);
  return begin;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  const int fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
  if (offset % kPage != 0 || (fixed && !on_page(address))) {
    refuse("mmap");
    return MAP_FAILED;
  }
  if (fixed || bytes == 0) return map(address, bytes, protection, flags, fd, offset);
  const size_t whole = whole_pages(bytes);
  char* const begin = room_on_page(whole);
  if (begin == MAP_FAILED) return begin;
  void* const placed = map(begin, bytes, protection, flags | MAP_FIXED, fd, offset);
  if (placed == MAP_FAILED) {
    const int error = errno;
    syscall(SYS_munmap, begin, whole);
    errno = error;
  }
  return placed;
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return mmap(address, bytes, protection, flags, fd, offset);
}

int munmap(void* address, size_t bytes) {
  if (!on_page(address)) return refuse("munmap");
  return (int)syscall(SYS_munmap, address, whole_pages(bytes));
}

/* As the project uses it: a second mapping of what is shared. */
void* mremap(void* old, size_t old_bytes, size_t bytes, int flags, ...) {
  if (!on_page(old) || old_bytes != 0 || flags != MREMAP_MAYMOVE) {
    refuse("mremap");
    return MAP_FAILED;
  }
  char* const begin = room_on_page(whole_pages(bytes));
  if (begin == MAP_FAILED) return begin;
  return (void*)syscall(SYS_mremap, old, old_bytes, bytes, flags | MREMAP_FIXED, begin);
}

int mprotect(void* address, size_t bytes, int protection) {
  if (!on_page(address)) return refuse("mprotect");
  return (int)syscall(SYS_mprotect, address, bytes, protection);
}

int madvise(void* address, size_t bytes, int advice) {
  if (!on_page(address)) return refuse("madvise");
  return (int)syscall(SYS_madvise, address, bytes, advice);
}
