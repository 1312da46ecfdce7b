#include "run/device_memory.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapa {

namespace {

/// A driver that the process has loaded.
class GpuDriver {
 public:
  GpuDriver() = default;
  virtual ~GpuDriver() = default;
  GpuDriver(const GpuDriver&) = delete;
  GpuDriver& operator=(const GpuDriver&) = delete;

  /// Whether the program has initialised it.
  [[nodiscard]] virtual bool initialised() = 0;
  [[nodiscard]] virtual bool owns(const void* address) = 0;
};

template <class Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

// The declarations below are those of the drivers' own headers, which need not be there.

class Cuda final : public GpuDriver {
 public:
  explicit Cuda(void* library) : driver_(library) {}

  bool initialised() override {
    if (initialised_.load(std::memory_order_relaxed)) return true;
    if (!driver_.initialised()) return false;
    initialised_.store(true, std::memory_order_relaxed);
    return true;
  }
  bool owns(const void* address) override { return driver_.owns(address); }
  [[nodiscard]] CudaDriver& driver() { return driver_; }

 private:
  CudaDriver driver_;
  std::atomic<bool> initialised_ = false;  // and so it stays
};

/// Below HIP, whose own functions would set the error that the program asks for.
class Rocm final : public GpuDriver {
 public:
  explicit Rocm(void* library) {
    look_up(library, "hsa_amd_pointer_info", query_);
    look_up(library, "hsa_agent_get_info", agent_info_);
  }

  bool initialised() override {
    Info info;
    constexpr int not_initialised = 0x100b;
    return complete() && query_(&info, &info, nullptr, nullptr, nullptr) != not_initialised;
  }
  bool owns(const void* address) override {
    Info info;
    if (!complete() || query_(address, &info, nullptr, nullptr, nullptr) != 0 || info.type == 0) return false;
    constexpr int device = 17;
    int type = 0;
    return agent_info_(info.owner, device, &type) == 0 && type == kGpu;
  }

 private:
  static constexpr int kGpu = 1;
  struct Info {
    std::uint32_t size = sizeof(Info);  // the rest is as short as in the oldest version
    std::uint32_t type = 0;             // 0: not of the driver
    void* agent_base = nullptr;
    void* host_base = nullptr;
    std::size_t bytes = 0;
    void* user_data = nullptr;
    std::uint64_t owner = 0;
  };
  [[nodiscard]] bool complete() const { return query_ != nullptr && agent_info_ != nullptr; }

  int (*query_)(const void* address, Info* info, void* allocate, std::uint32_t* agents,
                void* accessible) = nullptr;
  int (*agent_info_)(std::uint64_t agent, int attribute, void* value) = nullptr;
};

/// Asks in a context of its own: each knows the memory of all contexts of its driver.
class LevelZero final : public GpuDriver {
 public:
  explicit LevelZero(void* library) {
    look_up(library, "zeDriverGet", drivers_);
    look_up(library, "zeContextCreate", create_);
    look_up(library, "zeMemGetAllocProperties", query_);
  }

  bool initialised() override {
    std::uint32_t count = 0;
    return complete() && drivers_(&count, nullptr) == 0 && count > 0;
  }
  bool owns(const void* address) override {
    if (!complete()) return false;
    std::call_once(made_, [&] { make_contexts(); });
    return std::ranges::any_of(contexts_, [&](void* context) {
      Properties found;
      constexpr std::uint32_t device = 2;
      return query_(context, address, &found, nullptr) == 0 && found.type == device;
    });
  }

 private:
  struct Description {
    std::uint32_t kind = 0xd;
    const void* next = nullptr;
    std::uint32_t flags = 0;
  };
  struct Properties {
    std::uint32_t kind = 0x17;
    void* next = nullptr;
    std::uint32_t type = 0;
    std::uint64_t id = 0;
    std::uint64_t page = 0;
  };
  [[nodiscard]] bool complete() const {
    return drivers_ != nullptr && create_ != nullptr && query_ != nullptr;
  }
  void make_contexts() {
    std::uint32_t count = 0;
    if (drivers_(&count, nullptr) != 0) return;
    std::vector<void*> drivers(count);
    if (drivers_(&count, drivers.data()) != 0) return;
    for (void* const driver : drivers) {
      const Description description;
      void* context = nullptr;
      if (create_(driver, &description, &context) == 0) contexts_.push_back(context);
    }
  }

