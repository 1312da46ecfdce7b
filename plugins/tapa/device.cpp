#include "tapa/device.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <vector>

#include "common/agree.hpp"
#include "cuda/stream_events.hpp"
#include "exchange/plugin_guard.hpp"

namespace dit {
namespace {

constexpr double kNoLimit = 1e9;  ///< seconds; the engine's longest

dit_status status_of(int code) {
  switch (code) {
    case TAPA_DEVICE_ERR_ARG:
      return DIT_ERROR_ARGUMENT;
    case TAPA_DEVICE_ERR_UNSUPPORTED:
      return DIT_ERROR_UNSUPPORTED;
    case TAPA_DEVICE_ERR_MEMORY:
      return DIT_ERROR_MEMORY;
    default:
      return DIT_ERROR_COMMUNICATION;
  }
}

cudaStream_t stream_of(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

TAPA_Device_block to_block(const dit_strided_block& block) {
  return {block.offset, block.row_bytes, block.rows, block.row_stride, block.planes, block.plane_stride};
}
TAPA_Device_block to_block(const dit_block& block) {
  return {block.bytes > 0 ? block.offset : 0, block.bytes, 1, block.bytes, 1, 0};
}

/// One side's blocks as the engine takes them.
std::vector<TAPA_Device_block> to_blocks(const dit_block* blocks, const dit_strided_block* strided,
                                         std::size_t size) {
  std::vector<TAPA_Device_block> all(size);
  for (std::size_t peer = 0; peer < size; ++peer)
    all[peer] = strided != nullptr ? to_block(strided[peer]) : to_block(blocks[peer]);
  return all;
}

/// Sizes and places of plain blocks.
struct Plain {
  Plain(const dit_block* blocks, std::size_t size) {
    for (std::size_t peer = 0; peer < size; ++peer) {
      bytes.push_back(blocks[peer].bytes);
      offsets.push_back(blocks[peer].bytes > 0 ? blocks[peer].offset : 0);
    }
  }
  std::vector<std::size_t> bytes, offsets;
};

/// The ranks as the engine's functions reach them, and what went wrong on the way.
class Gathering {
 public:
  explicit Gathering(Ranks& ranks) : ranks_(ranks) {}

  static int gather(void* context, const void* mine, void* all, std::size_t bytes) {
    auto& self = *static_cast<Gathering*>(context);
    try {
      self.ranks_.allgather(mine, all, bytes);
      return 0;
    } catch (const PluginFailure& failure) {
      self.unreached_.emplace(failure);
    } catch (const std::exception& error) {
      self.unreached_.emplace(DIT_ERROR_COMMUNICATION, error.what());
    }
    return 1;
  }
  void require(int code) const {
    if (code == TAPA_DEVICE_ERR_ALLGATHER && unreached_) throw PluginFailure(*unreached_);
    if (code != TAPA_DEVICE_SUCCESS) throw PluginFailure(status_of(code), TAPA_Device_last_error());
  }
  void forget() { unreached_.reset(); }

 private:
  Ranks& ranks_;
  std::optional<PluginFailure> unreached_;
};

class TapaDevice final : public DeviceExchange {
 public:
  TapaDevice(Ranks& ranks, const MakeEngine& make_engine, const DeviceSettings& settings)
      : gathering_(ranks),
        device_(settings.device),
        size_(static_cast<std::size_t>(ranks.size())),
        order_(settings.device) {
    std::unique_ptr<CurrentCudaDevice> current;
    together(ranks, [&] { current = std::make_unique<CurrentCudaDevice>(device_); });
    TAPA_Device_options options{};
    options.struct_size = sizeof(options);
    options.timeout = settings.timeout_seconds > 0 ? std::min(settings.timeout_seconds, kNoLimit) : kNoLimit;
    require(make_engine ? make_engine(Gathering::gather, &gathering_, options, &comm_)
                        : TAPA_Device_comm_create(ranks.rank(), ranks.size(), Gathering::gather, &gathering_,
                                                  &options, &comm_));
  }
  ~TapaDevice() override {
    if (comm_ != TAPA_DEVICE_COMM_NULL) (void)TAPA_Device_comm_free(&comm_);
  }

  // The device is made current for the order's events and the default stream, which is one of each device.
  std::unique_ptr<StreamEnd> start(const dit_exchange_call& call) override {
    const CurrentCudaDevice current(device_);
    order_.enter(stream_of(call.stream));
    auto done = order_.mark_beside();
    int apart = 0;
    if (call.send_strided == nullptr && call.recv_strided == nullptr) {
      const Plain send(call.send_blocks, size_);
      const Plain recv(call.recv_blocks, size_);
      require(TAPA_Device_ialltoallv(call.send, send.bytes.data(), send.offsets.data(), call.recv,
                                     recv.bytes.data(), recv.offsets.data(), comm_, call.stream,
                                     done->event(), &apart));
    } else {
      const auto send = to_blocks(call.send_blocks, call.send_strided, size_);
      const auto recv = to_blocks(call.recv_blocks, call.recv_strided, size_);
      require(TAPA_Device_ialltoall_strided(call.send, send.data(), call.recv, recv.data(), comm_,
                                            call.stream, done->event(), &apart));
    }
    auto end = order_.leave(stream_of(call.stream));
    return apart != 0 ? end_of(std::move(done)) : std::move(end);
  }

  void check() override { require(TAPA_Device_query(comm_, nullptr)); }

  // Not symmetric: that would bind all ranks to one place in the memory, which the interface does not ask
  // for.
  int add_memory(void* memory, std::size_t bytes) override {
    int window = -1;
    require(TAPA_Device_register(comm_, memory, bytes, 0, &window));
    return window;
  }
  // Stores that were begun and not ended: libtapa would refuse on this rank, while others wait for it.
  void settle() override {
    if (storing_)
      throw PluginFailure(DIT_ERROR_ARGUMENT, "begin_stores was called and not end_stores, expected both");
    const CurrentCudaDevice current(device_);
    require_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  void remove_memory(int window) override { require(TAPA_Device_deregister(comm_, window)); }

  void* peer_memory(int window, int rank) override {
    void* memory = nullptr;
    require(TAPA_Device_peer_memory(comm_, window, rank, &memory));
    return memory;
  }
  void begin_stores(int window, void* stream) override {
    const CurrentCudaDevice current(device_);
    order_.enter(stream_of(stream));
    require(TAPA_Device_begin_stores(comm_, window, stream));
    storing_ = true;
  }
  std::unique_ptr<StreamEnd> end_stores(int window, void* stream) override {
    const CurrentCudaDevice current(device_);
    require(TAPA_Device_end_stores(comm_, window, stream));
    storing_ = false;
    return order_.leave(stream_of(stream));
  }

  void give_up(const std::string& why) noexcept override { (void)TAPA_Device_give_up(comm_, why.c_str()); }
  void restart() override {
    gathering_.forget();
    require(TAPA_Device_restart(comm_));
    storing_ = false;
  }

  void abandon() noexcept override { comm_ = TAPA_DEVICE_COMM_NULL; }

  std::string text() const override {
    return "device memory by libtapa's device engine on GPU " + std::to_string(device_);
  }

 private:
  /// As TAPA_Device_allgather. What goes wrong is kept: the engine has no words for it.
  void require(int code) const { gathering_.require(code); }

  Gathering gathering_;
  int device_;
  std::size_t size_;
  StreamOrder order_;
  TAPA_Device_comm comm_ = TAPA_DEVICE_COMM_NULL;
  bool storing_ = false;
};

}  // namespace

std::unique_ptr<DeviceExchange> make_tapa_device(Ranks& ranks, const MakeEngine& make_engine,
                                                 const DeviceSettings& settings) {
  return std::make_unique<TapaDevice>(ranks, make_engine, settings);
}

std::vector<int> groups_within_reach(Ranks& ranks, int device) {
  std::unique_ptr<CurrentCudaDevice> current;
  together(ranks, [&] { current = std::make_unique<CurrentCudaDevice>(device); });
  std::vector<int> groups(static_cast<std::size_t>(ranks.size()));
  Gathering gathering(ranks);
  gathering.require(
      TAPA_Device_reach(ranks.rank(), ranks.size(), Gathering::gather, &gathering, groups.data()));
  return groups;
}

}  // namespace dit
