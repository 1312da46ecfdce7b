#include "api/quick.hpp"

#include <cstdint>
#include <memory>

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

void leave_to_mpi(const Arguments& arguments, CommState& state) {
  MpiCallStorage storage;
  const int code = call_mpi(arguments, state.size(), arguments.comm, nullptr, storage);
  if (code != MPI_SUCCESS) throw Error(code, mpi_error_text(code));
}

struct Release {
  void operator()(Board* board) const { board->release(); }
};
using ClaimedBoard = std::unique_ptr<Board, Release>;

/// Blocks of any sizes and types. In place they may have to be copied first, which is left to operations.
bool run_blocks(const Arguments& arguments, CommState& state) {
  if (arguments.in_place()) return false;
  const ClaimedBoard board(state.claim_quick_board());
  if (!board) return false;
  CommState::QuickRun& quick = state.quick_run();
  normalise(arguments, state.size(), quick.blocks);
  quick.described.describe(quick.blocks, state.comm());
  quick.run.begin(*board, quick.described.send, quick.described.recv, &quick.described);
  finish(quick.run, state.waiter());
  return true;
}

}  // namespace

bool run_quick(const Arguments& arguments, CommState& state) {
  if (!state.ready()) return false;
  if (arguments.form != Form::uniform) return run_blocks(arguments, state);
  const Dense recv = dense_side(arguments.recv);
  const Dense send = arguments.in_place() ? recv : dense_side(arguments.send);
  if (recv.bytes == 0 || send.bytes != recv.bytes) {
    const bool nothing = arguments.recv.count == 0 || type_info(arguments.recv.type).size == 0;
    return !nothing && run_blocks(arguments, state);  // with no bytes there is no exchange
  }
  const CommState::Quick way = state.claim_quick(recv.bytes, arguments.in_place());
  if (way.board == nullptr && !way.mpi) return false;
  const double began = way.tried ? MPI_Wtime() : 0;
  if (way.mpi) {
    leave_to_mpi(arguments, state);
  } else {
    const ClaimedBoard board(way.board);
    BoardExchange& exchange = state.quick_run().run;
    exchange.begin(*board, send.first, recv.first, recv.bytes);
    finish(exchange, state.waiter());
  }
  if (way.tried) state.record_trial(true, recv.bytes, MPI_Wtime() - began);
  return true;
}

}  // namespace tapa
