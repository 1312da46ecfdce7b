#include "world/process_options.hpp"

#include <mpi.h>

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "files/environment.hpp"
#include "run/error.hpp"
#include "run/log.hpp"

namespace tapa {

Options environment_options() {
  std::vector<std::string> warnings;
  try {
    Options options = Options::from_environment(files::variables(), warnings);
    static std::once_flag once;
    std::call_once(once, [&] {
      set_log_level(options.settings().log);
      int rank = 0;  // once in the job is enough
      PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
      if (rank != 0) return;
      for (const std::string& warning : warnings) log_warn(warning);
    });
    return options;
  } catch (const std::invalid_argument& e) {
    throw CallError(MPI_ERR_ARG, e.what());
  }
}

const Options& own_options() {
  static const auto* const options = [] {
    try {
      return new Options(environment_options());
    } catch (const CallError&) {
      return new Options;
    }
  }();
  return *options;
}

}  // namespace tapa
