/// @file
/// Messages of a simulated rank. As MpiTransport, but it waits in a way that costs the simulator little, and
/// it charges what the executor does between messages to the simulated clock.
#pragma once

#include <mpi.h>

#include <vector>

#include "plan/plan.hpp"
#include "transport/transport.hpp"
#include "world.hpp"

namespace tapa::sim {

class SimTransport final : public Transport {
 public:
  /// `plan` and `world` are borrowed.
  SimTransport(MPI_Comm comm, int rank, const RankPlan& plan, const World& world);

  void reserve(int slots) override;
  [[nodiscard]] bool takes_pieces(int, std::size_t) const override { return false; }
  void post_send(int slot, int peer, int tag, Pieces data) override;
  void post_recv(int slot, int peer, int tag, Pieces data) override;
  void poll(std::vector<int>& completed, bool block) override;
  void copied(std::size_t bytes) override;
  [[nodiscard]] bool has_data() const override { return world_.has_data; }

  /// Advances the clock by what was charged and not yet paid.
  void pay();

 private:
  void look_at();
  [[nodiscard]] double receiving(const Step& step) const;

  MPI_Comm comm_;
  int rank_;
  const World& world_;
  std::vector<double> costs_;       // of each slot: seconds that its end costs the rank
  std::vector<bool> awaited_;       // of each slot: whether its end starts other steps
  std::vector<MPI_Request> first_;  // receives, and sends that are awaited
  std::vector<int> first_slot_;
  std::vector<MPI_Request> last_;  // other sends: only the end of the exchange waits for them
  std::vector<int> last_slot_;
  std::vector<MPI_Request> looked_at_;  // of first_
  std::vector<std::size_t> place_;      // where they are in it
  std::size_t most_looked_at_;          // receives that no step waits for
  double owed_ = 0;                     // seconds
};

}  // namespace tapa::sim
