// The exchange "nccl": NCCL's all-to-all, the baseline of device memory. Host memory goes as with "mpi".
#include "mpi/flat.hpp"
#include "nccl/device.hpp"

namespace dit {

namespace {

PluginConfig read(const char* text) {
  PluginConfig config(text, {"progress", "poll_us", "zero-cta", "library"});
  check_progress_config(config);
  const std::string zero_cta = config.text("zero-cta", "0");
  if (zero_cta != "0" && zero_cta != "1")
    throw ConfigError("config has zero-cta=" + zero_cta + ", expected 0 or 1");
  return config;
}

std::unique_ptr<AllToAll> make(MPI_Comm comm, const PluginConfig&) {
  return make_flat(comm);
}

std::unique_ptr<DeviceExchange> make_device(MpiRanks& ranks, const PluginConfig& config,
                                            const DeviceSettings& settings) {
  return make_nccl_device(ranks, config, settings);
}

}  // namespace

extern const AllToAllKind plugin_kind;
const AllToAllKind plugin_kind{
    "nccl", "NCCL, one grouped all-to-all for each exchange of device memory", read, make, make_device, 0};

}  // namespace dit
