/// An attention shape of a group by name: what the operators do.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention.hpp"
#include "group.hpp"
#include "preparation.hpp"
#include "slots.hpp"
#include "traffic.hpp"
#include "transfers.hpp"

namespace dit::operators {

class Exchange {
 public:
  /// Collective; throws on all ranks alike.
  Exchange(std::string name, std::shared_ptr<Group> group, const dit_torch_attention& attention);
  /// Gives up what is under way. Collective.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] const Attention& attention() const { return attention_; }
  [[nodiscard]] const Transfers& transfers() const { return transfers_; }
  [[nodiscard]] Group& group() const { return *group_; }

  /// Of tensors of the sequence layout (what = 0, 1, 2), or of the head layout (3). They throw
  /// std::invalid_argument and ExchangeError.
  void start(std::int64_t what, const at::Tensor& x, std::int64_t layer, const Preparation& preparation);
  [[nodiscard]] at::Tensor finish(std::int64_t what);
  /// Both, on the caller's stream.
  [[nodiscard]] at::Tensor exchange(std::int64_t what, const at::Tensor& x, std::int64_t layer,
                                    const Preparation& preparation);
  /// Query, key and value; by one kernel where rows are stored right into the peers' targets.
  [[nodiscard]] std::array<at::Tensor, 3> scatter(const std::array<at::Tensor, 3>& x, std::int64_t layer,
                                                  const std::array<Preparation, 3>& preparations);

  /// dit_transfer_kind of an operator's argument; throws std::invalid_argument.
  [[nodiscard]] static int kind_of(std::int64_t what);
  /// Throws std::invalid_argument unless a tensor is one that the transfer takes.
  void require_source(int what, const at::Tensor& x) const;

  /// After a failure: as new. Nobody is waited for.
  void restart();
  void begin_step(int step, int branch);
  void reset();  ///< collective
  /// A number that passes share whose exchanges do the same: a CUDA graph of one may be replayed for the
  /// other. -1: not to be captured.
  [[nodiscard]] int phase() const;
  /// What is started until end_recording() is counted by itself, and under a policy may be captured.
  void begin_recording();
  /// Of that: a number for note_replay(), -1 where nothing was started. `failed`: it will not be replayed,
  /// and what is under way is given up.
  int end_recording(bool failed);
  void note_replay(int recording);
  [[nodiscard]] std::string report() const;

 private:
  /// Between start and finish.
  struct Pending {
    at::Tensor source, target;
    Preparation preparation;  ///< keeps its tensors
    bool under_way = false;
  };
  /// Starts, and the bytes that they sent: of all, or of what a graph does in each replay.
  struct Counts {
    std::array<std::uint64_t, kTransfers> started{};
    LevelBytes sent{};
    Counts& operator+=(const Counts& other);
  };
  /// A call, and what it points to.
  struct Call {
    dit_transfer_call call;
    std::optional<dit_prepare> prepare;
  };

  [[nodiscard]] Pending& pending(int what) { return pending_[static_cast<std::size_t>(what)]; }
  [[nodiscard]] at::Tensor new_target(int what);
  void fill_call(Call& filled, int what, const at::Tensor& x, std::int64_t layer,
                 const Preparation& preparation, void* stream);
  void run_start(int what, const dit_transfer_call& call);
  void run_together(const std::array<at::Tensor, 3>& x, std::int64_t layer,
                    const std::array<Preparation, 3>& preparations, void* stream);
  [[nodiscard]] at::Tensor run_finish(int what, void* stream);
  [[nodiscard]] void* stream() const;
  void give_up();  ///< what is under way
  void require_recorded(void* stream) const;
  void count_start(int what);
  /// Of a recording while there is one.
  [[nodiscard]] Counts& counts() { return recording_.has_value() ? *recording_ : counts_; }

  std::string name_;
  std::shared_ptr<Group> group_;
  Attention attention_;
  std::unique_ptr<SideStream> side_;
  Transfers transfers_;
  Slots slots_;
  std::array<LevelBytes, kTransfers> exact_bytes_;
  std::array<Pending, kTransfers> pending_;
  Counts counts_;
  int step_ = 0;
  int branch_ = 0;
  std::vector<std::uint8_t> seen_;  ///< of each branch: something has travelled
  std::optional<Counts> recording_;
  std::vector<Counts> recorded_;
};

/// Of this process; never destroyed, as freeing is collective.
[[nodiscard]] Names<Exchange>& exchanges();

}  // namespace dit::operators
