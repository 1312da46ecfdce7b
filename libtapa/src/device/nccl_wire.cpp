#include "device/nccl_wire.hpp"

#include <chrono>
#include <set>
#include <utility>

#include "device/device_error.hpp"
#include "device/exchange_clock.hpp"
#include "device/parents_thread.hpp"

namespace tapa::device {

namespace {

constexpr std::size_t kBegun = 0, kEnded = 1, kMissing = 2;  ///< places in words_

/// A group of NCCL's calls, which is of the thread: it is ended where one of them fails, too.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclLibrary& library) : library_(library) { library_.begin_group(); }
  ~NcclGroup() {
    if (ended_) return;
    try {
      library_.end_group();
    } catch (const DeviceError&) {  // the call's own error is on its way
    }
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  void end() {
    ended_ = true;
    library_.end_group();
  }

 private:
  const NcclLibrary& library_;
  bool ended_ = false;
};

/// Ranks that have something to do with each other in an exchange: both ends count the other in.
std::set<int> peers_of(std::span<const WireMessage> sends, std::span<const WireMessage> receives) {
  std::set<int> peers;
  for (const WireMessage& message : sends) peers.insert(message.peer);
  for (const WireMessage& message : receives) peers.insert(message.peer);
  return peers;
}

}  // namespace

NcclWire::NcclWire(const Agreement& agreement, const std::vector<int>& peers,
                   std::unique_ptr<NcclLibrary> library, LocalState* state, Word timeout)
    : library_(std::move(library)),
      words_((kMissing + static_cast<std::size_t>(agreement.size())) * sizeof(Word)),
      own_(sizeof(LocalState)),
      tokens_(3 * static_cast<std::size_t>(agreement.size()) * sizeof(Word)),
      timeout_(timeout) {
  auto* const own = reinterpret_cast<LocalState*>(own_.get());
  auto* const tokens = reinterpret_cast<Word*>(tokens_.get());
  common_.mine = tokens;
  common_.got = tokens + agreement.size();
  common_.numbers = tokens + 2 * agreement.size();
  common_.state = state;
  common_.own = own;
  common_.begun = words() + kBegun;
  common_.ended = words() + kEnded;
  common_.missing = words() + kMissing;
  join(agreement);
  agreement.together([&] {
    const Word first = 1;
    PrivateStream stream;
    stream.copy(&own->sequence, &first, sizeof(first));
    const std::vector<Word> numbers(static_cast<std::size_t>(agreement.size()), first);
    stream.copy(common_.numbers, numbers.data(), numbers.size() * sizeof(Word));
    check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
    std::vector<WireMessage> none;
    for (const int peer : peers) none.push_back({peer, nullptr, 0});
    exchange(none, none, stream.get());
    stream.wait();
  });
  watchman_ = std::thread([this] { watch(); });
}

void NcclWire::join(const Agreement& agreement) {
  NcclId id{};
  agreement.together([&] {
    if (agreement.rank() == 0) id = library_->make_id();
  });
  id = agreement.gather(id)[0];
  agreement.together([&] { communicator_ = library_->join(id, agreement.rank(), agreement.size()); });
}

NcclWire::~NcclWire() {
  if (getpid() != process_) {  // a fork: the thread and what NCCL has on the device are the parent's
    leave_to_parent(watchman_);
    return;
  }
  stop_ = true;
  if (watchman_.joinable()) watchman_.join();
  if (communicator_ != nullptr && !aborted_) library_->destroy(communicator_);
}

void NcclWire::exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                        cudaStream_t stream) {
  const std::set<int> peers = peers_of(sends, receives);
  if (peers.empty()) return;
  if (peers.size() > kMaxTokens) {
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                      "messages go to and come from " + std::to_string(peers.size()) +
                          " ranks of other nodes, expected at most " + std::to_string(kMaxTokens));
  }
  if (is_aborted())
    throw DeviceError(TAPA_DEVICE_ERR_CUDA, "an earlier exchange failed, which ended NCCL's communicator");
  Word bytes = 0;
  for (const auto& messages : {sends, receives})
    for (const WireMessage& message : messages) bytes += message.bytes;
  if (bytes > longest_) longest_ = bytes;
  Tokens tokens = common_;
  for (const int peer : peers) tokens.peers[tokens.count++] = static_cast<std::uint16_t>(peer);
  check_cuda(launch_token_make(tokens, stream), "launch before the messages between nodes");
  NcclGroup group(*library_);
  for (const int peer : peers) {
    library_->send(common_.mine + peer, sizeof(Word), peer, communicator_, stream);
    library_->receive(const_cast<Word*>(common_.got) + peer, sizeof(Word), peer, communicator_, stream);
  }
  for (const WireMessage& message : sends) {
    if (message.bytes == 0) continue;
    library_->send(message.memory, message.bytes, message.peer, communicator_, stream);
  }
  for (const WireMessage& message : receives) {
    if (message.bytes == 0) continue;
    library_->receive(message.memory, message.bytes, message.peer, communicator_, stream);
  }
  group.end();
  check_cuda(launch_token_check(tokens, stream), "launch behind the messages between nodes");
}

unsigned long long NcclWire::missing(int rank) const {
  const volatile Word* const missing = words() + kMissing;
  return missing[rank];
}

std::string NcclWire::failure() const {
  const int error = error_;
  return error == 0 ? "" : "NCCL: " + library_->text_of(error);
}

// NCCL's abort waits for the graphs that have recorded its communicator: nobody waits for a lock meanwhile.
void NcclWire::abandon() {
  {
    const std::lock_guard lock(mutex_);
    if (communicator_ == nullptr || std::exchange(aborted_, true)) return;
  }
  library_->abort(communicator_);
}

bool NcclWire::is_aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

bool NcclWire::has_error() {
  const std::lock_guard lock(mutex_);
  if (!aborted_) error_ = library_->error_of(communicator_);
  return error_ != 0;
}

void NcclWire::watch() {
  // A program that captures a stream forbids this thread's calls of CUDA otherwise, which abort() makes.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  (void)cudaSetDevice(device_);
  const volatile Word& begun = words()[kBegun];
  const volatile Word& ended = words()[kEnded];
  ExchangeClock clock(timeout_, std::chrono::steady_clock::now());
  while (!stop_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const Word done = ended;  // the first: no more than have begun
    const Word all = begun;
    const bool late = clock.is_late(all, done, longest_, std::chrono::steady_clock::now());
    if (all == done) continue;
    if (has_error() || late) {
      abandon();  // the check behind the messages finds whose token is not there
      return;
    }
  }
}

}  // namespace tapa::device
