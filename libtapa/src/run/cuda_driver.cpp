#include "run/cuda_driver.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace tapa {

namespace {

// The declarations below are those of cuda.h, which need not be there.

using Address = unsigned long long;  // CUdeviceptr
using Code = int;                    // CUresult
constexpr Code kNotInitialised = 3;
constexpr unsigned kDeviceMemory = 2;
constexpr unsigned kUnifiedMemory = 4;     // the address tells
constexpr std::uintptr_t kAllThreads = 1;  // default streams
constexpr std::uintptr_t kThisThread = 2;
constexpr unsigned kNonBlocking = 1;  // a stream that does not wait for the default one
constexpr unsigned kPortable = 1;     // pinned for all contexts
constexpr std::size_t kLongestPitch = std::numeric_limits<int>::max();

enum Attribute : int {
  kContext = 1,
  kMemoryType = 2,
  kCopiesWait = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12
};

/// CUDA_MEMCPY2D.
struct Copy2D {
  std::size_t from_x, from_y;
  unsigned from_type;
  const void* from_host;
  Address from;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_x, to_y;
  unsigned to_type;
  void* to_host;
  Address to;
  void* to_array;
  std::size_t to_pitch;
  std::size_t width, height;
};

Address address_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

}  // namespace

struct CudaDriver::Functions {
  Code (*attribute)(void* value, int attribute, Address address) = nullptr;
  Code (*attributes)(unsigned count, const int* attributes, void** values, Address address) = nullptr;
  Code (*set_attribute)(const void* value, int attribute, Address address) = nullptr;  // may be none
  Code (*capture)(CudaStream stream, int* state) = nullptr;                            // may be none
  Code (*push)(CudaContext context) = nullptr;
  Code (*pop)(CudaContext* context) = nullptr;
  Code (*primary)(CudaContext* context, int device) = nullptr;
  Code (*create_stream)(CudaStream* stream, unsigned flags) = nullptr;
  Code (*destroy_stream)(CudaStream stream) = nullptr;  // may be none: it is kept then
  Code (*synchronize)(CudaStream stream) = nullptr;
  Code (*copy)(Address to, Address from, std::size_t bytes, CudaStream stream) = nullptr;
  Code (*copy_rows)(const Copy2D* copy, CudaStream stream) = nullptr;
  Code (*pin)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  Code (*unpin)(void* memory) = nullptr;
  Code (*allocate)(Address* memory, std::size_t bytes) = nullptr;
  Code (*release)(Address memory) = nullptr;
  Code (*error_name)(Code code, const char** name) = nullptr;
};

CudaDriver::CudaDriver(void* library) {
  auto found = std::make_shared<Functions>();
  const auto find = [&]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
  };
  find(found->attribute, "cuPointerGetAttribute");
  find(found->attributes, "cuPointerGetAttributes");
  find(found->set_attribute, "cuPointerSetAttribute");
  find(found->capture, "cuStreamIsCapturing");
  find(found->push, "cuCtxPushCurrent_v2");
  find(found->pop, "cuCtxPopCurrent_v2");
  find(found->primary, "cuDevicePrimaryCtxRetain");
  find(found->create_stream, "cuStreamCreate");
  find(found->destroy_stream, "cuStreamDestroy_v2");
  find(found->synchronize, "cuStreamSynchronize");
  find(found->copy, "cuMemcpyAsync");
  find(found->copy_rows, "cuMemcpy2DAsync_v2");
  find(found->pin, "cuMemHostRegister_v2");
  find(found->unpin, "cuMemHostUnregister");
  find(found->allocate, "cuMemAlloc_v2");
  find(found->release, "cuMemFree_v2");
  find(found->error_name, "cuGetErrorName");
  call_ = std::move(found);
}

bool CudaDriver::initialised() const {
  unsigned value = 0;
  return call_->attribute != nullptr && call_->attribute(&value, kMemoryType, 0) != kNotInitialised;
}

