#include "nccl/device.hpp"

#include <map>
#include <utility>

#include "common/agree.hpp"
#include "cuda/stream_events.hpp"
#include "exchange/plugin_guard.hpp"
#include "nccl/library.hpp"

namespace dit {
namespace {

/// Whether blocks are equal and follow each other, as ncclAlltoAll takes them.
bool even(const dit_block* blocks, std::size_t size) {
  for (std::size_t peer = 0; peer < size; ++peer)
    if (blocks[peer].bytes != blocks[0].bytes || blocks[peer].offset != peer * blocks[0].bytes) return false;
  return true;
}

/// Ends on every way out: a group left open would keep all later calls of this thread.
class Group {
 public:
  explicit Group(const NcclLibrary& nccl) : nccl_(nccl) {
    nccl_.check(nccl_.group_start(), "ncclGroupStart");
  }
  ~Group() {
    if (open_) (void)nccl_.group_end();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void end() {
    open_ = false;
    nccl_.check(nccl_.group_end(), "ncclGroupEnd");
  }

 private:
  const NcclLibrary& nccl_;
  bool open_ = true;
};

class NcclDevice final : public DeviceExchange {
 public:
  NcclDevice(Ranks& ranks, const PluginConfig& config, const DeviceSettings& settings)
      : device_(settings.device),
        timeout_seconds_(settings.timeout_seconds),
        size_(static_cast<std::size_t>(ranks.size())),
        order_(settings.device),
        zero_cta_(config.text("zero-cta", "0") == "1") {
    std::unique_ptr<CurrentCudaDevice> current;
    ncclUniqueId id{};
    together(ranks, [&] {
      nccl_ = std::make_unique<NcclLibrary>(config.text("library", "libnccl.so.2"));
      current = std::make_unique<CurrentCudaDevice>(device_);
      if (ranks.rank() == 0) nccl_->check(nccl_->get_unique_id(&id), "ncclGetUniqueId");
    });
    id = gather(ranks, id).front();
    together(ranks, [&] {
      ncclConfig_t how = NCCL_CONFIG_INITIALIZER;
      if (zero_cta_) how.CTAPolicy = NCCL_CTA_POLICY_ZERO;
      nccl_->check(nccl_->init(&comm_, ranks.size(), id, ranks.rank(), &how), "ncclCommInitRankConfig");
    });
  }
  ~NcclDevice() override {
    if (comm_ != nullptr) (void)nccl_->destroy(comm_);
  }

  std::unique_ptr<StreamEnd> start(const dit_exchange_call& call) override {
    auto* const stream = static_cast<cudaStream_t>(call.stream);
    const CurrentCudaDevice current(device_);
    order_.enter(stream);
    if (zero_cta_ && even(call.send_blocks, size_) && even(call.recv_blocks, size_)) {
      nccl_->check(
          nccl_->all_to_all(call.send, call.recv, call.send_blocks[0].bytes, ncclInt8, comm_, stream),
          "ncclAlltoAll");
    } else {
      send_and_receive(call, stream);
    }
    return with_limit(order_.leave(stream), timeout_seconds_);
  }

  void check() override {
    if (comm_ == nullptr) return;  // stopped: the failure is known
    ncclResult_t state = ncclSuccess;
    nccl_->check(nccl_->async_error(comm_, &state), "ncclCommGetAsyncError");
    nccl_->check(state, "an exchange by NCCL");
  }

  int add_memory(void* memory, std::size_t bytes) override {
    const CurrentCudaDevice current(device_);
    Registered made;
    if (bytes > 0) {
      if (zero_cta_)
        nccl_->check(nccl_->register_window(comm_, memory, bytes, &made.window, NCCL_WIN_COLL_SYMMETRIC),
                     "ncclCommWindowRegister");
      else
        nccl_->check(nccl_->register_buffer(comm_, memory, bytes, &made.buffer), "ncclCommRegister");
    }
    registered_.emplace(next_, made);
    return next_++;
  }
  void settle() override {
    const CurrentCudaDevice current(device_);
    require_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  void remove_memory(int number) override {
    const CurrentCudaDevice current(device_);
    const Registered& gone = registered_.at(number);
    if (comm_ != nullptr && gone.window != nullptr)
      nccl_->check(nccl_->deregister_window(comm_, gone.window), "ncclCommWindowDeregister");
    if (comm_ != nullptr && gone.buffer != nullptr)
      nccl_->check(nccl_->deregister_buffer(comm_, gone.buffer), "ncclCommDeregister");
    registered_.erase(number);
  }

  void* peer_memory(int, int) override { no_stores(); }
  void begin_stores(int, void*) override { no_stores(); }
  std::unique_ptr<StreamEnd> end_stores(int, void*) override { no_stores(); }

  // Kernels of NCCL wait for a rank that has died until their communicator is aborted.
  void stop() noexcept override {
    if (comm_ != nullptr) (void)nccl_->abort(std::exchange(comm_, nullptr));
  }
  void abandon() noexcept override { comm_ = nullptr; }

  std::string text() const override {
    return "device memory by NCCL " + nccl_->version() + (zero_cta_ ? ", zero-CTA" : "") + " on GPU " +
           std::to_string(device_);
  }

 private:
  struct Registered {
    void* buffer = nullptr;
    ncclWindow_t window = nullptr;
  };

  [[noreturn]] static void no_stores() {
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, "plugin nccl has no stores into the memory of other ranks");
  }

  void send_and_receive(const dit_exchange_call& call, cudaStream_t stream) {
    Group group(*nccl_);
    for (std::size_t peer = 0; peer < size_; ++peer) {
      const dit_block& sent = call.send_blocks[peer];
      const dit_block& received = call.recv_blocks[peer];
      if (sent.bytes > 0)
        nccl_->check(nccl_->send(static_cast<const std::byte*>(call.send) + sent.offset, sent.bytes, ncclInt8,
                                 static_cast<int>(peer), comm_, stream),
                     "ncclSend");
      if (received.bytes > 0)
        nccl_->check(nccl_->recv(static_cast<std::byte*>(call.recv) + received.offset, received.bytes,
                                 ncclInt8, static_cast<int>(peer), comm_, stream),
                     "ncclRecv");
    }
    group.end();
  }

  std::unique_ptr<NcclLibrary> nccl_;
  int device_;
  double timeout_seconds_;
  std::size_t size_;
  StreamOrder order_;
  bool zero_cta_;
  ncclComm_t comm_ = nullptr;
  std::map<int, Registered> registered_;
  int next_ = 0;
};

}  // namespace

std::unique_ptr<DeviceExchange> make_nccl_device(Ranks& ranks, const PluginConfig& config,
                                                 const DeviceSettings& settings) {
  return std::make_unique<NcclDevice>(ranks, config, settings);
}

}  // namespace dit
