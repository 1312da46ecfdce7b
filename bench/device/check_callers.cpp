// device_check: what programs do around calls: captures, other devices, threads, errors of their own. A call
// that cannot be made then is the caller's error, and the communicator is as good as before.
#include <cuda.h>

#include <chrono>
#include <thread>

#include "device/driver_function.hpp"
#include "expectations.hpp"

namespace tapa::bench {

namespace {

/// One rank's buffers of calls of `bytes` a block; the bytes of call `seed` are known to all.
class Blocks {
 public:
  Blocks(const Ranks& ranks, std::size_t bytes, TAPA_Device_comm comm)
      : ranks_(ranks),
        bytes_(bytes),
        comm_(comm),
        send_(as_size(ranks.size()) * bytes),
        receive_(as_size(ranks.size()) * bytes) {}

  [[nodiscard]] const Memory& receive() const { return receive_; }
  int call(void* stream) const {
    return TAPA_Device_alltoall(send_.get(), receive_.get(), bytes_, comm_, stream);
  }
  void fill(const Stream& stream, int seed) const {
    for (int peer = 0; peer < ranks_.size(); ++peer)
      bench::fill(send_.get() + as_size(peer) * bytes_, bytes_, seed_of(ranks_.rank(), peer, seed), nullptr,
                  stream.get());
  }
  void count(const Stream& stream, int seed, const Wrong& wrong) const {
    for (int peer = 0; peer < ranks_.size(); ++peer) {
      count_wrong(receive_.get() + as_size(peer) * bytes_, bytes_, seed_of(peer, ranks_.rank(), seed),
                  nullptr, wrong.get(), stream.get());
    }
  }
  /// A call whose bytes are counted where they are wrong.
  void exchange(const Stream& stream, int seed, const Wrong& wrong) const {
    fill(stream, seed);
    tapa_call(call(stream.get()));
    count(stream, seed, wrong);
  }

