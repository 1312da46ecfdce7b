// device_check: registered memory that is freed, and comes back at the same addresses, before its
// registration ends.
#include <algorithm>

#include "expectations.hpp"

namespace tapa::bench {

namespace {

/// Receives before and after the memory was freed, and when it is registered, beside its old registration and
/// in its place. Memory that came back elsewhere is not registered, and as right.
void exchange_around_a_free(Ranks& ranks, const Settings& settings, const Comm& comm, MemoryKind kind,
                            int first, const Wrong& wrong, Expectations& expect) {
  const Stream stream;
  Buffers buffers(settings, ranks, comm.get(), true, 0, kind);
  int iteration = first;
  const auto calls = [&] {
    for (int call = 0; call < 5; ++call)
      exchange(settings, ranks, buffers, comm.get(), stream, iteration++, wrong, 0);
    exchange_equal(ranks, buffers, comm.get(), stream, settings.most, iteration++, wrong);
    stream.wait();
  };
  calls();
  ranks.barrier();
  // Some ranks, then all: which is told by each receiver for itself.
  if (ranks.rank() % 2 == 1) (void)buffers.replace_receive();
  calls();
  if (ranks.rank() % 2 == 0) (void)buffers.replace_receive();
  calls();
  for (const bool beside : {true, false}) {
    beside ? buffers.register_beside(0) : buffers.register_anew(0);
    expect.that(buffers.is_direct(), "memory that is registered anew counts as not shared");
    calls();
  }
}

/// A call that cannot ask the receiver where to store: rank 0, whose memory is gone, says so, and the others
/// learn that it does not come.
template <class Call>
void expect_freed(Ranks& ranks, const Comm& comm, const Stream& stream, Buffers& buffers, const Call& call,
                  Expectations& expect) {
  tapa_call(call());
  stream.wait();
  ranks.barrier();
  if (!ranks.first_says(ranks.rank() != 0 || buffers.replace_receive())) {
    if (ranks.rank() == 0)
      std::printf("freed    not tried: cudaMalloc gives no memory where some was freed\n");
    return;
  }
  const auto began = std::chrono::steady_clock::now();
  if (ranks.rank() == 0) {
    expect.error(call(), TAPA_DEVICE_ERR_WINDOW, "was freed");
    expect.error(call(), TAPA_DEVICE_ERR_WINDOW, "was freed");
    expect.error(TAPA_Device_query(comm.get(), nullptr), TAPA_DEVICE_ERR_WINDOW, "was freed");
  } else {
    tapa_call(call());
    stream.wait();
    expect.error(TAPA_Device_query(comm.get(), nullptr), TAPA_DEVICE_ERR_TIMEOUT, "rank 0 does not arrive");
    expect.that(since(began) < 15, "who waits for a rank whose memory is gone waits for the time limit");
  }
  ranks.barrier();  // nobody frees what others may still write to
}

TAPA_Device_options short_timeout() {
  TAPA_Device_options options{};
  options.timeout = 20;
  options.copy_bytes = 1 << 20;
  return options;
}

/// Long blocks into symmetric registrations.
void expect_freed_by_copies(Ranks& ranks, const Settings& settings, MemoryKind kind, Expectations& expect) {
  const Comm comm(ranks, short_timeout());
  const Stream stream;
  Buffers buffers(settings, ranks, comm.get(), true, TAPA_DEVICE_SYMMETRIC, kind);
  expect_freed(
      ranks, comm, stream, buffers,
      [&] {
        return TAPA_Device_alltoall(buffers.send(), buffers.receive(), 2 << 20, comm.get(), stream.get());
      },
      expect);
}

/// Kernels of the caller, which have pointers into the memory.
void expect_freed_by_stores(Ranks& ranks, const Settings& settings, MemoryKind kind, Expectations& expect) {
  const Comm comm(ranks, short_timeout());
  const Stream stream;
  Buffers buffers(settings, ranks, comm.get(), true, 0, kind);
  expect_freed(
      ranks, comm, stream, buffers,
      [&] {
        const int code = TAPA_Device_begin_stores(comm.get(), buffers.window(), stream.get());
        return code != TAPA_DEVICE_SUCCESS
                   ? code
                   : TAPA_Device_end_stores(comm.get(), buffers.window(), stream.get());
      },
      expect);
}

}  // namespace

int test_freed(Ranks& ranks, const Settings& settings) {
  const auto began = std::chrono::steady_clock::now();
  Expectations expect(ranks);
  const Comm comm(ranks, long_timeout(settings));
  const Wrong wrong;
  Settings some = settings;
  some.most = std::min<std::size_t>(settings.most, 4 << 20);
  int first = 0;
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::segments}) {
    exchange_around_a_free(ranks, some, comm, kind, first, wrong, expect);
    first += 30;
  }
  const Stream stream;
  unsigned long long count = wrong.value(stream);
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::segments}) {
    if (ranks.size() < 2) break;
    expect_freed_by_copies(ranks, some, kind, expect);
    expect_freed_by_stores(ranks, some, kind, expect);
  }
  count += expect.wrong();
  return verdict(ranks, "freed", first, count, since(began));
}

}  // namespace tapa::bench
