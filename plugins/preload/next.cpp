#include "next.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "options.hpp"
#include "text.hpp"

namespace tapa::preload {

namespace {

// A function that neither tools nor other libraries that are loaded before MPI define.
constexpr const char* kOnlyMpi = "PMPI_Get_library_version";

/// File of the object that an address belongs to; null when that is unknown.
const char* file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fname : nullptr;
}

const char* file_of_the_drop_in() {
  const char* const file = file_of(reinterpret_cast<const void*>(&find_next));
  return file != nullptr ? file : "";
}

/// Files of the objects that were loaded after this one, in that order: one after the other, an empty one
/// last. (None may be opened while the loader goes through them.)
class LaterObjects {
 public:
  LaterObjects() {
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* data) {
          static_cast<LaterObjects*>(data)->see(object->dlpi_name);
          return 0;
        },
        this);
  }
  LaterObjects(const LaterObjects&) = delete;
  LaterObjects& operator=(const LaterObjects&) = delete;
  ~LaterObjects() { std::free(names_); }

  [[nodiscard]] const char* first() const { return names_ != nullptr ? names_ : ""; }
  static const char* after(const char* name) { return name + std::strlen(name) + 1; }

 private:
  void see(const char* name) {
    if (passed_ && *name != '\0') keep(name);
    passed_ = passed_ || std::strcmp(name, self_) == 0;
  }
  void keep(const char* name) {
    const auto bytes = std::strlen(name) + 1;
    auto* const longer = static_cast<char*>(std::realloc(names_, length_ + bytes + 1));
    if (longer == nullptr) return;
    names_ = longer;
    std::memcpy(names_ + length_, name, bytes);
    length_ += bytes;
    names_[length_] = '\0';
  }

  const char* self_ = file_of_the_drop_in();
  bool passed_ = false;
  char* names_ = nullptr;
  std::size_t length_ = 0;
};

/// `name` in an object that is loaded, or in those it was linked with.
void* find_in(const char* file, const char* name) {
  void* const handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, name);
  dlclose(handle);
  return found;
}

/// Whether `address` is not the MPI library's own function of that name.
bool is_of_a_tool(const char* name, const void* address) {
  const char* const mpi = file_of(find_next(kOnlyMpi));
  const void* const own = mpi != nullptr ? find_in(mpi, name) : nullptr;
  return own != nullptr && own != address;
}

}  // namespace

void* find_next(const char* name) {
  if (void* const found = dlsym(RTLD_NEXT, name)) return found;
  // What was opened later, as interpreters open MPI, RTLD_NEXT does not see.
  const LaterObjects objects;
  for (const char* file = objects.first(); *file != '\0'; file = LaterObjects::after(file)) {
    if (void* const found = find_in(file, name)) return found;
  }
  return nullptr;
}

void* next(const char* name) {
  if (void* const found = find_next(name)) return found;
  say("preload: no MPI library has %s; the program calls MPI, but none is loaded", name);
  std::abort();
}

void* object_of_mpi(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  return found != nullptr ? found : next(name);
}

bool has_mpi() {
  static std::atomic<bool> found{false};  // once found it stays
  if (!found.load(std::memory_order_relaxed)) {
    found.store(find_next(kOnlyMpi) != nullptr, std::memory_order_relaxed);
  }
  return found.load(std::memory_order_relaxed);
}

bool passes(const char* name, const void* address) {
  if (!enabled() || !has_mpi()) return true;
  return *name == 'M' && is_of_a_tool(name, address);
}

constexpr FunctionNames make_function_names() {
  FunctionNames names;
  auto name = names.begin();
  for (const std::string_view prefix : {"MPI_", "MPIX_"}) {
    for (const std::string_view call : {"Alltoall", "Ialltoall", "Neighbor_alltoall", "Ineighbor_alltoall"}) {
      for (const std::string_view form : {"", "v", "w"}) {
        for (const std::string_view suffix : {"", "_c"}) {
          (name++)->add(prefix, call, form, suffix);
          if (call[0] != 'I') (name++)->add(prefix, call, form, "_init", suffix);
        }
      }
    }
  }
  return names;
}

constinit const FunctionNames names_of_functions = make_function_names();

const FunctionNames& function_names() {
  return names_of_functions;
}

std::array<Taker, kFunctions> takers() {
  std::array<Taker, kFunctions> takers{};
  std::ranges::transform(function_names(), takers.begin(), [](const auto& name) {
    const void* const behind = dlsym(RTLD_NEXT, name.c_str());
    if (behind == nullptr) return Taker::drop_in;
    if (find_in(file_of_the_drop_in(), name.c_str()) == nullptr) return Taker::others;
    return passes(name.c_str(), behind) ? Taker::tool : Taker::drop_in;
  });
  return takers;
}

}  // namespace tapa::preload
