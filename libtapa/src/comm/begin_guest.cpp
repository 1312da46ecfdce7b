#include "comm/begin_guest.hpp"

#include <mpi.h>

#include <exception>

#include "comm/comm_state.hpp"
#include "comm/past_calls.hpp"
#include "comm/registry.hpp"
#include "run/log.hpp"
#include "run/progress.hpp"
#include "world/guest.hpp"
#include "world/world.hpp"

namespace tapa {

void begin_guest() noexcept {
  const double began = PMPI_Wtime();
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    const std::shared_ptr<World> world = World::make(MPI_COMM_WORLD);
    if (!world->options()->settings().enable) return;
    World::set_of_process(world);
    if (world->mates().size() > 1 && !world->arena() && world->nodes() == 1) {
      if (rank == 0) warn_all_is_mpis("the ranks of this node can share no memory");
      return;
    }
    Progress::instance().settle();
    if (world->size() > 1) state_of(MPI_COMM_WORLD)->set_up_whole(world, began);
    if (world->size() > 1) watch_for_past_calls();
  } catch (const SetupError& e) {  // all ranks know
    if (rank == 0) warn_all_is_mpis(e.what());
  } catch (const std::exception& e) {  // this rank may be the only one that knows: nobody could go on
    log_error(std::string("the ranks could not agree in MPI_Init: ") + e.what());
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }
}

}  // namespace tapa
