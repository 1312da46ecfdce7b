/// @file
/// What a machine may refuse a process from now on.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace faults {

inline bool install(sock_filter* code, unsigned short length) {
  const sock_fprog program{length, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// The system call fails with `error`, in all threads that begin from now on and in this one.
inline bool refuse_call(long number, int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return install(code, sizeof code / sizeof *code);
}

/// Memory that others see cannot be mapped: mmap with MAP_SHARED has no memory.
inline bool refuse_shared_mappings() {
  constexpr std::uint32_t map_shared = 1;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, map_shared, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return install(code, sizeof code / sizeof *code);
}

inline bool limit(decltype(RLIMIT_NOFILE) what, std::uint64_t most) {
  const rlimit value{static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  return setrlimit(what, &value) == 0;
}

/// Two descriptors are left.
inline bool leave_few_files() {
  const int lowest = dup(0);  // the next free descriptor
  close(lowest);
  return limit(RLIMIT_NOFILE, static_cast<std::uint64_t>(lowest) + 2);
}

/// Of files that are longer the kernel says SIGXFSZ, which ends a process.
inline bool leave_short_files() {
  return limit(RLIMIT_FSIZE, std::uint64_t{64} << 10);
}

}  // namespace faults
