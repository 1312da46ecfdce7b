/// @file
/// Buffers wherever CUDA puts them, for checks of MPI programs.
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <random>

#include "gpu.hpp"

namespace tapa::bench {

/// How many GPUs there are, and which is this process's.
struct Devices {
  int count = 1;
  int own = 0;
};

enum class Kind { device, pool, managed, pinned, host, other_device };
inline constexpr int kKinds = 6;
inline constexpr const char* kKindNames[] = {"device", "pool", "managed", "pinned", "host", "other device"};

/// Memory of a kind.
class Buffer {
 public:
  Buffer(Kind kind, std::size_t bytes, const Devices& devices) : kind_(kind) {
    switch (kind) {
      case Kind::device:
        cuda(cudaMalloc(&memory_, bytes), "cudaMalloc");
        break;
      case Kind::other_device:
        cuda(cudaSetDevice((devices.own + 1) % devices.count), "cudaSetDevice");
        cuda(cudaMalloc(&memory_, bytes), "cudaMalloc");
        cuda(cudaSetDevice(devices.own), "cudaSetDevice");
        break;
      case Kind::pool:
        cuda(cudaMallocAsync(&memory_, bytes, nullptr), "cudaMallocAsync");
        cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
        break;
      case Kind::managed:
        cuda(cudaMallocManaged(&memory_, bytes), "cudaMallocManaged");
        break;
      case Kind::pinned:
        cuda(cudaMallocHost(&memory_, bytes), "cudaMallocHost");
        break;
      default:
        memory_ = std::malloc(bytes);
    }
  }
  ~Buffer() {
    if (kind_ == Kind::host) {
      std::free(memory_);
    } else if (kind_ == Kind::pinned) {
      (void)cudaFreeHost(memory_);
    } else if (kind_ == Kind::pool) {
      (void)cudaFreeAsync(memory_, nullptr);
    } else {
      (void)cudaFree(memory_);
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] char* get() const { return static_cast<char*>(memory_); }

 private:
  Kind kind_;
  void* memory_ = nullptr;
};

/// Device memory that calls come back to.
class KeptBuffers {
 public:
  /// One of them, of at least `bytes` bytes; `own` decides whether it is another one from now on.
  char* get(std::size_t which, std::size_t bytes, std::mt19937_64& own) {
    auto& kept = kept_[which % kept_.size()];
    if (kept && kept->bytes() >= bytes && own() % 16 != 0) return kept->get();
    kept.reset();
    kept = std::make_unique<Memory>(bytes + (own() % 8 << 20));
    return kept->get();
  }

 private:
  std::array<std::unique_ptr<Memory>, 4> kept_;
};

}  // namespace tapa::bench
