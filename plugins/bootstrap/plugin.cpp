// The table of the exchange "bootstrap": ranks that the program brings together.
#include <cstdlib>

#include "bootstrap/context.hpp"
#include "bootstrap/device.hpp"
#include "common/plugin_functions.hpp"

namespace dit {
namespace {

using Functions = PluginFunctions<BootstrapContext>;

dit_status open(const dit_open_options* options, dit_context** context) {
  return Functions::answer([&] {
    require_argument(check_open(options, context));
    *context = nullptr;
    dit_bootstrap alone{};
    alone.struct_size = sizeof(alone);
    alone.size = 1;
    const auto* given = static_cast<const dit_bootstrap*>(options->communicator);
    *context = Functions::handle(std::make_unique<BootstrapContext>(
        given == nullptr ? alone : *given,
        BootstrapContext::Settings{options->timeout_seconds,
                                   options->config == nullptr ? "" : options->config},
        this_node(), ""));
  });
}

dit_status close(dit_context* context) {
  if (context == nullptr) return DIT_OK;
  const std::unique_ptr<BootstrapContext> closing(Functions::self(context));
  const dit_status status = Functions::answer([&] { closing->close(); });
  closing->release_buffers();
  return status;
}

// Other processes are out of reach: they find out when this one does not come.
void abort_job(dit_context* context, int exit_code) {
  if (context != nullptr && Functions::self(context)->size() > 1) std::_Exit(exit_code);
}

}  // namespace
}  // namespace dit

extern "C" const dit_exchange_plugin* dit_exchange_bootstrap_plugin_v1(std::uint32_t wanted) {
  if (wanted != DIT_EXCHANGE_VERSION) return nullptr;
  static const dit_exchange_plugin table =
      dit::Functions::table({"bootstrap", "ranks that the program brings together, without MPI",
                             dit::bootstrap_devices.capabilities, dit::bootstrap_devices.make != nullptr},
                            dit::open, dit::close, dit::abort_job);
  return &table;
}
