// The exchange "tapa": libtapa's topology-aware all-to-all.
#include <tapa/tapa.h>

#include <algorithm>
#include <array>

#include "common/all_to_all.hpp"
#include "common/call_arrays.hpp"
#include "common/mpi_error.hpp"
#include "exchange/select_rows.hpp"
#include "tapa/agreed_layout.hpp"
#ifdef DIT_HAVE_CUDA
#include <tapa/device_mpi.h>

#include "tapa/device.hpp"
#endif

namespace dit {

namespace {

constexpr std::size_t kMostLevels = std::size(dit_exchange_totals{}.sent_bytes);

void check_tapa(int code) {
  if (code != MPI_SUCCESS) throw PluginFailure(DIT_ERROR_COMMUNICATION, TAPA_Last_error());
}

class TapaTransfer final : public Transfer {
 public:
  TapaTransfer(MPI_Comm comm, const dit_exchange_call& call, const ContextPlace& place)
      : comm_(comm), arrays_(call, place) {}

  void start(MPI_Request& request) override {
    check_tapa(arrays_.pass_to(TAPA_Ialltoallv_c, comm_, &request));
  }
  void run() override { check_tapa(arrays_.pass_to(TAPA_Alltoallv_c, comm_)); }
  void finish() override { arrays_.finish(); }

 private:
  MPI_Comm comm_;
  CallArrays<MPI_Count, MPI_Aint> arrays_;
};

/// An exchange whose blocks all ranks know.
class AgreedTransfer final : public Transfer {
 public:
  AgreedTransfer(MPI_Comm comm, const dit_exchange_call& call, std::size_t size,
                 std::shared_ptr<AgreedLayout> layout, const std::string& everywhere)
      : comm_(comm), layout_(std::move(layout)), everywhere_(everywhere), send_(call.send), recv_(call.recv) {
    for (std::size_t peer = 0; peer < size; ++peer) {
      send_offsets_.push_back(offset_of(call.send_blocks[peer]));
      recv_offsets_.push_back(offset_of(call.recv_blocks[peer]));
    }
  }

  bool start_waits() const override { return !layout_->agreed(); }
  void start(MPI_Request& request) override {
    layout_->agree(comm_, everywhere_);
    check_tapa(TAPA_Ialltoallv_select(send_, send_offsets_.data(), recv_, recv_offsets_.data(), 1,
                                      layout_->selection(), &request));
  }
  void run() override {
    layout_->agree(comm_, everywhere_);
    check_tapa(TAPA_Alltoallv_select(send_, send_offsets_.data(), recv_, recv_offsets_.data(), 1,
                                     layout_->selection()));
  }

 private:
  static MPI_Aint offset_of(const dit_block& block) {
    return block.bytes > 0 ? static_cast<MPI_Aint>(block.offset) : 0;
  }

  MPI_Comm comm_;
  std::shared_ptr<AgreedLayout> layout_;
  std::string everywhere_;
  const void* send_;
  void* recv_;
  std::vector<MPI_Aint> send_offsets_, recv_offsets_;
};

class TapaAllToAll final : public AllToAll {
 public:
  TapaAllToAll(MPI_Comm comm, const PluginConfig& config) : comm_(comm), plan_(config.text("plan", "")) {}
  Levels levels() override;
  std::unique_ptr<Transfer> prepare(const dit_exchange_call& call, const ContextPlace& place) override {
    if (call.layout_id != 0 && call.selection == nullptr)
      return std::make_unique<AgreedTransfer>(comm_, call, place.size(), layouts_.of(call, place.size()),
                                              everywhere_);
    return std::make_unique<TapaTransfer>(comm_, call, place);
  }
  std::string text() const override;

 private:
  void set_up() const;

  MPI_Comm comm_;
  std::string plan_;
  std::string everywhere_;  ///< the slowest level: a boundary behind which nobody is
  AgreedLayouts layouts_;
};

void TapaAllToAll::set_up() const {
  check_tapa(TAPA_Comm_set(comm_, "gpu", "host"));  // device memory goes another way
  if (plan_.empty()) return;
  std::string plan = plan_;
  std::replace(plan.begin(), plan.end(), '/', ',');  // a comma ends a setting
  if (TAPA_Comm_set(comm_, "plan", plan.c_str()) != MPI_SUCCESS)
    throw PluginFailure(DIT_ERROR_ARGUMENT, "config has plan=" + plan_ + ": " + TAPA_Last_error());
}

Levels TapaAllToAll::levels() {
  set_up();
  std::array<char, 4096> text{};
  int count = 0;
  int size = 0;
  Levels levels;
  check_tapa(
      TAPA_Comm_levels(comm_, &count, &levels.slow, text.data(), static_cast<int>(text.size()), nullptr));
  if (static_cast<std::size_t>(count) > kMostLevels)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, "the topology has " + std::to_string(count) +
                                                   " levels, expected at most " +
                                                   std::to_string(kMostLevels));
  std::string_view rest(text.data());
  for (int level = 0; level < count; ++level) {
    levels.names.emplace_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(levels.names.back().size() + 1, rest.size()));
  }
  everywhere_ = levels.names.back();
  check_mpi(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
  levels.of.resize(static_cast<std::size_t>(size));
  for (int peer = 0; peer < size; ++peer)
    check_tapa(TAPA_Comm_level(comm_, peer, &levels.of[static_cast<std::size_t>(peer)], nullptr, 0));
  return levels;
}

std::string TapaAllToAll::text() const {
  int major = 0;
  int minor = 0;
  int patch = 0;
  TAPA_Get_version(&major, &minor, &patch);
  return "libtapa " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

PluginConfig read(const char* text) {
  PluginConfig config(text, {"progress", "poll_us", "plan"});
  check_progress_config(config);
  return config;
}

std::unique_ptr<AllToAll> make(MPI_Comm comm, const PluginConfig& config) {
  return std::make_unique<TapaAllToAll>(comm, config);
}

#ifdef DIT_HAVE_CUDA
std::unique_ptr<DeviceExchange> make_device(MpiRanks& ranks, const PluginConfig&,
                                            const DeviceSettings& settings) {
  const auto make_engine = [&](TAPA_Device_allgather, void*, const TAPA_Device_options& options,
                               TAPA_Device_comm* comm) {
    return TAPA_Device_comm_create_mpi(ranks.comm(), &options, comm);
  };
  return make_tapa_device(ranks, make_engine, settings);
}
constexpr std::uint64_t capabilities = DIT_CAPABILITY_DEVICE_STRIDED | DIT_CAPABILITY_STORES;
#else
constexpr MakeDeviceExchange make_device = nullptr;
constexpr std::uint64_t capabilities = 0;
#endif

}  // namespace

extern const AllToAllKind plugin_kind;
const AllToAllKind plugin_kind{"tapa",      "libtapa's topology-aware all-to-all", read, make, make_device,
                               capabilities};

}  // namespace dit