  int (*drivers_)(std::uint32_t* count, void** drivers) = nullptr;
  int (*create_)(void* driver, const Description* description, void** context) = nullptr;
  int (*query_)(void* context, const void* address, Properties* found, void** device) = nullptr;
  std::once_flag made_;
  std::vector<void*> contexts_;
};

template <class Driver>
GpuDriver* make(void* library) {
  return new Driver(library);
}

/// What is looked for; found ones are kept for good, as calls may come while the process ends.
struct Row {
  std::string_view library;
  GpuDriver* (*make)(void* library);
  std::atomic<GpuDriver*> found = nullptr;
};
constinit Row rows[] = {
    {"libcuda.so", make<Cuda>}, {"libhsa-runtime64.so", make<Rocm>}, {"libze_loader.so", make<LevelZero>}};

struct Search {
  unsigned long long known = 0;  // libraries that were loaded before the last search
  unsigned long long loaded = 0;
  std::array<std::string, std::size(rows)> paths;
};

int look_at(dl_phdr_info* object, std::size_t, void* into) {
  auto& search = *static_cast<Search*>(into);
  search.loaded = object->dlpi_adds;
  if (search.loaded == search.known) return 1;
  const std::string_view path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (std::size_t i = 0; i < search.paths.size(); ++i) {
    if (file.starts_with(rows[i].library)) search.paths[i] = path;
  }
  return 0;
}

/// Notes the drivers that were loaded since the last call.
void search_drivers() {
  static constinit std::atomic<unsigned long long> known = std::numeric_limits<unsigned long long>::max();
  Search search;
  search.known = known.load(std::memory_order_acquire);
  dl_iterate_phdr(look_at, &search);
  if (search.loaded == search.known) return;
  static constinit std::mutex mutex;
  const std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < search.paths.size(); ++i) {
    if (search.paths[i].empty() || rows[i].found.load() != nullptr) continue;
    // Not in look_at(), where the loader's lock is held.
    void* const library = dlopen(search.paths[i].c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) rows[i].found.store(rows[i].make(library), std::memory_order_release);
  }
  known.store(search.loaded, std::memory_order_release);
}

template <class Predicate>
bool any_driver(const Predicate& predicate) {
  return std::ranges::any_of(rows, [&](const Row& row) {
    GpuDriver* const driver = row.found.load(std::memory_order_acquire);
    return driver != nullptr && predicate(*driver);
  });
}

}  // namespace

namespace {

constinit std::atomic<bool> in_use = false;

}  // namespace

bool gpu_was_in_use() {
  return in_use.load(std::memory_order_relaxed);
}

bool gpu_in_use() {
  if (in_use.load(std::memory_order_relaxed)) return true;
  search_drivers();
  if (!any_driver([](GpuDriver& driver) { return driver.initialised(); })) return false;
  in_use.store(true, std::memory_order_relaxed);
  return true;
}

GpuUse gpu_use() {
  if (!gpu_in_use()) return GpuUse::none;
  const CudaDriver* const cuda = cuda_driver();
  const bool others = std::ranges::any_of(std::span(rows).subspan(1), [](const Row& row) {
    GpuDriver* const driver = row.found.load(std::memory_order_acquire);
    return driver != nullptr && driver->initialised();
  });
  return cuda != nullptr && cuda->can_copy() && !others ? GpuUse::cuda : GpuUse::others;
}

CudaDriver* cuda_driver() {
  auto* const cuda = static_cast<Cuda*>(rows[0].found.load(std::memory_order_acquire));
  return cuda != nullptr && cuda->initialised() ? &cuda->driver() : nullptr;
}

bool is_device_memory(const void* address) {
  search_drivers();
  return any_driver([&](GpuDriver& driver) { return driver.initialised() && driver.owns(address); });
}

}  // namespace tapa
