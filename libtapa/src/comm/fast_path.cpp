#include "comm/fast_path.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "comm/recent.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/private_comm.hpp"
#include "run/progress.hpp"
#include "run/type_layout.hpp"
#include "run/unfinished.hpp"

namespace tapa {

namespace {

/// Where the blocks of one side begin and how long they are.
struct Dense {
  MPI_Aint first = 0;     // from the side's buffer
  std::size_t bytes = 0;  // of a block
};

/// The blocks of one side when they are dense and lie one after the other, else none.
Dense dense_side(const Side& side) {
  const TypeInfo info = type_info(side.type);
  const auto bytes = static_cast<std::size_t>(side.count) * info.size;
  if (bytes == 0 || !info.always_dense()) return {};
  return {info.first, bytes};
}

/// The blocks of a call when all have the same size.
struct Uniform {
  std::size_t bytes = 0;    // of a block
  bool dense = false;       // those of each side lie one after the other:
  MPI_Aint send_first = 0;  // from the buffer on that is sent from, the receive buffer when in place
  MPI_Aint recv_first = 0;  // from the receive buffer on
};

Uniform uniform_blocks(const Arguments& arguments) {
  const Dense recv = dense_side(arguments.recv);
  const Dense send = arguments.in_place() ? recv : dense_side(arguments.send);
  if (recv.bytes != 0 && send.bytes == recv.bytes) return {recv.bytes, true, send.first, recv.first};
  const Side& sent = arguments.in_place() ? arguments.recv : arguments.send;
  return {static_cast<std::size_t>(sent.count) * type_info(sent.type).size};
}

/// What was found out about a call of this thread with dense blocks of one size. All of it holds for the next
/// one with the same communicator, counts and types, and finding it out would take longer than a short
/// exchange.
struct Known {
  [[nodiscard]] bool holds() const { return state != nullptr && freed.hold(permanent); }

  CommState* state = nullptr;  // lives until a communicator is freed
  MPI_Comm comm;
  MPI_Count sendcount;
  MPI_Count recvcount;
  MPI_Datatype sendtype;
  MPI_Datatype recvtype;
  FreedHandles freed;
  bool permanent;  // its datatypes are MPI's own
  bool in_place;
  const void* send;  // host memory
  const void* recv;
  Uniform blocks;
};
/// Of the last few such calls: programs take turns with communicators too.
thread_local constinit Recent<Known, 4> known_calls{};

std::uint64_t key_of(const Arguments& a) {
  return number_of(a.comm) + number_of(a.recv.type) + static_cast<std::uint64_t>(a.recv.count);
}

/// Buffers are looked at as check_arguments() does, but that null ones are left to it.
bool same_but_buffers(const Arguments& a, const Known& known) {
  return a.comm == known.comm && a.send.count == known.sendcount && a.recv.count == known.recvcount &&
         a.send.type == known.sendtype && a.recv.type == known.recvtype && a.send.buffer != a.recv.buffer &&
         a.send.buffer != nullptr && a.recv.buffer != nullptr && a.in_place() == known.in_place &&
         a.recv.buffer != MPI_IN_PLACE && known.holds();
}

const Known* find_known(const Arguments& a) {
  if (a.form != Form::uniform) return nullptr;
  return known_calls.find(key_of(a), [&](const Known& known) { return same_but_buffers(a, known); });
}

void remember(const Arguments& a, CommState& state, const Uniform& blocks) {
  const bool permanent = is_permanent(a.recv.type) && (a.in_place() || is_permanent(a.send.type));
  known_calls.put(key_of(a),
                  {&state, a.comm, a.send.count, a.recv.count, a.send.type, a.recv.type, FreedHandles::now(),
                   permanent, a.in_place(), a.send.buffer, a.recv.buffer, blocks},
                  [](const Known& known) { return known.holds(); });
}

/// Whether the buffers are in host memory. A GPU may be in use since the last call.
bool in_host_memory(const Arguments& a, const Known& known) {
  const bool same = a.send.buffer == known.send && a.recv.buffer == known.recv;
  if (same && !gpu_was_in_use()) return true;
  if (known.state->trusts_buffers() || !gpu_in_use()) return true;
  const auto on_device = [](const void* buffer, MPI_Aint first) {
    return is_device_memory(address_at(buffer, first));
  };
  return !on_device(a.recv.buffer, known.blocks.recv_first) &&
         (known.in_place || !on_device(a.send.buffer, known.blocks.send_first));
}

/// Says now and then whom a call waits for that lasts long (TAPA_TIMEOUT).
class Watch {
 public:
  Watch(const char* function, double timeout) : function_(function), next_(timeout) {}
  void look(const ShmExchange& exchange) {
    if (next_ <= 0) return;
    const double now = PMPI_Wtime();
    if (began_ == 0) began_ = now;
    if (now - began_ < next_) return;
    next_ = 2 * (now - began_);
    tell_unfinished(function_, now - began_, waits_for(exchange));
  }

