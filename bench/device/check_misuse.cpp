// device_check: wrong arguments and broken rules.
#include <vector>

#include "expectations.hpp"

namespace tapa::bench {

namespace {

void expect_argument_errors(Ranks& ranks, TAPA_Device_comm comm, Expectations& expect) {
  const Stream stream;
  const auto size = static_cast<std::size_t>(ranks.size());
  const Memory memory(size * 64);
  std::vector<char> host(size * 64);
  expect.error(TAPA_Device_alltoall(host.data(), memory.get(), 64, comm, stream.get()), TAPA_DEVICE_ERR_ARG,
               "sendbuf is memory of the host");
  expect.error(TAPA_Device_alltoall(memory.get(), nullptr, 64, comm, stream.get()), TAPA_DEVICE_ERR_ARG,
               "recvbuf is null");
  expect.error(TAPA_Device_alltoall(memory.get(), memory.get() + 32, 64, comm, stream.get()),
               TAPA_DEVICE_ERR_ARG, "overlap");
  int window = -1;
  expect.error(TAPA_Device_register(comm, memory.get(), size * 64, ranks.rank(), &window),
               TAPA_DEVICE_ERR_ARG, "flags of rank 1 is 1");
  expect.error(TAPA_Device_register(comm, memory.get(), size * 64 - static_cast<std::size_t>(ranks.rank()),
                                    TAPA_DEVICE_SYMMETRIC, &window),
               TAPA_DEVICE_ERR_ARG, "bytes of rank 1 is");
  expect.error(TAPA_Device_register(comm, ranks.rank() == 0 ? nullptr : memory.get(), 64, 0, &window),
               TAPA_DEVICE_ERR_ARG, "rank 0: buffer is null and bytes is 64");
  expect.error(TAPA_Device_deregister(comm, 5), TAPA_DEVICE_ERR_ARG, "window is 5");
  tapa_call(TAPA_Device_alltoall(memory.get(), memory.get(), 0, comm, stream.get()));
  stream.wait();
}

/// Registered memory of cudaMallocAsync cannot be shared, and is none the less right.
void expect_staging_of_pools(Ranks& ranks, TAPA_Device_comm comm, Expectations& expect) {
  const Stream stream;
  const Wrong wrong;
  const std::size_t bytes = 1 << 20;
  const auto size = static_cast<std::size_t>(ranks.size());
  const Memory send(size * bytes);
  void* receive = nullptr;
  cuda(cudaMallocAsync(&receive, size * bytes, stream.get()), "cudaMallocAsync");
  stream.wait();
  int window = -1;
  int direct = -1;
  tapa_call(TAPA_Device_register(comm, receive, size * bytes, 0, &window));
  tapa_call(TAPA_Device_is_direct(comm, window, &direct));
  expect.that(direct == 0, "memory of a pool counts as shared");
  for (std::size_t peer = 0; peer < size; ++peer) {
    fill(send.get() + peer * bytes, bytes, seed_of(ranks.rank(), static_cast<int>(peer), 7), nullptr,
         stream.get());
  }
  tapa_call(TAPA_Device_alltoall(send.get(), receive, bytes, comm, stream.get()));
  for (std::size_t peer = 0; peer < size; ++peer) {
    count_wrong(static_cast<char*>(receive) + peer * bytes, bytes,
                seed_of(static_cast<int>(peer), ranks.rank(), 7), nullptr, wrong.get(), stream.get());
  }
  expect.that(wrong.value(stream) == 0, "wrong bytes in memory of a pool");
  tapa_call(TAPA_Device_deregister(comm, window));
  cuda(cudaFreeAsync(receive, stream.get()), "cudaFreeAsync");
  stream.wait();
}

/// A graph that is replayed after a registration has ended; then ranks at different offsets of a symmetric
/// one.
void expect_window_errors(Ranks& ranks, bool symmetric, Expectations& expect) {
  TAPA_Device_options options{};
  options.timeout = 2;
  options.copy_bytes = 1 << 20;
  const Comm comm(ranks, options);
  const Stream stream;
  const std::size_t bytes = 1 << 20;
  const auto size = static_cast<std::size_t>(ranks.size());
  const Memory send(size * bytes);
  const Memory receive(size * bytes + 4096);
  int window = -1;
  tapa_call(TAPA_Device_register(comm.get(), receive.get(), receive.bytes(),
                                 symmetric ? TAPA_DEVICE_SYMMETRIC : 0, &window));
  char* const at = receive.get() + (symmetric && ranks.rank() == 1 ? 4096 : 0);
  const Graph graph(
      stream, [&] { tapa_call(TAPA_Device_alltoall(send.get(), at, bytes, comm.get(), stream.get())); });
  if (!symmetric) {
    graph.launch(stream);
    stream.wait();
    tapa_call(TAPA_Device_query(comm.get(), nullptr));
    tapa_call(TAPA_Device_deregister(comm.get(), window));
  }
  ranks.barrier();
  graph.launch(stream);
  stream.wait();
  const char* const why = symmetric ? "receives at another offset of a symmetric registration"
                                    : "receives in memory whose registration is gone";
  int named = -1;
  expect.error(TAPA_Device_query(comm.get(), &named), TAPA_DEVICE_ERR_WINDOW, why);
  for (int later = 0; later < 2; ++later) {  // calls say the same, and change nothing of it
    expect.error(TAPA_Device_alltoall(send.get(), receive.get(), 8, comm.get(), stream.get()),
                 TAPA_DEVICE_ERR_WINDOW, why);
    int again = -1;
    expect.error(TAPA_Device_query(comm.get(), &again), TAPA_DEVICE_ERR_WINDOW, why);
    expect.that(again == named, "a call after a failure has changed which rank it names");
  }
  ranks.barrier();  // nobody frees what others may still write to
}

/// Calls that do not belong between TAPA_Device_begin_stores and TAPA_Device_end_stores, and windows that
/// cannot be stored into.
void expect_stores_errors(Ranks& ranks, TAPA_Device_comm comm, Expectations& expect) {
  const Stream stream;
  const Memory memory(4096);
  int window = -1;
  int none = -1;
  int pool = -1;
  void* there = nullptr;
  void* pooled = nullptr;
  tapa_call(TAPA_Device_register(comm, memory.get(), 4096, 0, &window));
  expect.error(TAPA_Device_end_stores(comm, window, stream.get()), TAPA_DEVICE_ERR_ARG,
               "expected a call of TAPA_Device_begin_stores before");
  expect.error(TAPA_Device_begin_stores(comm, 77, stream.get()), TAPA_DEVICE_ERR_ARG, "window is 77");
  tapa_call(TAPA_Device_begin_stores(comm, window, stream.get()));
  expect.error(TAPA_Device_begin_stores(comm, window, stream.get()), TAPA_DEVICE_ERR_ARG,
               "expected TAPA_Device_end_stores first");
  expect.error(TAPA_Device_alltoall(memory.get(), memory.get() + 2048, 8, comm, stream.get()),
               TAPA_DEVICE_ERR_ARG, "expected TAPA_Device_end_stores first");
  expect.error(TAPA_Device_deregister(comm, window), TAPA_DEVICE_ERR_ARG, "expected TAPA_Device_end_stores");
  expect.error(TAPA_Device_end_stores(comm, window + 1, stream.get()), TAPA_DEVICE_ERR_ARG, "expected ");
  tapa_call(TAPA_Device_end_stores(comm, window, stream.get()));
  stream.wait();
  tapa_call(TAPA_Device_query(comm, nullptr));
  expect.error(TAPA_Device_peer_memory(comm, window, ranks.size(), &there), TAPA_DEVICE_ERR_ARG, "rank is ");
  // Rank 0 has no part of this one; the others can still be stored to.
  tapa_call(TAPA_Device_register(comm, ranks.rank() == 0 ? nullptr : memory.get(),
                                 ranks.rank() == 0 ? 0 : 4096, 0, &none));
  expect.error(TAPA_Device_peer_memory(comm, none, 0, &there), TAPA_DEVICE_ERR_ARG, "rank 0 has no memory");
  tapa_call(TAPA_Device_begin_stores(comm, none, stream.get()));
  tapa_call(TAPA_Device_end_stores(comm, none, stream.get()));
  cuda(cudaMallocAsync(&pooled, 4096, stream.get()), "cudaMallocAsync");
  stream.wait();
  const bool last = ranks.rank() == ranks.size() - 1;
  tapa_call(TAPA_Device_register(comm, last ? pooled : memory.get(), 4096, 0, &pool));
  expect.error(TAPA_Device_begin_stores(comm, pool, stream.get()), TAPA_DEVICE_ERR_UNSUPPORTED,
               "cannot be shared with all ranks");
  for (const int each : {pool, none, window}) tapa_call(TAPA_Device_deregister(comm, each));
  cuda(cudaFreeAsync(pooled, stream.get()), "cudaFreeAsync");
  stream.wait();
}

/// Rank 0 sends `sent` bytes to rank 1, which expects `expected`: `code0` and `text0` are what rank 0 says
/// (0: nothing for certain).
void expect_count_errors(Ranks& ranks, std::size_t sent, std::size_t expected, int code0, const char* text0,
                         Expectations& expect) {
  TAPA_Device_options options{};
  options.timeout = 10;
  options.struct_size = sizeof(options);
  TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
  tapa_call(TAPA_Device_comm_create(ranks.rank(), ranks.size(), Ranks::allgather_for_tapa, &ranks, &options,
                                    &comm));
  const Stream stream;
  const auto size = static_cast<std::size_t>(ranks.size());
  const std::size_t room = 2 << 20;
  const Memory send(size * room);
  const Memory receive(size * room);
  std::vector<std::size_t> send_bytes(size, 24), receive_bytes(size, 24), at(size);
  for (std::size_t peer = 0; peer < size; ++peer) at[peer] = peer * room;
  if (ranks.rank() == 0) send_bytes[1] = sent;
  if (ranks.rank() == 1) receive_bytes[0] = expected;
  ranks.barrier();
  const auto began = std::chrono::steady_clock::now();
  tapa_call(TAPA_Device_alltoallv(send.get(), send_bytes.data(), at.data(), receive.get(),
                                  receive_bytes.data(), at.data(), comm, stream.get()));
  stream.wait();
  expect.that(since(began) < 5, "a count mismatch takes as long as a time-out");
  int named = -2;
  const int code = TAPA_Device_query(comm, &named);
  if (ranks.rank() == 0 && code0 != 0) expect.error(code, code0, text0);
  if (ranks.rank() == 1) {
    expect.error(code, TAPA_DEVICE_ERR_COUNT, "rank 0 sends another number of bytes to this rank than the ");
    expect.that(named == 0, "the rank with another count is not named");
  }
  // Where rank 0 has seen no error it learns here of rank 1's.
  const auto begin = std::chrono::steady_clock::now();
  tapa_call(TAPA_Device_comm_free(&comm));
  expect.that(since(begin) < 5, "to free a communicator takes as long as a time-out");
  ranks.barrier();  // nobody frees what others may still write to
}

}  // namespace

int test_misuse(Ranks& ranks, const Settings& settings) {
  const auto began = std::chrono::steady_clock::now();
  Expectations expect(ranks);
  {
    const Comm comm(ranks, long_timeout(settings));
    expect_argument_errors(ranks, comm.get(), expect);
    expect_staging_of_pools(ranks, comm.get(), expect);
    expect_stores_errors(ranks, comm.get(), expect);
  }
  expect_count_errors(ranks, 100, 200, 0, "", expect);
  expect_count_errors(ranks, 2 << 20, 1 << 20, TAPA_DEVICE_ERR_COUNT,
                      "this rank sends 2097152 bytes to rank 1, which expects 1048576", expect);
  expect_count_errors(ranks, 2 << 20, 100, TAPA_DEVICE_ERR_COUNT,
                      "this rank sends 2097152 bytes to rank 1, which expects 100", expect);
  expect_count_errors(ranks, 100, 2 << 20, 0, "", expect);
  expect_window_errors(ranks, false, expect);
  expect_window_errors(ranks, true, expect);
  return verdict(ranks, "misuse", 1, expect.wrong(), since(began));
}

}  // namespace tapa::bench
