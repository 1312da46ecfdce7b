/// @file
/// What the tests of device_check share: random blocks, buffers, an exchange with its checking, and verdicts.
#pragma once

#include <chrono>
#include <cstdint>

#include "gpu.hpp"
#include "pattern.hpp"

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

/// Send and receive buffers with a registration, or none.
class Buffers {
 public:
  Buffers(const Settings& settings, const Ranks& ranks, TAPA_Device_comm comm, bool registered, int flags = 0)
      : send_(extent(settings, ranks)), receive_(extent(settings, ranks)), comm_(comm) {
    if (registered) tapa_call(TAPA_Device_register(comm, receive_.get(), receive_.bytes(), flags, &window_));
  }
  ~Buffers() {
    if (window_ >= 0) (void)TAPA_Device_deregister(comm_, window_);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  [[nodiscard]] char* send() const { return send_.get(); }
  [[nodiscard]] char* receive() const { return receive_.get(); }

 private:
  static std::size_t extent(const Settings& settings, const Ranks& ranks) {
    return (settings.most + 64) * static_cast<std::size_t>(ranks.size()) + 64;
  }
  Memory send_;
  Memory receive_;
  TAPA_Device_comm comm_;
  int window_ = -1;
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
[[nodiscard]] TAPA_Device_options patient(const Settings& settings);

/// Random strided blocks, registered and not, alone and in a graph.
[[nodiscard]] int test_strided(Ranks& ranks, const Settings& settings);
/// Kernels that store into other ranks' memory, between other calls, alone and in a graph.
[[nodiscard]] int test_stores(Ranks& ranks, const Settings& settings);
/// Wrong arguments and broken rules: errors that say what is wrong, and no crash.
[[nodiscard]] int test_misuse(Ranks& ranks, const Settings& settings);

}  // namespace tapa::bench
