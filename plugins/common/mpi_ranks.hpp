/// The ranks of an MPI communicator.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>

#include "common/ranks.hpp"

namespace dit {

class MpiRanks final : public Ranks {
 public:
  /// Of a communicator that outlives them.
  explicit MpiRanks(MPI_Comm comm);
  /// Of a communicator of their own from now on.
  void own() { owned_ = true; }
  ~MpiRanks() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void allgather(const void* mine, void* all, std::size_t bytes) override;
  [[nodiscard]] std::optional<int> greatest_within(int mine, double limit) override;

  [[nodiscard]] MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_;
  bool owned_ = false;
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace dit