 private:
  const char* function_;
  double next_;
  double began_ = 0;
};

void finish(ShmExchange& exchange, Waiter waiter, Watch watch) {
  constexpr int watch_every = 256;
  static_assert(watch_every % Progress::relay_every == 0);
  const auto done = [&] { return exchange.advance(); };
  for (int idle = 0; !done(); ++idle) {
    waiter.pause(idle, true, done);
    waiter.count_quiet_poll();
    if (idle % Progress::relay_every != Progress::relay_every - 1) continue;
    Progress::relay();
    if (idle % watch_every == watch_every - 1) watch.look(exchange);
  }
}

struct Release {
  void operator()(ShmBuffers* buffers) const { buffers->release(); }
};
using ClaimedBuffers = std::unique_ptr<ShmBuffers, Release>;

/// Tells the autotuner how long a probe took, also when it failed, and the report how long a call did.
class Timed {
 public:
  Timed(const Arguments& arguments, CommState& state, const CommState::FastPath& way, std::uint64_t sent)
      : function_(arguments.function),
        state_(state),
        way_(way),
        sent_(sent),
        began_(way.tried || state.reports() ? PMPI_Wtime() : 0) {}
  ~Timed() {
    if (began_ == 0) return;
    const double seconds = PMPI_Wtime() - began_;
    if (way_.tried) state_.record_probe(*way_.tried, seconds, sent_);
    if (!state_.reports()) return;
    const std::size_t bytes = sent_ / static_cast<std::size_t>(state_.size());
    state_.parts()->report.count(function_, bytes, "memory", {}, sent_, seconds, std::nullopt);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  const char* function_;
  CommState& state_;
  const CommState::FastPath& way_;
  std::uint64_t sent_;
  double began_;
};

/// The blocks of one side of a v call with int counts; false when they are not all dense.
bool dense_blocks(const Side& side, int ranks, std::vector<ShmBlock>& blocks) {
  const TypeInfo info = type_info(side.type);
  const bool countable = info.size < std::numeric_limits<MPI_Aint>::max() >> 31;
  if (side.counts == nullptr || !info.always_dense() || !countable) return false;
  blocks.resize(static_cast<std::size_t>(ranks));
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const auto bytes = static_cast<std::size_t>(side.counts[peer]) * info.size;
    std::byte* const data = address_at(side.buffer, side.displs[peer] * info.extent + info.first);
    blocks[peer] = {bytes == 0 ? nullptr : data, bytes, 0};
  }
  return true;
}

/// Blocks of any sizes and types, over the buffers.
void show_blocks(const Arguments& arguments, CommState& state, ShmBuffers& buffers) {
  CommState::FastRun& fast = state.fast_run();
  using Compare = ShmExchange::Compare;
  const Compare compare = state.check() < Check::counts     ? Compare::nothing
                          : arguments.form == Form::uniform ? Compare::sums
                                                            : Compare::blocks;
  const Watch watch(arguments.function, state.timeout());
  ShmBlocks& dense = fast.described;
  if (arguments.form == Form::v && dense_blocks(arguments.send, state.size(), dense.send) &&
      dense_blocks(arguments.recv, state.size(), dense.recv)) {
    fast.run.begin(buffers, dense.send, dense.recv, nullptr, false, compare);
    return finish(fast.run, state.waiter(), watch);
  }
  normalise(arguments, state.size(), fast.blocks);
  fast.described.describe(fast.blocks, alone_comm());
  fast.run.begin(buffers, fast.described.send, fast.described.recv, &fast.described, false, compare);
  finish(fast.run, state.waiter(), watch);
}

std::uint64_t bytes_sent(const Arguments& arguments, int ranks) {
  std::uint64_t bytes = 0;
  for (int peer = 0; peer < ranks; ++peer)
    bytes += static_cast<std::uint64_t>(arguments.send.count_of(peer)) *
             type_info(arguments.send.type_of(peer)).size;
  return bytes;
}

/// Tells what the next call of this kind goes by, also when this one failed.
class Noted {
 public:
  explicit Noted(CommState& state) : state_(state) {}
  ~Noted() { state_.parts()->mean.note(state_.fast_run().run.total_bytes(), state_.size()); }
  Noted(const Noted&) = delete;
  Noted& operator=(const Noted&) = delete;

