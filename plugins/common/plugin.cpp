// The table of an exchange over MPI.
#include <utility>

#include "common/context.hpp"
#include "common/plugin_functions.hpp"
#include "tapa/errors_return.hpp"

// Each plugin defines what it is.
namespace dit {
extern const AllToAllKind plugin_kind;

namespace {

using Functions = PluginFunctions<MpiContext>;

MPI_Comm communicator_of(const dit_open_options& options) {
  if (options.communicator == nullptr) return MPI_COMM_WORLD;
  const MPI_Comm comm = *static_cast<const MPI_Comm*>(options.communicator);
  if (comm == MPI_COMM_NULL)
    throw PluginFailure(DIT_ERROR_ARGUMENT, "options.communicator is MPI_COMM_NULL, expected a communicator");
  int inter = 0;
  check_mpi(MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
  if (inter != 0)
    throw PluginFailure(DIT_ERROR_ARGUMENT,
                        "options.communicator is an intercommunicator, expected an intracommunicator");
  return comm;
}

dit_status open(const dit_open_options* options, dit_context** context) {
  return Functions::answer([&] {
    require_argument(check_open(options, context));
    *context = nullptr;
    MpiSession& session = MpiSession::require();
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(communicator_of(*options), &comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm, tapa::errors_return());
    const char* config = options->config == nullptr ? "" : options->config;
    *context =
        Functions::handle(MpiContext::make(plugin_kind, session, comm, options->timeout_seconds, config));
  });
}

dit_status close(dit_context* context) {
  if (context == nullptr) return DIT_OK;
  std::unique_ptr<MpiContext> closing(Functions::self(context));
  const dit_status status = Functions::answer([&] { closing->close(); });
  closing->release_buffers();
  if (closing->failed()) {
    closing->abandon();
    static_cast<void>(closing.release());
  }
  return status;
}

void abort_job(dit_context*, int exit_code) {
  int running = 0;
  int finalised = 0;
  if (MPI_Initialized(&running) == MPI_SUCCESS && MPI_Finalized(&finalised) == MPI_SUCCESS && running != 0 &&
      finalised == 0)
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace
}  // namespace dit

extern "C" __attribute__((visibility("default"))) const dit_exchange_plugin* dit_exchange_plugin_v1(
    std::uint32_t wanted) {
  if (wanted != DIT_EXCHANGE_VERSION) return nullptr;
  static const dit_exchange_plugin table =
      dit::Functions::table({dit::plugin_kind.name, dit::plugin_kind.description,
                             dit::plugin_kind.capabilities, dit::plugin_kind.make_device != nullptr},
                            dit::open, dit::close, dit::abort_job);
  return &table;
}