bool CudaDriver::owns(const void* address) const {
  const auto value = [&](int attribute) {
    unsigned value = 0;
    return call_->attribute(&value, attribute, address_of(address)) == 0 ? value : 0;
  };
  // Managed memory says that it is the device's too.
  return call_->attribute != nullptr && value(kMemoryType) == kDeviceMemory && value(kIsManaged) == 0;
}

bool CudaDriver::can_copy() const {
  const Functions& f = *call_;
  return f.attributes != nullptr && f.push != nullptr && f.pop != nullptr && f.primary != nullptr &&
         f.create_stream != nullptr && f.synchronize != nullptr && f.copy != nullptr &&
         f.copy_rows != nullptr && f.pin != nullptr && f.unpin != nullptr && f.allocate != nullptr &&
         f.release != nullptr;
}

CudaMemory CudaDriver::memory(const void* address) const {
  unsigned type = 0;
  unsigned managed = 0;
  CudaContext context = nullptr;
  unsigned long long buffer = 0;
  int device = -1;
  unsigned shareable = 0;
  Address base = 0;
  std::size_t bytes = 0;
  static constexpr std::array<int, 8> asked{kMemoryType,    kIsManaged,  kContext,    kBufferId,
                                            kDeviceOrdinal, kIpcCapable, kRangeStart, kRangeSize};
  std::array<void*, asked.size()> values{
      &type, &managed, static_cast<void*>(&context), &buffer, &device, &shareable, &base, &bytes};
  if (call_->attributes == nullptr ||
      call_->attributes(asked.size(), asked.data(), values.data(), address_of(address)) != 0)
    return {};
  if (type != kDeviceMemory || (managed & 0xff) != 0) return {};
  return {true, device, context, buffer, static_cast<std::uintptr_t>(base), bytes, (shareable & 0xff) != 0};
}

CudaMemory CudaDriver::memory(const void* address, const CudaMemory& known) const {
  unsigned long long buffer = 0;
  const bool same = known.buffer != 0 && known.holds(address) &&
                    call_->attribute(&buffer, kBufferId, address_of(address)) == 0 && buffer == known.buffer;
  return same ? known : memory(address);
}

void CudaDriver::check(int code, const char* call) const {
  if (code == 0) return;
  const char* name = nullptr;
  if (call_->error_name != nullptr) call_->error_name(code, &name);
  throw CudaError(std::string(call) + " failed: " +
                  (name != nullptr ? std::string(name) : "error " + std::to_string(code) + " of CUDA"));
}

CudaContext CudaDriver::context_of(const CudaMemory& memory) {
  if (memory.context != nullptr) return memory.context;
  const std::lock_guard lock(mutex_);
  CudaContext& context = primary_[memory.device];
  if (context == nullptr) check(call_->primary(&context, memory.device), "cuDevicePrimaryCtxRetain");
  return context;
}

CudaDriver::Current::Current(CudaDriver& driver, const CudaMemory& near) : driver_(driver) {
  driver_.check(driver_.call_->push(driver_.context_of(near)), "cuCtxPushCurrent");
}
CudaDriver::Current::~Current() {
  CudaContext ignored = nullptr;
  driver_.call_->pop(&ignored);
}

