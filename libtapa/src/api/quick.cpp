#include "api/quick.hpp"

#include <cstdint>
#include <memory>
#include <optional>

#include "api/error.hpp"
#include "api/mpi_call.hpp"
#include "api/progress.hpp"

namespace tapa {

namespace {

struct Dense {
  std::byte* first = nullptr;
  std::size_t bytes = 0;  // of a block
};

/// The blocks of one side when they are dense and lie one after the other, else none.
Dense dense_side(const Side& side) {
  const TypeInfo info = type_info(side.type);
  const auto bytes = static_cast<std::size_t>(side.count) * info.size;
  if (bytes == 0 || !info.dense(side.count) || info.extent != static_cast<MPI_Aint>(info.size)) return {};
  // As an integer: MPI_BOTTOM is null, and arithmetic on null pointers is not defined.
  return {reinterpret_cast<std::byte*>(reinterpret_cast<std::intptr_t>(side.buffer) + info.first), bytes};
}

void finish(BoardExchange& exchange, Waiter waiter) {
  constexpr int relay_every = 64;  // polls
  const auto done = [&] { return exchange.advance(); };
  for (int idle = 0; !done(); ++idle) {
    waiter.pause(idle, true, done);
    waiter.count_quiet_poll();
    if (idle % relay_every == relay_every - 1) Progress::relay();
  }
}

void leave_to_mpi(const Arguments& arguments, CommState& state, const Dense* send, const Dense* recv) {
  MpiCallStorage storage;
  const void* const from = arguments.in_place() ? MPI_IN_PLACE : send != nullptr ? send->first : nullptr;
  const bool as_bytes = recv != nullptr && countable(recv->bytes) && !state.mpi_is_forced();
  const int code = as_bytes ? call_mpi_bytes(from, recv->first, recv->bytes, arguments.comm)
                            : call_mpi(arguments, state.size(), arguments.comm, nullptr, storage);
  if (code != MPI_SUCCESS) throw Error(code, mpi_error_text(code));
}

struct Release {
  void operator()(Board* board) const { board->release(); }
};
using ClaimedBoard = std::unique_ptr<Board, Release>;

/// Tells the trial how long a call took, also when it failed.
class Timed {
 public:
  Timed(CommState& state, const CommState::Quick& way, std::uint64_t sent)
      : state_(state), way_(way), sent_(sent), began_(way.tried ? MPI_Wtime() : 0) {}
  ~Timed() {
    if (way_.tried) state_.record_trial(*way_.tried, MPI_Wtime() - began_, sent_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  CommState& state_;
  const CommState::Quick& way_;
  std::uint64_t sent_;
  double began_;
};

/// Blocks of any sizes and types, over the board.
void show_blocks(const Arguments& arguments, CommState& state, Board& board) {
  CommState::QuickRun& quick = state.quick_run();
  normalise(arguments, state.size(), quick.blocks);
  quick.described.describe(quick.blocks, state.comm());
  quick.run.begin(board, quick.described.send, quick.described.recv, &quick.described);
  finish(quick.run, state.waiter());
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
  ~Noted() { state_.note_blocks(mpi_ ? std::nullopt : std::optional(state_.quick_run().run.total_bytes())); }
  Noted(const Noted&) = delete;
  Noted& operator=(const Noted&) = delete;

 private:
  CommState& state_;
  bool mpi_;
};

/// Blocks of different sizes. In place they may have to be copied first, which is left to operations.
bool run_blocks(const Arguments& arguments, CommState& state) {
  if (arguments.in_place()) return false;
  const CommState::Quick way = state.claim_quick_blocks(!arguments.large);
  if (way.board == nullptr && !way.mpi) return false;
  const Timed timed(state, way, way.tried ? bytes_sent(arguments, state.size()) : 0);
  const Noted noted(state, way.mpi);
  if (way.mpi) {
    leave_to_mpi(arguments, state, nullptr, nullptr);
  } else {
    const ClaimedBoard board(way.board);
    show_blocks(arguments, state, *board);
  }
  return true;
}

}  // namespace

bool run_quick(const Arguments& arguments, CommState& state) {
  if (!state.ready()) return false;
  if (arguments.form != Form::uniform) return run_blocks(arguments, state);
  const Dense recv = dense_side(arguments.recv);
  const Dense send = arguments.in_place() ? recv : dense_side(arguments.send);
  const bool dense = recv.bytes != 0 && send.bytes == recv.bytes;
  const std::size_t bytes =
      dense ? recv.bytes
            : static_cast<std::size_t>(arguments.recv.count) * type_info(arguments.recv.type).size;
  if (bytes == 0) return false;  // there is no exchange
  const CommState::Quick way = state.claim_quick(bytes, arguments.in_place(), dense);
  if (way.board == nullptr && !way.mpi) return false;
  const Timed timed(state, way, 0);
  if (way.mpi) {
    leave_to_mpi(arguments, state, &send, &recv);
  } else {
    const ClaimedBoard board(way.board);
    if (!dense) {
      show_blocks(arguments, state, *board);
      return true;
    }
    BoardExchange& exchange = state.quick_run().run;
    exchange.begin(*board, send.first, recv.first, recv.bytes);
    finish(exchange, state.waiter());
  }
  return true;
}

}  // namespace tapa
