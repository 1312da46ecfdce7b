/// @file
/// Ranks of a program for device buffers. Processes of one program, forked before CUDA is used and joined by
/// a page that all share (ranks.cpp), for machines without MPI; or MPI's (ranks_mpi.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tapa/device.h"

namespace tapa::bench {

/// One rank, in its process.
class Ranks {
 public:
  Ranks(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Waits for all ranks. Ends the process when one does not come within minutes.
  virtual void barrier() = 0;
  /// Every rank's bytes, in order. `bytes` may be any number.
  virtual void allgather(const void* mine, void* all, std::size_t bytes) = 0;
  /// A device communicator of all ranks; a code of tapa/device.h.
  virtual int create(const TAPA_Device_options& options, TAPA_Device_comm* comm) {
    return TAPA_Device_comm_create(rank_, size_, allgather_for_tapa, this, &options, comm);
  }
  /// The same ranks again, beside these: they may gather at the same time, for a thread of a library's. To be
  /// asked for by all ranks in the same order. Throws where there are no more.
  [[nodiscard]] virtual std::unique_ptr<Ranks> another() {
    throw std::runtime_error("these ranks cannot gather twice at a time");
  }
  /// This rank is gone for the others: ends its process, or returns after `seconds`.
  virtual void leave(double seconds) = 0;
  template <class Value>
  [[nodiscard]] std::vector<Value> gather(const Value& mine) {
    std::vector<Value> all(static_cast<std::size_t>(size_));
    allgather(&mine, all.data(), sizeof(Value));
    return all;
  }

  /// Whether rank 0 says so; whether all do. For all ranks to act alike.
  [[nodiscard]] bool first_says(bool mine) { return gather(mine ? 1 : 0)[0] != 0; }
  [[nodiscard]] bool all_say(bool mine) {
    bool all = true;
    for (const int each : gather(mine ? 1 : 0)) all = all && each != 0;
    return all;
  }

  /// As TAPA_Device_allgather; `context`: a Ranks.
  static int allgather_for_tapa(void* context, const void* mine, void* all, std::size_t bytes);

 private:
  int rank_;
  int size_;
};

/// Runs `body` as `size` processes and waits for them; the number of those that did not return 0. An
/// exception is printed and counts as 1. As MPI's ranks: `size` is not asked, `body` runs in this process.
int run_ranks(int size, const std::function<int(Ranks&)>& body);

}  // namespace tapa::bench
