#include "world/hello.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "device/places.hpp"
#include "files/environment.hpp"
#include "run/error.hpp"
#include "run/own_mpi.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "tapa/device.h"
#include "tapa/tapa.h"
#include "topology/sysfs.hpp"
#include "world/drop_in.hpp"
#include "world/watched.hpp"

namespace tapa {

namespace {

// Another version of this agreement shows another number. Never 0: nothing has come from that rank yet.
constexpr std::uint64_t kMagic = 0x7461706100000009;

constexpr std::uint64_t kVersion = TAPA_VERSION_MAJOR << 16 | TAPA_VERSION_MINOR << 8 | TAPA_VERSION_PATCH;

std::string version_text(std::uint64_t version) {
  return words(version >> 16, ".", version >> 8 & 0xff, ".", version & 0xff);
}

/// The same where ranks can open each other's files: kernel, its boot, host name, process numbers.
std::uint64_t host_number() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return std::hash<std::string>{}(std::string(name) + "/" + device::own_processes());
}

/// Whether Open MPI's TCP transport was told to use one interface, by hand or by the drop-in.
bool has_one_rail() {
  const char* include = files::variable("OMPI_MCA_btl_tcp_if_include");
  return include != nullptr && *include != '\0' && std::strchr(include, ',') == nullptr;
}

bool is_on(const char* variable) {
  const char* const text = files::variable(variable);
  return text != nullptr && std::string_view(text) == "1";
}

/// By the devices through which drivers are reached.
bool sees_gpus() {
  for (const char* device : {"/dev/nvidiactl", "/dev/kfd", "/dev/dri"}) {
    if (access(device, F_OK) == 0) return true;
  }
  return false;
}

/// A number that /sys has of a processor, and 1 more; 0: it has none.
std::uint32_t sysfs_number(int cpu, const char* what) {
  const std::string text = read_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + what);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end != text.data() ? number + 1 : 0;
}

}  // namespace

Hello own_hello(const ShmSegment* file) {
  Hello hello{};
  hello.magic = kMagic;
  hello.version = kVersion;
  hello.host = host_number();
  hello.device_node = std::hash<std::string>{}(device::own_node());
  hello.most_bytes = MapBudget::of_process().left_bytes();
  hello.has_progress = Progress::instance().always_advances() ? 1 : 0;
  hello.has_engine = has_device_engine() ? 1 : 0;
  hello.mpi_takes = mpi_takes_device_memory() ? 1 : 0;
  hello.one_rail = has_one_rail() ? 1 : 0;
  hello.sees_gpus = sees_gpus() ? 1 : 0;
  if (file != nullptr) file->token().copy(hello.token.data(), hello.token.size() - 1);
  return hello;
}

std::vector<Hello> gather_hellos(const Hello& own, MPI_Comm comm, const JointSteps& steps) {
  std::vector<Hello> all(static_cast<std::size_t>(size_of(comm)));
  constexpr int bytes = sizeof own;
  steps.meet();
  // In MPI_Init nobody can be missing.
  if (is_drop_in() && comm == MPI_COMM_WORLD) {
    check_mpi(PMPI_Allgather(&own, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, comm), "MPI_Allgather");
    return all;
  }
  hear_all(own, &Hello::magic, std::span(all), comm, true);
  tell_all(all.data(), all.size() * sizeof own, comm, true);
  return all;
}

void check_versions(const std::vector<Hello>& hellos) {
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    const Hello& h = hellos[r];
    if (h.magic == hellos[0].magic && h.version == hellos[0].version) continue;
    throw CallError(MPI_ERR_OTHER,
                    words("rank ", r, " has libtapa ", version_text(h.version), ", rank 0 has ",
                          version_text(hellos[0].version), ", expected the same on all ranks"),
                    CallError::Seen::everywhere);
  }
}

Cores own_cores() {
  Cores cores{};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::size_t core = 0; core < std::min<std::size_t>(CPU_SETSIZE, 64 * cores.size()); ++core) {
    if (CPU_ISSET(core, &set)) cores[core / 64] |= std::uint64_t{1} << core % 64;
  }
  return cores;
}

NodeArena::Place place_of(const Cores& cores) {
  int first = -1;
  int last = -1;
  int count = 0;
  for (std::size_t word = 0; word < cores.size(); ++word) {
    if (cores[word] == 0) continue;
    if (first < 0) first = static_cast<int>(64 * word) + std::countr_zero(cores[word]);
    last = static_cast<int>(64 * word) + 63 - std::countl_zero(cores[word]);
    count += std::popcount(cores[word]);
  }
  if (first < 0 || count >= sysconf(_SC_NPROCESSORS_ONLN)) return {0, 0, cores};
  const auto both = [&](const char* what) {
    const std::uint32_t number = sysfs_number(first, what);
    return first == last || sysfs_number(last, what) == number ? number : 0;
  };
  return {both("cache/index3/id"), both("topology/physical_package_id"), cores};
}

bool has_device_engine() {
  return TAPA_Device_query(TAPA_DEVICE_COMM_NULL, nullptr) != TAPA_DEVICE_ERR_UNSUPPORTED;
}

bool mpi_takes_device_memory() {
  if (void* const query = find_in_mpi("MPIX_Query_cuda_support"))
    return reinterpret_cast<int (*)()>(query)() != 0;
  if (void* const query = find_in_mpi("MPIX_GPU_query_support")) {  // MPICH
    constexpr int cuda = 0;
    int supported = 0;
    return reinterpret_cast<int (*)(int, int*)>(query)(cuda, &supported) == MPI_SUCCESS && supported != 0;
  }
  return is_on("MPICH_GPU_SUPPORT_ENABLED") || is_on("MV2_USE_CUDA");  // Cray MPICH, MVAPICH2
}

int ranks_started_here() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (const char* text = files::variable(name)) return std::atoi(text);
  }
  return 0;
}

}  // namespace tapa
