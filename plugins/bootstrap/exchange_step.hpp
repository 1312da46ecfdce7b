/// An exchange of host memory, by the program's alltoallv or, where it has none, by its allgather.
#pragma once

#include <memory>
#include <vector>

#include "bootstrap/step.hpp"
#include "exchange/select_rows.hpp"

namespace dit {

class ExchangeStep final : public Step {
 public:
  /// Of a checked call of host memory without strides; its arrays are not needed afterwards.
  ExchangeStep(const dit_exchange_call& call, const ContextPlace& place);

  [[nodiscard]] std::span<const std::uint64_t> blocks() const override { return blocks_; }
  void run(CallerFunctions& functions, std::span<const std::uint64_t> blocks) override;

 private:
  struct Side {
    std::vector<std::size_t> bytes, offsets;  ///< for each rank; 0 bytes for this one
    [[nodiscard]] PeerBytes view() const { return {bytes, offsets}; }
  };
  void add(Side& side, std::span<const dit_block> of) const;
  void copy_own() const;

  std::unique_ptr<PackedCall> packed_;  ///< where rows are selected
  std::size_t rank_;
  const std::byte* send_;
  std::byte* recv_;
  dit_block own_send_{}, own_recv_{};
  Side to_, from_;
  std::vector<std::uint64_t> blocks_;
};

}  // namespace dit
