#include "comm/fast_path.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "comm/recent.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/mpi_bytes.hpp"
#include "run/mpi_call.hpp"
#include "run/progress.hpp"
#include "run/type_layout.hpp"

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

void finish(ShmExchange& exchange, Waiter waiter) {
  const auto done = [&] { return exchange.advance(); };
  for (int idle = 0; !done(); ++idle) {
    waiter.pause(idle, true, done);
    waiter.count_quiet_poll();
    if (idle % Progress::relay_every == Progress::relay_every - 1) Progress::relay();
  }
}

/// `dense`: the blocks of a call when they all have one size and are dense. On the private communicator, so
/// that MPI calls no error handler of the program's while something here is alive.
void leave_to_mpi(const Arguments& arguments, CommState& state, const Uniform* dense) {
  int code = MPI_SUCCESS;
  if (dense != nullptr && countable(dense->bytes) && !state.mpi_is_forced()) {
    const void* const from =
        arguments.in_place() ? MPI_IN_PLACE : address_at(arguments.send.buffer, dense->send_first);
    code = call_mpi_bytes(from, address_at(arguments.recv.buffer, dense->recv_first), dense->bytes,
                          state.comm());
  } else {
    code = call_mpi(arguments, state.size(), state.comm(), state.mpi_is_forced(), state.fast_run().blocks);
  }
  if (code != MPI_SUCCESS) throw CallError(code, mpi_error_text(code));
}

struct Release {
  void operator()(ShmBuffers* buffers) const { buffers->release(); }
};
using ClaimedBuffers = std::unique_ptr<ShmBuffers, Release>;

/// Tells the autotuner how long a probe took, also when it failed.
class Timed {
 public:
  Timed(CommState& state, const CommState::FastPath& way, std::uint64_t sent)
      : state_(state), way_(way), sent_(sent), began_(way.tried ? PMPI_Wtime() : 0) {}
  ~Timed() {
    if (way_.tried) state_.record_probe(*way_.tried, PMPI_Wtime() - began_, sent_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
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
  ShmBlocks& dense = fast.described;
  if (arguments.form == Form::v && dense_blocks(arguments.send, state.size(), dense.send) &&
      dense_blocks(arguments.recv, state.size(), dense.recv)) {
    fast.run.begin(buffers, dense.send, dense.recv, nullptr);
    return finish(fast.run, state.waiter());
  }
  normalise(arguments, state.size(), fast.blocks);
  fast.described.describe(fast.blocks, state.comm());
  fast.run.begin(buffers, fast.described.send, fast.described.recv, &fast.described);
  finish(fast.run, state.waiter());
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
  Noted(CommState& state, bool mpi) : state_(state), mpi_(mpi) {}
  ~Noted() {
    state_.parts()->mean.note(mpi_ ? std::nullopt : std::optional(state_.fast_run().run.total_bytes()),
                              state_.size());
  }
  Noted(const Noted&) = delete;
  Noted& operator=(const Noted&) = delete;

 private:
  CommState& state_;
  bool mpi_;
};

/// Blocks of different sizes. In place they may have to be copied first, which is left to operations.
bool run_blocks(const Arguments& arguments, CommState& state) {
  if (arguments.in_place()) return false;
  const CommState::FastPath way = state.claim_fast_blocks(!arguments.large);
  if (way.buffers == nullptr && !way.mpi) return false;
  const Timed timed(state, way, way.tried ? bytes_sent(arguments, state.size()) : 0);
  const Noted noted(state, way.mpi);
  if (way.mpi) {
    leave_to_mpi(arguments, state, nullptr);
  } else {
    const ClaimedBuffers buffers(way.buffers);
    show_blocks(arguments, state, *buffers);
  }
  return true;
}

bool run_uniform(const Arguments& arguments, CommState& state, const Uniform& blocks) {
  const CommState::FastPath way = state.claim_fast(blocks.bytes, arguments.in_place(), blocks.dense);
  if (way.buffers == nullptr && !way.mpi) return false;
  const Timed timed(state, way, 0);
  if (way.mpi) {
    leave_to_mpi(arguments, state, &blocks);
    return true;
  }
  const ClaimedBuffers buffers(way.buffers);
  if (!blocks.dense) {
    show_blocks(arguments, state, *buffers);
    return true;
  }
  std::byte* const to = address_at(arguments.recv.buffer, blocks.recv_first);
  const std::byte* const from =
      arguments.in_place() ? to : address_at(arguments.send.buffer, blocks.send_first);
  ShmExchange& exchange = state.fast_run().run;
  exchange.begin(*buffers, from, to, blocks.bytes);
  finish(exchange, state.waiter());
  return true;
}

}  // namespace

bool run_fast(const Arguments& arguments, CommState& state) {
  if (!state.ready() || arguments.has_equal_buffers())
    return false;  // what is sent may have to be copied first
  if (arguments.form != Form::uniform) return run_blocks(arguments, state);
  const Uniform blocks = uniform_blocks(arguments);
  if (blocks.bytes == 0) return false;  // there is no exchange
  // Where buffers may be in GPU memory the ranks agree first, in each call.
  if (blocks.dense && state.device_calls() == nullptr && find_known(arguments) == nullptr)
    remember(arguments, state, blocks);
  return run_uniform(arguments, state, blocks);
}

bool run_again(const Arguments& arguments) {
  const Known* const known = find_known(arguments);
  return known != nullptr && in_host_memory(arguments, *known) &&
         run_uniform(arguments, *known->state, known->blocks);
}

}  // namespace tapa
