// The calls of a communicator: what its kernels are told, and by which way blocks go.
#include <algorithm>
#include <iterator>
#include <string>

#include "device/communicator.hpp"
#include "device/current_device.hpp"
#include "device/device_error.hpp"
#include "device/kernel.hpp"

namespace tapa::device {

namespace {

/// Throws when the chunks of a block cannot be counted.
void check_lengths(const Call& call) {
  const Word longest = longest_block(call.region.tuning);
  for (int peer = 0; peer < call.region.size; ++peer) {
    if (call.blocks[peer].send_bytes <= longest && call.blocks[peer].receive_bytes <= longest) continue;
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "the block of rank " + std::to_string(peer) + " has more than " +
                                               std::to_string(longest) + " bytes");
  }
}

/// Bytes of each block that threads store while copy engines, which take some microseconds to begin, copy the
/// others.
constexpr Word kStoredBeside = Word{4} << 20;

void copy_on_device(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
}

}  // namespace

template <class CallType>
CallType Communicator::new_call() const {
  check_failure();
  CallType call{};
  static_cast<CallHead&>(call) = head_;
  return call;
}

void Communicator::alltoall(const void* send, void* receive, std::size_t bytes, cudaStream_t stream) {
  require_no_stores();
  const CurrentDevice current(device_);
  Call call = new_call<Call>();
  const auto* const from = static_cast<const std::byte*>(send);
  auto* const to = static_cast<std::byte*>(receive);
  const Target target = Windows::Finder(*windows_).find(to, bytes * static_cast<std::size_t>(size()));
  for (int peer = 0; peer < size(); ++peer) {
    const Word at = static_cast<Word>(peer) * bytes;
    call.blocks[peer] = {from + at, to + at, bytes, bytes};
    const bool staged = target.window == Target::kStaging;
    call.targets[peer] = pack(staged ? target : Target{target.window, target.offset + at});
  }
  if (by_copy_engines(bytes, target)) {
    launch_copies(call, target, stream);
    return;
  }
  check_lengths(call);
  check_first_launch(launch(call, stream), "launch of the all-to-all");
}

bool Communicator::by_copy_engines(std::size_t bytes, Target target) const {
  return size() > 1 && bytes >= copy_from_ && target.window != Target::kStaging &&
         windows_->symmetric_base(target.window, 0) != nullptr;
}

/// Behind each copy comes a copy of the word that tells the receiver of it: nobody waits on this side. One
/// copy after the other, and ranks begin with different peers, so that each receives from one at a time:
/// copies beside each other meet at their receivers, as a graph keeps no order between them.
void Communicator::launch_copies(Call& call, Target target, cudaStream_t stream) {
  const RegionView mine(call.regions[call.rank], call.region);
  const Word bytes = call.blocks[0].send_bytes;
  const Word offset = target.offset + static_cast<Word>(agreement_.rank()) * bytes;
  call.expected = pack({target.window, offset});
  call.copied = copied_bytes(bytes, kStoredBeside, call.region);
  side_streams_->require_free_for(stream);
  check_first_launch(launch_begin(call, stream), "launch of the handshake");
  side_streams_->fork(stream);
  const cudaStream_t copies = side_streams_->at(0);
  for (int step = 1; step < size(); ++step) {
    const int peer = (agreement_.rank() + step) % size();
    copy_on_device(windows_->symmetric_base(target.window, peer) + offset, call.blocks[peer].send,
                   call.copied, copies);
    copy_on_device(&RegionView(call.regions[peer], call.region).words(call.rank, 0).arrived,
                   &mine.local().copied[peer], sizeof(Word), copies);
  }
  check_cuda(launch_join(call, side_streams_->at(1)), "launch of the wait for copies");
  check_cuda(launch_beside_copies(call, stream), "launch beside the copies");
  side_streams_->join(stream);
}

void Communicator::alltoallv(const void* send, void* receive, const Layout& layout, cudaStream_t stream) {
  require_no_stores();
  const CurrentDevice current(device_);
  Call call = new_call<Call>();
  Windows::Finder windows(*windows_);
  for (int peer = 0; peer < size(); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    Block& block = call.blocks[peer];
    block.send_bytes = layout.send_bytes[index];
    block.receive_bytes = layout.receive_bytes[index];
    block.send =
        static_cast<const std::byte*>(send) + (block.send_bytes == 0 ? 0 : layout.send_displs[index]);
    block.receive =
        static_cast<std::byte*>(receive) + (block.receive_bytes == 0 ? 0 : layout.receive_displs[index]);
    call.targets[peer] = pack(windows.find(block.receive, block.receive_bytes));
  }
  check_lengths(call);
  check_first_launch(launch(call, stream), "launch of the all-to-all");
}

void Communicator::alltoall_strided(const void* send, void* receive, const StridedLayout& layout,
                                    cudaStream_t stream) {
  require_no_stores();
  const CurrentDevice current(device_);
  auto call = new_call<StridedCall>();
  auto* const from = static_cast<std::byte*>(const_cast<void*>(send));  // is read from alone
  auto* const to = static_cast<std::byte*>(receive);
  Windows::Finder windows(*windows_);
  for (int peer = 0; peer < size(); ++peer) {
    const PlacedBlock& sent = layout.send[static_cast<std::size_t>(peer)];
    const PlacedBlock& received = layout.receive[static_cast<std::size_t>(peer)];
    StridedBlock& block = call.blocks[peer];
    block.send_bytes = bytes_of(sent.strides);
    block.receive_bytes = bytes_of(received.strides);
    if (block.send_bytes != 0) block.send = rows_at(from + sent.offset, sent.strides);
    if (block.receive_bytes != 0) block.receive = rows_at(to + received.offset, received.strides);
    call.targets[peer] = pack(windows.find(block.receive.base, extent_of(received.strides)));
  }
  check_first_launch(launch(call, stream), "launch of the all-to-all");
}

void Communicator::require_no_stores() const {
  if (!storing_) return;
  throw DeviceError(TAPA_DEVICE_ERR_ARG, "the call comes after TAPA_Device_begin_stores on window " +
                                             std::to_string(*storing_) +
                                             ", expected TAPA_Device_end_stores first");
}

void Communicator::begin_stores(int window, cudaStream_t stream) {
  require_no_stores();
  const CurrentDevice current(device_);
  windows_->require_reachable(window);
  Call call = new_call<Call>();
  windows_->require_unfreed(window);
  // A place that no all-to-all asks for: ranks that make different calls notice.
  call.expected = pack({static_cast<Word>(window), Target::kStores});
  std::fill(std::begin(call.targets), std::end(call.targets), call.expected);
  std::fill(std::begin(call.blocks), std::end(call.blocks), Block{nullptr, nullptr, kAnyBytes, kAnyBytes});
  check_first_launch(launch_begin(call, stream), "launch of the handshake");
  storing_ = window;
}

void Communicator::end_stores(int window, cudaStream_t stream) {
  if (storing_ != window) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG,
                      "window is " + std::to_string(window) + ", expected " +
                          (storing_ ? std::to_string(*storing_) + ", that of TAPA_Device_begin_stores"
                                    : std::string("a call of TAPA_Device_begin_stores before")));
  }
  Call call = new_call<Call>();
  std::fill(std::begin(call.blocks), std::end(call.blocks), Block{nullptr, nullptr, kAnyBytes, kAnyBytes});
  const CurrentDevice current(device_);
  check_first_launch(launch_end(call, stream), "launch of the handshake");
  storing_.reset();
}

}  // namespace tapa::device
