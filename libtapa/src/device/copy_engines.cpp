#include "device/copy_engines.hpp"

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "device/device_error.hpp"
#include "device/driver_function.hpp"
#include "device/engine_order.hpp"
#include "device/exchange_clock.hpp"
#include "device/parents_thread.hpp"

namespace tapa::device {

namespace {

constexpr std::size_t kCounts = 0, kGaveUp = 2, kLost = 3;  ///< places in words_

/// In this form since CUDA 11.7.
struct Driver : DriverFunctions {
  decltype(cuStreamBatchMemOp)* words = find<decltype(cuStreamBatchMemOp)>("cuStreamBatchMemOp", 11070);
};

const Driver& driver() {
  static const Driver found;
  return found;
}

CUstreamBatchMemOpParams operation(CUstreamBatchMemOpType type, const std::uint32_t* word,
                                   std::uint32_t value) {
  CUstreamBatchMemOpParams made{};
  const auto address = reinterpret_cast<CUdeviceptr>(word);
  if (type == CU_STREAM_MEM_OP_WAIT_VALUE_32) {
    made.waitValue = {type, address, {value}, CU_STREAM_WAIT_VALUE_AND, 0};
  } else {
    made.writeValue = {type, address, {value}, CU_STREAM_WRITE_VALUE_DEFAULT, 0};
  }
  return made;
}

}  // namespace

StreamWords& StreamWords::await_bit(const std::uint32_t* word, std::uint32_t bits) {
  operations_.push_back(operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, word, bits));
  return *this;
}
StreamWords& StreamWords::write(std::uint32_t* word, std::uint32_t value) {
  operations_.push_back(operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, word, value));
  return *this;
}

void StreamWords::flush() {
  if (operations_.empty()) return;
  const CUresult code =
      driver().words(stream_, static_cast<unsigned>(operations_.size()), operations_.data(), 0);
  operations_.clear();
  if (code != CUDA_SUCCESS)
    throw DeviceError(TAPA_DEVICE_ERR_CUDA, "cuStreamBatchMemOp: error " + std::to_string(code));
}

bool StreamWords::work_here(std::uint32_t* word) {
  if (!driver().complete()) return false;
  const BesideCaptures beside;
  const PrivateStream stream;
  const auto use = [&] {
    try {
      StreamWords words(stream.get());
      words.write(word, kSlotEmpty).await_bit(word, kSlotEmpty).flush();
      return true;
    } catch (const DeviceError&) {
      return false;
    }
  };
  cudaGraph_t graph = nullptr;
  bool works = cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed) == cudaSuccess;
  if (works) {
    works = use();
    works = cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess && works;
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  return works && use() && cudaStreamSynchronize(stream.get()) == cudaSuccess;
}

CopyEngines::CopyEngines(std::vector<End> ends, int ranks, const EngineShape& shape, LocalState* state,
                         Word timeout)
    : ends_(std::move(ends)),
      shape_(shape),
      timeout_(timeout),
      words_((kLost + ends_.size()) * sizeof(Word)),
      table_(ends_.size() * sizeof(EngineEnd)),
      counts_(sizeof(EngineCounts) * (1 + ends_.size())),
      marked_in_(static_cast<std::size_t>(engine_marks(ranks, shape.slots))),
      done_(engine_marks(ranks, shape.slots)),
      out_(1),
      in_(done_ + 1) {
  common_.table = reinterpret_cast<const EngineEnd*>(table_.get());
  common_.state = state;
  common_.counts = reinterpret_cast<EngineCounts*>(counts_.get());
  common_.on_host = reinterpret_cast<EngineCounts*>(word(kCounts));
  common_.gave_up = word(kGaveUp);
  std::vector<EngineEnd> table;
  for (const End& end : ends_) {
    EngineCounts& counts = common_.counts[1 + table.size()];
    table.push_back({end.words, end.other_left, word(kLost + table.size()), end.missing, &counts.begun,
                     &counts.ended, end.sends});
  }
  PrivateStream().copy(table_.get(), table.data(), table.size() * sizeof(EngineEnd));
  restart();
  watchman_ = std::thread([this] { watch(); });
}

CopyEngines::~CopyEngines() {
  if (getpid() != process_) {  // a fork: the thread is the parent's
    leave_to_parent(watchman_);
    return;
  }
  stop_ = true;
  watchman_.join();
}

EngineLaunch CopyEngines::launch_of(std::span<const WireMessage> sends,
                                    std::span<const WireMessage> receives) const {
  EngineLaunch launch = common_;
  const auto add = [&](const WireMessage& message, bool is_sent) {
    const auto end = std::find_if(ends_.begin(), ends_.end(), [&](const End& one) {
      return one.peer == message.peer && one.sends == is_sent;
    });
    launch.job[launch.jobs++] = {message.memory, message.bytes, static_cast<int>(end - ends_.begin())};
  };
  for (const WireMessage& message : sends) add(message, true);
  for (const WireMessage& message : receives) add(message, false);
  return launch;
}

void CopyEngines::exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                           cudaStream_t from, cudaStream_t into) {
  const EngineLaunch launch = launch_of(sends, receives);
  if (launch.jobs == 0) return;
  Word bytes = 0;
  for (int job = 0; job < launch.jobs; ++job) bytes += launch.job[job].bytes;
  if (bytes > longest_) longest_ = bytes;
  out_.require_free_for(from);
  in_.require_free_for(from);
  check_cuda(launch_engines_begin(launch, from), "launch before copies of engines");
  out_.follow(from);
  in_.follow(from);
  move(launch);
  out_.mark(0);
  out_.wait(0, into);
  in_.mark(done_);
  in_.wait(done_, into);
  check_cuda(launch_engines_end(launch, into), "launch behind copies of engines");
}

