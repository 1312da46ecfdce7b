#include "topology/hwloc_library.hpp"

#include <dlfcn.h>

#include <iterator>

static_assert(HWLOC_API_VERSION >> 16 == 2, "the library of hwloc 2 is loaded, libhwloc.so.15");

// X(result, function, parameters, arguments): all that hwloc_source.cpp and the inline functions that it uses
// call.
#define TAPA_HWLOC_FUNCTIONS(X)                                                                             \
  X(hwloc_bitmap_t, hwloc_bitmap_alloc, (), ())                                                             \
  X(void, hwloc_bitmap_free, (hwloc_bitmap_t bitmap), (bitmap))                                             \
  X(int, hwloc_bitmap_copy, (hwloc_bitmap_t to, hwloc_const_bitmap_t from), (to, from))                     \
  X(int, hwloc_bitmap_and, (hwloc_bitmap_t to, hwloc_const_bitmap_t a, hwloc_const_bitmap_t b), (to, a, b)) \
  X(int, hwloc_bitmap_first, (hwloc_const_bitmap_t bitmap), (bitmap))                                       \
  X(int, hwloc_bitmap_next, (hwloc_const_bitmap_t bitmap, int previous), (bitmap, previous))                \
  X(int, hwloc_bitmap_weight, (hwloc_const_bitmap_t bitmap), (bitmap))                                      \
  X(int, hwloc_bitmap_iszero, (hwloc_const_bitmap_t bitmap), (bitmap))                                      \
  X(int, hwloc_bitmap_isequal, (hwloc_const_bitmap_t a, hwloc_const_bitmap_t b), (a, b))                    \
  X(int, hwloc_bitmap_isincluded, (hwloc_const_bitmap_t part, hwloc_const_bitmap_t whole), (part, whole))   \
  X(int, hwloc_bitmap_intersects, (hwloc_const_bitmap_t a, hwloc_const_bitmap_t b), (a, b))                 \
  X(int, hwloc_topology_init, (hwloc_topology_t * topology), (topology))                                    \
  X(int, hwloc_topology_load, (hwloc_topology_t topology), (topology))                                      \
  X(void, hwloc_topology_destroy, (hwloc_topology_t topology), (topology))                                  \
  X(int, hwloc_topology_is_thissystem, (hwloc_topology_t topology), (topology))                             \
  X(int, hwloc_topology_set_components, (hwloc_topology_t topology, unsigned long flags, const char* name), \
    (topology, flags, name))                                                                                \
  X(int, hwloc_topology_set_io_types_filter, (hwloc_topology_t topology, hwloc_type_filter_e filter),       \
    (topology, filter))                                                                                     \
  X(hwloc_const_cpuset_t, hwloc_topology_get_allowed_cpuset, (hwloc_topology_t topology), (topology))       \
  X(int, hwloc_get_cpubind, (hwloc_topology_t topology, hwloc_cpuset_t set, int flags),                     \
    (topology, set, flags))                                                                                 \
  X(int, hwloc_get_type_depth, (hwloc_topology_t topology, hwloc_obj_type_t type), (topology, type))        \
  X(unsigned, hwloc_get_nbobjs_by_depth, (hwloc_topology_t topology, int depth), (topology, depth))         \
  X(hwloc_obj_t, hwloc_get_obj_by_depth, (hwloc_topology_t topology, int depth, unsigned index),            \
    (topology, depth, index))

// Names in # and ## are not replaced: they are hwloc's own, the function's is tapa_hwloc_*.
// NOLINTBEGIN(bugprone-macro-parentheses): parameter lists
#define TAPA_PASS_ON(RESULT, NAME, PARAMETERS, ARGUMENTS)                  \
  static void* address_of_##NAME = nullptr;                                \
  extern "C" RESULT NAME PARAMETERS {                                      \
    return reinterpret_cast<decltype(&NAME)>(address_of_##NAME) ARGUMENTS; \
  }
// NOLINTEND(bugprone-macro-parentheses)
TAPA_HWLOC_FUNCTIONS(TAPA_PASS_ON)

namespace tapa {

namespace {

struct Entry {
  const char* name;
  void** address;
};

#define TAPA_ENTRY(RESULT, NAME, PARAMETERS, ARGUMENTS) {#NAME, &address_of_##NAME},
constexpr Entry functions[] = {TAPA_HWLOC_FUNCTIONS(TAPA_ENTRY)};

std::string version_text(unsigned version) {
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff);
}

/// Where `address` lies.
std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "the program";
}

std::string load() {
  constexpr const char* file = "libhwloc.so.15";
  constexpr const char* version_name = "hwloc_get_api_version";
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return "cannot be loaded: " + std::string(why != nullptr ? why : file);
  }
  void* const own = ::dlsym(library, version_name);
  if (own == nullptr) return std::string(file) + " has no " + version_name;
  const unsigned found = reinterpret_cast<decltype(&hwloc_get_api_version)>(own)();
  if (found >> 16 != HWLOC_API_VERSION >> 16) {
    return std::string(file) + " has the interface " + version_text(found) + ", expected " +
           version_text(HWLOC_API_VERSION) + " or another of " + std::to_string(HWLOC_API_VERSION >> 16) +
           ".x";
  }
  // What libhwloc calls by its own functions' names would go there.
  if (void* const other = ::dlsym(RTLD_DEFAULT, version_name); other != nullptr && other != own) {
    return std::string(file) + " is not used beside " + file_of(other) +
           ", which has functions of the same names";
  }
  for (const Entry& entry : functions) {
    *entry.address = ::dlsym(library, entry.name);
    if (*entry.address == nullptr) return std::string(file) + " has no " + entry.name;
  }
  ::dlopen(file, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);  // its plugins (GPUs, XML) look for it there
  return {};
}

}  // namespace

const std::string& hwloc_problem() {
  static const auto* const problem = new std::string(load());  // outlives all destructors
  return *problem;
}

}  // namespace tapa
