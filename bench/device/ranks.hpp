/// @file
/// Ranks as processes of one program, for benchmarks and checks on machines without MPI: forked before CUDA
/// is used, joined by a page that all share.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tapa::bench {

struct SharedPage;

/// One rank, in its process.
class Ranks {
 public:
  Ranks(int rank, int size, SharedPage& page) : rank_(rank), size_(size), page_(page) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Waits for all ranks, spinning. Ends the process when one does not come within two minutes.
  void barrier();
  /// Every rank's bytes, in order. `bytes` may be any number.
  void allgather(const void* mine, void* all, std::size_t bytes);
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
  SharedPage& page_;
};

/// Runs `body` as `size` processes and waits for them; the number of those that did not return 0. An
/// exception is printed and counts as 1.
int run_ranks(int size, const std::function<int(Ranks&)>& body);

}  // namespace tapa::bench