 private:
  static std::size_t as_size(int number) { return static_cast<std::size_t>(number); }
  const Ranks& ranks_;
  std::size_t bytes_;
  TAPA_Device_comm comm_;
  Memory send_, receive_;
};

/// Calls on the default stream while another stream is captured, which CUDA refuses.
void expect_refusal_beside_captures(const Blocks& blocks, Expectations& expect) {
  cudaStream_t captured = nullptr;  // one that waits for the default stream
  cuda(cudaStreamCreate(&captured), "cudaStreamCreate");
  cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  expect.error(blocks.call(nullptr), TAPA_DEVICE_ERR_ARG, "on this stream");
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(captured, &graph);  // the attempt has ended it
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaStreamDestroy(captured);
  (void)cudaGetLastError();
}

/// A call by copy engines, on streams of the library's, while those are in a capture of another stream.
void expect_refusal_of_held_streams(const Blocks& copied, const Stream& stream, Expectations& expect) {
  const Stream captured;
  cuda(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  tapa_call(copied.call(captured.get()));
  expect.error(copied.call(stream.get()), TAPA_DEVICE_ERR_ARG, "another stream is captured");
  cudaGraph_t graph = nullptr;
  cuda(cudaStreamEndCapture(captured.get(), &graph), "cudaStreamEndCapture");
  cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

/// Registering and freeing while another thread captures a stream in the strictest mode: neither fails, and
/// the capture goes on.
void expect_set_up_beside_captures(Ranks& ranks, TAPA_Device_comm comm, Expectations& expect) {
  const Stream captured;
  const Memory memory(1 << 20);
  cuda(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  int window = -1, direct = 0, code = -1, freed = -1;
  std::thread([&] {
    (void)take_device(ranks.rank());
    code = TAPA_Device_register(comm, memory.get(), memory.bytes(), 0, &window);
    if (code != TAPA_DEVICE_SUCCESS) return;
    (void)TAPA_Device_is_direct(comm, window, &direct);
    freed = TAPA_Device_deregister(comm, window);
  }).join();
  expect.that(code == TAPA_DEVICE_SUCCESS && freed == TAPA_DEVICE_SUCCESS,
              "registering beside a capture fails");
  expect.that(direct == 1, "memory that is registered beside a capture counts as not shared");
  cudaGraph_t graph = nullptr;
  expect.that(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess, "a capture beside it has ended");
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
}

/// Streams and memory of another device than the communicator's.
void expect_refusal_of_other_devices(const Ranks& ranks, const Blocks& blocks, TAPA_Device_comm comm,
                                     const Stream& stream, Expectations& expect) {
  if (device_count() < 2) return;
  cuda(cudaSetDevice((device_of(ranks.rank()) + 1) % device_count()), "cudaSetDevice");
  {
    const Stream other;
    const Memory memory(4096);
    expect.error(blocks.call(other.get()), TAPA_DEVICE_ERR_ARG, "stream is of device ");
    expect.error(TAPA_Device_alltoall(memory.get(), blocks.receive().get(), 8, comm, stream.get()),
                 TAPA_DEVICE_ERR_ARG, "sendbuf is memory of device ");
  }
  (void)take_device(ranks.rank());
}

/// A thread that has used no device makes a call: it has none afterwards either, and none was made for it.
void expect_no_contexts(const Blocks& blocks, const Stream& stream, const Wrong& wrong,
                        Expectations& expect) {
  blocks.fill(stream, 77);
  int device = -1;
  std::thread([&] {
    expect.error(blocks.call(stream.get()), TAPA_DEVICE_SUCCESS, "");
    (void)cudaGetDevice(&device);
  }).join();
  expect.that(device == 0, "a call has changed a thread's device");
  blocks.count(stream, 77, wrong);
}

/// Whether this process has a context on a device.
bool has_context(int device) {
  auto* const state =
      device::driver_function<decltype(cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState", 7000);
  if (state == nullptr) throw std::runtime_error("the driver does not tell the state of contexts");
  unsigned flags = 0;
  int active = 0;
  (void)state(device, &flags, &active);
  return active != 0;
}

}  // namespace

int test_callers(Ranks& ranks, const Settings& settings) {
  const auto began = std::chrono::steady_clock::now();
  Expectations expect(ranks);
  TAPA_Device_options options = long_timeout(settings);
  options.copy_bytes = 1 << 20;
  const Comm comm(ranks, options);
  const Stream stream;
  const Wrong wrong;
  const Blocks small(ranks, 4096, comm.get()), large(ranks, 2 << 20, comm.get());
  int window = -1;
  tapa_call(TAPA_Device_register(comm.get(), large.receive().get(), large.receive().bytes(),
                                 TAPA_DEVICE_SYMMETRIC, &window));
  const bool alone = device_of(ranks.rank()) != 0 && !has_context(0);
  for (const Blocks* const blocks : {&small, &large}) expect_no_contexts(*blocks, stream, wrong, expect);
  expect.that(!alone || !has_context(0), "a call has made a context on device 0");
  // An error that the program has not asked for yet is none of a call's.
  expect.that(cudaSetDevice(1000) != cudaSuccess, "there are 1000 devices");
  small.exchange(stream, 1, wrong);
  (void)cudaGetLastError();
  expect_refusal_beside_captures(small, expect);
  small.exchange(stream, 2, wrong);
  expect_refusal_of_held_streams(large, stream, expect);
  large.exchange(stream, 3, wrong);
  expect_set_up_beside_captures(ranks, comm.get(), expect);
  expect_refusal_of_other_devices(ranks, small, comm.get(), stream, expect);
  small.exchange(stream, 4, wrong);
  const unsigned long long count = wrong.value(stream);
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  tapa_call(TAPA_Device_deregister(comm.get(), window));
  return verdict(ranks, "callers", 1, expect.wrong() + count, since(began));
}

/// The last rank leaves when nothing is under way; the others free the communicator within the time-out.
int test_left(Ranks& ranks, const Settings& settings) {
  TAPA_Device_options options{};
  options.timeout = 2;
  options.struct_size = sizeof(options);
  options.wire = settings.wire;
  TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
  tapa_call(ranks.create(options, &comm));
  const Stream stream;
  const Wrong wrong;
  const Blocks blocks(ranks, 4096, comm);
  for (int call = 0; call < 3; ++call) blocks.exchange(stream, call, wrong);
  unsigned long long count = wrong.value(stream);
  ranks.barrier();
  if (ranks.rank() == ranks.size() - 1) ranks.leave(5);
  const auto began = std::chrono::steady_clock::now();
  tapa_call(TAPA_Device_comm_free(&comm));
  const double seconds = since(began);
  const bool right = count == 0 && seconds < 4;
  if (ranks.rank() == 0 || !right) {
    std::printf("left     %d ranks: rank %d frees the communicator after %.1f s: %s\n", ranks.size(),
                ranks.rank(), seconds, right ? "right" : "WRONG");
  }
  return right ? 0 : 1;
}

}  // namespace tapa::bench
