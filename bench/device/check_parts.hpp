/// @file
/// What the tests of device_check share: random blocks, buffers, an exchange with its checking, and verdicts.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "gpu.hpp"
#include "pattern.hpp"
#include "segmented_memory.hpp"

namespace tapa::bench {

struct Settings {
  int iterations;
  double seconds;
  std::size_t most;
  unsigned seed;
  int wire;
  int channels;
};

/// Seconds.
[[nodiscard]] double since(std::chrono::steady_clock::time_point began);

/// The pattern of the block from one rank to another.
[[nodiscard]] std::uint64_t seed_of(int from, int to, int iteration);

/// A count of wrong bytes in device memory.
class Wrong {
 public:
  Wrong() : memory_(sizeof(unsigned long long)) {
    cuda(cudaMemset(memory_.get(), 0, memory_.bytes()), "cudaMemset");
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  [[nodiscard]] unsigned long long* get() const {
    return reinterpret_cast<unsigned long long*>(memory_.get());
  }
  [[nodiscard]] unsigned long long value(const Stream& stream) const {
    unsigned long long value = 0;
    cuda(cudaMemcpyAsync(&value, get(), sizeof(value), cudaMemcpyDeviceToHost, stream.get()),
         "cudaMemcpyAsync");
    stream.wait();
    return value;
  }

 private:
  Memory memory_;
};

/// Where a receive buffer comes from: cudaMalloc, or the calls for virtual memory with or without handles
/// that other processes can have.
enum class MemoryKind { plain, segments, private_segments };

/// Send and receive buffers with a registration, or none.
class Buffers {
 public:
  Buffers(const Settings& settings, const Ranks& ranks, TAPA_Device_comm comm, bool registered, int flags = 0,
          MemoryKind kind = MemoryKind::plain)
      : send_(extent(settings, ranks)), comm_(comm) {
    if (kind == MemoryKind::plain) {
      plain_ = std::make_unique<Memory>(extent(settings, ranks));
    } else {
      segments_.emplace(extent(settings, ranks), kind == MemoryKind::segments);
    }
    extent_ = extent(settings, ranks);
    if (registered) register_receive(flags);
  }
  ~Buffers() {
    for (const int window : {window_, former_}) {
      if (window >= 0) (void)TAPA_Device_deregister(comm_, window);
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  [[nodiscard]] char* send() const { return send_.get(); }
  [[nodiscard]] char* receive() const { return plain_ ? plain_->get() : segments_->get(); }
  /// Frees the receive buffer, whose registration stays, and allocates another. Whether it is where that was,
  /// which CUDA decides.
  [[nodiscard]] bool replace_receive();
  /// Registers what is there now in the place of what was registered. Collective.
  void register_anew(int flags) {
    tapa_call(TAPA_Device_deregister(comm_, std::exchange(window_, -1)));
    register_receive(flags);
  }
  /// The same, while the registration that there was stays. Once.
  void register_beside(int flags) {
    former_ = std::exchange(window_, -1);
    register_receive(flags);
  }
  [[nodiscard]] int window() const { return window_; }
  /// Whether peers store right into the receive buffer.
  [[nodiscard]] bool is_direct() const {
    int direct = 0;
    tapa_call(TAPA_Device_is_direct(comm_, window_, &direct));
    return direct == 1;
  }

 private:
  static std::size_t extent(const Settings& settings, const Ranks& ranks) {
    return (settings.most + 64) * static_cast<std::size_t>(ranks.size()) + 64;
  }
  void register_receive(int flags) {
    tapa_call(TAPA_Device_register(comm_, receive(), extent_, flags, &window_));
  }
  Memory send_;
  std::unique_ptr<Memory> plain_;
  std::optional<SegmentedMemory> segments_;
  TAPA_Device_comm comm_;
  std::size_t extent_;
  int window_ = -1;
  int former_ = -1;  ///< a registration that has stayed
};

/// One all-to-all-v with random blocks, its filling and checking, all on the stream.
void exchange(const Settings& settings, const Ranks& ranks, const Buffers& buffers, TAPA_Device_comm comm,
              const Stream& stream, int iteration, const Wrong& wrong, std::uint64_t delay_ns);

/// One all-to-all of equal blocks, likewise.
void exchange_equal(const Ranks& ranks, const Buffers& buffers, TAPA_Device_comm comm, const Stream& stream,
                    std::size_t bytes, int iteration, const Wrong& wrong);

/// Prints, on rank 0, whether a test found something; 0 when it found nothing. Collective.
[[nodiscard]] int verdict(Ranks& ranks, const char* test, int iterations, unsigned long long wrong,
                          double seconds);

/// Options for ranks that take turns on a GPU.
[[nodiscard]] TAPA_Device_options long_timeout(const Settings& settings);

/// Random strided blocks, registered and not, alone and in a graph.
[[nodiscard]] int test_strided(Ranks& ranks, const Settings& settings);
/// Kernels that store into other ranks' memory, between other calls, alone and in a graph.
[[nodiscard]] int test_stores(Ranks& ranks, const Settings& settings);
/// Receive buffers of the calls for virtual memory, which are freed and made anew.
[[nodiscard]] int test_segments(Ranks& ranks, const Settings& settings);
/// Receive buffers that are freed and come back at the same addresses while they are registered.
[[nodiscard]] int test_freed(Ranks& ranks, const Settings& settings);
/// Wrong arguments and broken rules: errors that say what is wrong, and no crash.
[[nodiscard]] int test_misuse(Ranks& ranks, const Settings& settings);
/// Captures, other devices, threads and errors of the program around calls.
[[nodiscard]] int test_callers(Ranks& ranks, const Settings& settings);
/// The last rank leaves when nothing is under way.
[[nodiscard]] int test_left(Ranks& ranks, const Settings& settings);

}  // namespace tapa::bench