 private:
  CommState& state_;
};

LeftToMpi left_of(CommState& state, const CommState::FastPath& way, std::uint64_t sent, bool uniform,
                  std::size_t bytes) {
  LeftToMpi left{&state, state.mpi_is_forced()};
  left.tried = way.tried.has_value();
  left.noted = left.tried || !uniform || state.reports();
  if (way.tried) left.key = *way.tried;
  left.sent = sent;
  left.uniform = uniform;
  left.bytes = bytes;
  return left;
}

/// Carries out an exchange in which the ends of blocks may be compared.
template <class Body>
Fast compared(CommState& state, const Body& body) {
  if (state.check() < Check::counts) {
    body();
    return Fast::done;
  }
  try {
    body();
  } catch (const TransportError&) {
    if (state.fast_run().run.sizes_agree()) throw;
  }
  return state.fast_run().run.sizes_agree() ? Fast::done : Fast::differ;
}

/// Blocks of different sizes. In place they may have to be copied first, which is left to operations.
Fast run_blocks(const Arguments& arguments, CommState& state, LeftToMpi& left) {
  if (arguments.in_place()) return Fast::no;
  const CommState::FastPath way = state.claim_fast_blocks(!arguments.large);
  if (way.buffers == nullptr && !way.mpi) return Fast::no;
  const bool counts = way.tried || state.reports();
  const std::uint64_t sent = counts ? bytes_sent(arguments, state.size()) : 0;
  if (way.mpi) {
    left = left_of(state, way, sent, false, 0);
    return Fast::mpis;
  }
  const Timed timed(arguments, state, way, sent);
  const Noted noted(state);
  const ClaimedBuffers buffers(way.buffers);
  return compared(state, [&] { show_blocks(arguments, state, *buffers); });
}

Fast run_uniform(const Arguments& arguments, CommState& state, const Uniform& blocks, LeftToMpi& left) {
  const CommState::FastPath way = state.claim_fast(blocks.bytes, arguments.in_place(), blocks.dense);
  if (way.buffers == nullptr && !way.mpi) return Fast::no;
  const std::uint64_t sent = blocks.bytes * static_cast<std::uint64_t>(state.size());
  if (way.mpi) {
    left = left_of(state, way, sent, true, blocks.bytes);
    return Fast::mpis;
  }
  const Timed timed(arguments, state, way, sent);
  const ClaimedBuffers buffers(way.buffers);
  return compared(state, [&] {
    if (!blocks.dense) return show_blocks(arguments, state, *buffers);
    std::byte* const to = address_at(arguments.recv.buffer, blocks.recv_first);
    const std::byte* const from =
        arguments.in_place() ? to : address_at(arguments.send.buffer, blocks.send_first);
    ShmExchange& exchange = state.fast_run().run;
    exchange.begin(*buffers, from, to, blocks.bytes);
    finish(exchange, state.waiter(), {arguments.function, state.timeout()});
  });
}

}  // namespace

Fast run_fast(const Arguments& arguments, CommState& state, LeftToMpi& left) {
  if (!state.ready() || arguments.has_equal_buffers())
    return Fast::no;  // what is sent may have to be copied first
  if (arguments.form != Form::uniform) return run_blocks(arguments, state, left);
  const Uniform blocks = uniform_blocks(arguments);
  if (blocks.bytes == 0) return Fast::no;  // there is no exchange
  // Where buffers may be in GPU memory the ranks agree first, in each call.
  if (blocks.dense && state.device_calls() == nullptr && find_known(arguments) == nullptr)
    remember(arguments, state, blocks);
  return run_uniform(arguments, state, blocks, left);
}

Fast run_again(const Arguments& arguments, LeftToMpi& left, CommState*& state) {
  const Known* const known = find_known(arguments);
  if (known == nullptr || !in_host_memory(arguments, *known)) return Fast::no;
  state = known->state;
  return run_uniform(arguments, *known->state, known->blocks, left);
}

}  // namespace tapa
