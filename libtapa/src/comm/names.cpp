#include "comm/names.hpp"

#include "plan/choose.hpp"
#include "report/report_text.hpp"
#include "run/error.hpp"
#include "run/world.hpp"
#include "world/drop_in.hpp"
#include "world/process_options.hpp"

namespace tapa {

std::string name_here(std::string_view function) {
  return name_in_program(function, is_drop_in(), MPI_VERSION < 4);
}

std::string name_for_report(MPI_Comm comm) {
  if (!report_is_wanted()) return {};
  char text[MPI_MAX_OBJECT_NAME] = {};
  int length = 0;
  check_mpi(PMPI_Comm_get_name(comm, text, &length), "MPI_Comm_get_name");
  if (length > 0) return {text, static_cast<std::size_t>(length)};
  return describe_ranks(ranks_in_world(comm), size_of(MPI_COMM_WORLD));
}

std::string explanation(const PlanEntry& entry, const char* function, int ranks, double seconds) {
  std::string line = name_here(function) + ", " + std::to_string(ranks) + " ranks, " +
                     std::to_string(entry.bytes) + " B per pair: " + entry.text + " (" + entry.why + ")";
  if (entry.predicted > 0) line += ", predicted " + in_microseconds(entry.predicted);
  return line + ", first run " + in_microseconds(seconds);
}

}  // namespace tapa
