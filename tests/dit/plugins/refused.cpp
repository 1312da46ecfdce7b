// "refused CALL ERROR COMMAND...": COMMAND where the kernel refuses a system call, as sandboxes do.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "faults/refuse.hpp"

int main(int argc, char** argv) {
  constexpr std::pair<std::string_view, long> calls[] = {{"clone3", SYS_clone3},
                                                         {"eventfd2", SYS_eventfd2},
                                                         {"fallocate", SYS_fallocate},
                                                         {"ftruncate", SYS_ftruncate},
                                                         {"get_mempolicy", SYS_get_mempolicy},
                                                         {"getrandom", SYS_getrandom},
                                                         {"madvise", SYS_madvise},
                                                         {"memfd_create", SYS_memfd_create},
                                                         {"mlock", SYS_mlock},
                                                         {"pipe2", SYS_pipe2},
                                                         {"prctl", SYS_prctl},
                                                         {"prlimit64", SYS_prlimit64},
                                                         {"process_vm_readv", SYS_process_vm_readv},
                                                         {"process_vm_writev", SYS_process_vm_writev},
                                                         {"sched_getaffinity", SYS_sched_getaffinity},
                                                         {"sched_setaffinity", SYS_sched_setaffinity},
                                                         {"sched_setscheduler", SYS_sched_setscheduler},
                                                         {"setpriority", SYS_setpriority},
                                                         {"shmget", SYS_shmget},
                                                         {"socket", SYS_socket},
                                                         {"statx", SYS_statx},
                                                         {"sysinfo", SYS_sysinfo},
                                                         {"uname", SYS_uname}};
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const auto& [name, number] : calls) std::puts(name.data());
    return 0;
  }
  for (const auto& [name, number] : calls)
    if (argc > 3 && name == argv[1]) {
      if (!faults::refuse_call(number, std::atoi(argv[2]))) return 77;
      execvp(argv[3], argv + 3);
      std::perror(argv[3]);
      return 1;
    }
  std::fprintf(stderr, "usage: refused CALL ERROR COMMAND..., or refused --list\n");
  return 2;
}
