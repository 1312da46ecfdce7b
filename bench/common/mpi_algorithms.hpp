/// @file
/// MPI's own algorithms for one collective, each on a communicator of its own, so that one job can race them
/// all.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace tapa::bench {

/// Lets Open MPI's algorithms be chosen at run time (coll_tuned_use_dynamic_rules), unless the environment
/// says otherwise. Must be called before MPI_Init; other MPIs ignore it.
void allow_algorithm_choice();

/// A communicator on which MPI uses one algorithm. Owns it.
struct MpiAlgorithm {
  std::string name;  ///< "default", or Open MPI's name: "linear", "pairwise", ...
  MPI_Comm comm = MPI_COMM_NULL;
};

/// The algorithms of this MPI for a collective, on duplicates of one communicator.
class MpiAlgorithms {
 public:
  /// Collective. `variable` is Open MPI's control variable, e.g. "coll_tuned_alltoall_algorithm"; where MPI_T
  /// does not know it, there is only the default. The duplicates return errors instead of aborting.
  MpiAlgorithms(MPI_Comm comm, const std::string& variable);
  ~MpiAlgorithms();
  MpiAlgorithms(const MpiAlgorithms&) = delete;
  MpiAlgorithms& operator=(const MpiAlgorithms&) = delete;

  [[nodiscard]] const std::vector<MpiAlgorithm>& all() const { return algorithms_; }

  /// Takes out algorithms that cannot run here: those for which `try_one` fails on any rank (Open MPI's
  /// "two_proc" on more than two ranks). Collective.
  template <typename Try>
  void keep_working(Try&& try_one) {
    for (std::size_t i = algorithms_.size(); i-- > 0;) {
      int good = try_one(algorithms_[i]) == MPI_SUCCESS ? 1 : 0;
      MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, comm_);
      if (good == 0) {
        MPI_Comm_free(&algorithms_[i].comm);
        algorithms_.erase(algorithms_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

 private:
  void add(const std::string& name);

  MPI_Comm comm_;
  std::vector<MpiAlgorithm> algorithms_;
};

}  // namespace tapa::bench