void CopyEngines::move(const EngineLaunch& launch) {
  std::vector<EngineMessage> messages;
  for (int index = 0; index < launch.jobs; ++index) {
    const EngineLaunch::Job& job = launch.job[index];
    const End& end = ends_[static_cast<std::size_t>(job.end)];
    messages.push_back({end.distance, end.sends, EngineCut(job.bytes, shape_).count()});
  }
  StreamWords out(out_.get()), in(in_.get());
  const unsigned long long capture = capture_of(in_.get());
  for (const EngineOp& op : engine_order(messages, shape_.slots, capture != 0)) {
    const auto index = static_cast<std::size_t>(op.index);
    switch (op.kind) {
      case EngineOp::Kind::chunk:
        move_chunk(launch.job[index], op.step, messages[index].sends ? out : in);
        break;
      case EngineOp::Kind::tell:
        out.flush();
        break;
      case EngineOp::Kind::mark:
        in.flush();
        in_.mark(op.index);
        marked_in_[index] = capture;
        break;
      case EngineOp::Kind::wait:
        if (marked_in_[index] != capture) break;
        out.flush();
        in_.wait(op.index, out_.get());
        break;
    }
  }
  out.flush();
  in.flush();
}

void CopyEngines::move_chunk(const EngineLaunch::Job& job, Word step, StreamWords& words) {
  const End& end = ends_[static_cast<std::size_t>(job.end)];
  const Slice part = EngineCut(job.bytes, shape_).at(step);
  const std::size_t index = step % shape_.slots;
  std::byte* const slot = end.slots + index * shape_.slot;
  std::byte* const memory = job.memory + part.begin;
  std::uint32_t* const flag = &end.words->flag[index];
  words.await_bit(flag, end.sends ? kSlotEmpty : kSlotFull).flush();
  check_cuda(end.sends ? cudaMemcpyAsync(slot, memory, part.bytes, cudaMemcpyDeviceToHost, words.stream())
                       : cudaMemcpyAsync(memory, slot, part.bytes, cudaMemcpyHostToDevice, words.stream()),
             "cudaMemcpyAsync");
  words.write(flag, end.sends ? kSlotFull : kSlotEmpty);
}

EngineProgress CopyEngines::progress_of(std::size_t index) const {
  const End& end = ends_[index];
  EngineWords::End& own = end.words->end(end.sends);
  EngineWords::End& other = end.words->end(!end.sends);
  const bool left = std::atomic_ref(*end.other_left).load() != 0;  // before what it did until then
  return {std::atomic_ref(own.begun).load(), std::atomic_ref(own.good).load(),
          std::atomic_ref(other.begun).load(), left};
}

EngineCounts CopyEngines::counted() const {
  EngineCounts& on_host = *common_.on_host;
  const Word ended = std::atomic_ref(on_host.ended).load();  // the first: no more than have begun
  return {std::atomic_ref(on_host.begun).load(), ended};
}

void CopyEngines::watch() {
  ExchangeClock clock(timeout_, std::chrono::steady_clock::now());
  while (!stop_) {
    const bool frees = std::atomic_ref(*word(kGaveUp)).load() != 0;
    std::this_thread::sleep_for(frees ? std::chrono::microseconds(100) : std::chrono::milliseconds(2));
    const std::lock_guard lock(mutex_);
    const EngineCounts counts = counted();
    const bool late = clock.is_late(counts.begun, counts.ended, longest_, std::chrono::steady_clock::now());
    if (counts.begun == counts.ended) continue;
    look(late);
    if (std::atomic_ref(*word(kGaveUp)).load() != 0) free_slots();
  }
}

/// Finds who cannot come any more.
void CopyEngines::look(bool late) {
  std::vector<EngineProgress> all;
  for (std::size_t end = 0; end < ends_.size(); ++end) all.push_back(progress_of(end));
  const bool alone =
      std::any_of(all.begin(), all.end(), [](const EngineProgress& one) { return one.alone(); });
  bool lost = false;
  for (std::size_t end = 0; end < ends_.size(); ++end) {
    if (!is_in_vain(all[end], late, alone)) continue;
    std::atomic_ref(*word(kLost + end)).store(1);
    lost = true;
  }
  if (lost) give_up();
}

void CopyEngines::give_up() {
  std::atomic_ref(*word(kGaveUp)).store(1);
}

// What is waited for becomes free again and again, as operations behind the waits set flags, too. Others have
// to know first that this rank's copies are of no worth.
void CopyEngines::free_slots() const {
  for (const End& end : ends_) std::atomic_ref(*end.own_left).store(1);
  for (const End& end : ends_)
    for (std::uint32_t& flag : end.words->flag) std::atomic_ref(flag).store(kSlotFree);
}

void CopyEngines::settle() {
  const std::lock_guard lock(mutex_);
  std::atomic_ref(*word(kGaveUp)).store(0);
}

// The words of a direction lie in the receiver's pages.
void CopyEngines::restart() {
  const std::lock_guard lock(mutex_);
  PrivateStream stream;
  stream.clear(counts_.get(), sizeof(EngineCounts) * (1 + ends_.size()));
  for (std::size_t index = 0; index < kLost + ends_.size(); ++index) *word(index) = 0;
  for (const End& end : ends_) {
    if (end.sends) continue;
    *end.words = {};
    std::fill(std::begin(end.words->flag), std::end(end.words->flag), kSlotEmpty);
  }
}

}  // namespace tapa::device