CudaStream CudaDriver::make_stream(const CudaMemory& near) {
  const Current current(*this, near);
  CudaStream stream = nullptr;
  check(call_->create_stream(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}
void CudaDriver::end_stream(const CudaMemory& near, CudaStream stream) {
  const Current current(*this, near);
  if (call_->destroy_stream != nullptr) call_->destroy_stream(stream);
}

CudaStream CudaDriver::copy_stream(const CudaMemory& near) {
  const CudaContext context = context_of(near);
  const Current current(*this, near);
  const std::lock_guard lock(mutex_);
  CudaStream& stream = streams_[context];
  if (stream == nullptr) check(call_->create_stream(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}

/// Runs `work` on the stream beside `near`. A stream of a context that was reset is made anew.
template <class Work>
void CudaDriver::on_stream(const CudaMemory& near, const Work& work) {
  const CudaStream first = copy_stream(near);
  const Current current(*this, near);
  try {
    work(first);
  } catch (const CudaError&) {
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(streams_, [&](const auto& entry) { return entry.second == first; });
    }
    work(copy_stream(near));
  }
}

void CudaDriver::settle(const CudaMemory& memory) {
  if (!memory.on_device) return;
  {
    const std::lock_guard lock(mutex_);
    if (memory.buffer != 0 && std::ranges::find(settled_, memory.buffer) != settled_.end()) return;
  }
  bool lasts = false;
  try {
    const Current current(*this, memory);
    constexpr int kYes = 1;
    lasts = call_->set_attribute != nullptr &&
            call_->set_attribute(&kYes, kCopiesWait, static_cast<Address>(memory.base)) == 0;
    wait_for_default_streams();
  } catch (const CudaError&) {
    return;  // the copies that follow fail likewise, and that is said
  }
  if (!lasts || memory.buffer == 0) return;  // memory of pools: each time
  const std::lock_guard lock(mutex_);
  settled_[next_settled_++ % settled_.size()] = memory.buffer;
}

/// Of the current context: where copies go that name no stream. Not while one is recorded, which that would
/// end.
void CudaDriver::wait_for_default_streams() const {
  for (const std::uintptr_t stream : {kAllThreads, kThisThread}) {
    const auto handle = reinterpret_cast<CudaStream>(stream);
    int state = 0;
    if (call_->capture != nullptr && (call_->capture(handle, &state) != 0 || state != 0)) continue;
    check(call_->synchronize(handle), "cuStreamSynchronize");
  }
}

void CudaDriver::copy(const CudaMemory& near, const Rows& rows) {
  on_stream(near, [&](CudaStream stream) { copy(stream, rows); });
}
void CudaDriver::copy(CudaStream stream, const Rows& r) {
  const bool one = r.rows == 1 || (r.to_pitch == r.bytes && r.from_pitch == r.bytes);
  const bool pitched = r.to_pitch <= kLongestPitch && r.from_pitch <= kLongestPitch;
  if (one) {
    check(call_->copy(address_of(r.to), address_of(r.from), r.bytes * r.rows, stream), "cuMemcpyAsync");
  } else if (pitched) {
    const Copy2D all{0,       0,     kUnifiedMemory, nullptr, address_of(r.from), nullptr, r.from_pitch,
                     0,       0,     kUnifiedMemory, nullptr, address_of(r.to),   nullptr, r.to_pitch,
                     r.bytes, r.rows};
    check(call_->copy_rows(&all, stream), "cuMemcpy2DAsync");
  } else {
    for (std::size_t row = 0; row < r.rows; ++row) {
      check(call_->copy(address_of(r.to + row * r.to_pitch), address_of(r.from + row * r.from_pitch), r.bytes,
                        stream),
            "cuMemcpyAsync");
    }
  }
}

void CudaDriver::wait(const CudaMemory& near) {
  const CudaStream mine = copy_stream(near);
  const Current current(*this, near);
  wait(mine);
}
void CudaDriver::wait(CudaStream stream) {
  check(call_->synchronize(stream), "cuStreamSynchronize");
}

bool CudaDriver::pin(const CudaMemory& near, void* memory, std::size_t bytes) {
  const Current current(*this, near);
  return call_->pin(memory, bytes, kPortable) == 0;
}
void CudaDriver::unpin(void* memory) {
  call_->unpin(memory);
}

void* CudaDriver::allocate_device(const CudaMemory& near, std::size_t bytes) {
  const Current current(*this, near);
  Address memory = 0;
  check(call_->allocate(&memory, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(memory);
}
void CudaDriver::free_device(const CudaMemory& near, void* memory) {
  const Current current(*this, near);
  call_->release(address_of(memory));
}

}  // namespace tapa
