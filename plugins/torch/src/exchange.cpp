#include "exchange.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace dit::operators {
namespace {

constexpr std::array<const char*, kTransfers> kNames = {"query", "key", "value", "output"};

std::unique_ptr<SideStream> side_stream_of(const Group& group, const Attention& attention) {
  std::string words;
  std::unique_ptr<SideStream> stream;
  try {
    const CurrentDevice current(attention.memory_kind, attention.device);
    if (attention.side_stream) stream = std::make_unique<SideStream>();
  } catch (const std::runtime_error& error) {
    words = error.what();
  }
  group.agree(words);
  return stream;
}

std::string text_of(const Sizes& sizes) {
  std::ostringstream text;
  text << at::IntArrayRef(sizes);
  return text.str();
}

dit_tensor source_of(const at::Tensor& x, std::size_t element_bytes) {
  const bool empty = x.numel() == 0;
  std::int64_t reach = 1;
  for (std::int64_t dim = 0; dim < 4; ++dim) reach += (x.size(dim) - 1) * x.stride(dim);
  return {empty ? nullptr : x.data_ptr(), empty ? 0 : static_cast<std::size_t>(reach) * element_bytes,
          x.stride(0), x.stride(1), x.stride(2)};
}

}  // namespace

Exchange::Exchange(std::string name, std::shared_ptr<Group> group, const dit_torch_attention& attention)
    : name_(std::move(name)),
      group_(std::move(group)),
      attention_(agreed_attention(*group_, attention)),
      side_(side_stream_of(*group_, attention_)),
      transfers_(*group_, attention_),
      slots_(attention_, transfers_),
      exact_bytes_(bytes_of_exact(*group_, transfers_, attention_.element_bytes())) {
  seen_.resize(static_cast<std::size_t>(attention_.branches));
  (void)group_->newly_sent();  // by the set-up
}

Exchange::~Exchange() {
  give_up();
}

// The other ranks may never have come to it.
void Exchange::give_up() {
  for (int what = 0; what < kTransfers; ++what) {
    if (!pending(what).under_way) continue;
    auto kept = std::make_unique<Pending>(std::move(pending(what)));
    const auto release = [](void* user) { delete static_cast<Pending*>(user); };
    // Where that fails, for want of memory, a late rank may use them for good.
    (void)dit_transfer_cancel(transfers_.of(what), release, kept.release());
    pending(what) = {};
  }
}

void Exchange::restart() {
  give_up();
  slots_.restart();
}

int Exchange::kind_of(std::int64_t what) {
  if (what < 0 || what >= kTransfers)
    throw std::invalid_argument("what = " + std::to_string(what) +
                                ": expected 0 (query), 1 (key), 2 (value) or 3 (output)");
  return static_cast<int>(what);
}

void Exchange::require_source(int what, const at::Tensor& x) const {
  const Sizes& sizes = transfers_.source(what);
  const bool right = x.sizes() == at::IntArrayRef(sizes) && x.scalar_type() == attention_.dtype() &&
                     x.device() == attention_.torch_device() &&
                     (x.numel() == 0 || x.stride(3) == 1 || sizes[3] == 1);
  if (right) return;
  std::ostringstream words;
  words << "x (" << kNames[static_cast<std::size_t>(what)] << ") is a tensor " << x.sizes() << " of "
        << x.scalar_type() << " on " << x.device() << " with strides " << x.strides() << ": expected "
        << text_of(sizes) << " of " << attention_.dtype() << " on " << attention_.torch_device()
        << " with a last stride of 1, which is this rank's part in exchange \"" << name_ << "\"";
  throw std::invalid_argument(words.str());
}

void* Exchange::stream() const {
  return attention_.on_device() ? current_stream(attention_.torch_device()) : nullptr;
}

// How a policy codes is chosen by the host, step by step: who captures has to know of phase().
void Exchange::require_recorded(void* stream) const {
  if (attention_.on_device() && !attention_.exact() && !recording_.has_value() && capture_of(stream) != 0)
    throw std::invalid_argument("exchange \"" + name_ +
                                "\" has a policy, and its stream is captured: expected policy \"exact\" for "
                                "CUDA graphs of your own (Python: enable(graphs=True) makes them)");
}

int Exchange::phase() const {
  const bool seen = seen_[static_cast<std::size_t>(branch_)] != 0;
  const int first = transfers_.first_alike(seen ? step_ : 0, branch_);
  return first < 0 || attention_.exact() ? first : first * attention_.branches + branch_;
}

void Exchange::begin_recording() {
  recording_ = Counts{};
}

int Exchange::end_recording(bool failed) {
  const Counts done = std::exchange(recording_, std::nullopt).value_or(Counts{});
  if (failed) restart();
  if (failed || done.started == Counts{}.started) return -1;
  counts_ += done;
  recorded_.push_back(done);
  return static_cast<int>(recorded_.size()) - 1;
}

void Exchange::note_replay(int recording) {
  if (recording < 0 || static_cast<std::size_t>(recording) >= recorded_.size())
    throw std::invalid_argument("recording = " + std::to_string(recording) + ": expected one of " +
                                std::to_string(recorded_.size()) + " of exchange \"" + name_ + "\"");
  counts_ += recorded_[static_cast<std::size_t>(recording)];
  seen_[static_cast<std::size_t>(branch_)] = 1;
  transfers_.note_replay(branch_);
}

at::Tensor Exchange::new_target(int what) {
  if (attention_.on_device()) return slots_.take(what);
  return at::empty(transfers_.target(what), at::TensorOptions().dtype(attention_.dtype()));
}

void Exchange::fill_call(Call& filled, int what, const at::Tensor& x, std::int64_t layer,
                         const Preparation& preparation, void* stream) {
  require_source(what, x);
  require_recorded(stream);
  filled.prepare = to_prepare(preparation, attention_, what, transfers_.source(what));
  Pending& next = pending(what);
  if (next.under_way)
    throw std::invalid_argument(
        std::string("a start of ") + kNames[static_cast<std::size_t>(what)] + " in exchange \"" + name_ +
        "\" was not finished: expected dit::finish first; "
        "after an error, dit_torch_exchange_free (Python: disable() and enable()) on all "
        "ranks");
  if (!attention_.exact() && (layer < 0 || layer >= attention_.layers))
    throw std::invalid_argument("layer = " + std::to_string(layer) + ": expected 0 to " +
                                std::to_string(attention_.layers - 1));
  dit_transfer_call& call = filled.call;
  call = {};
  call.struct_size = sizeof call;
  call.source = source_of(x, attention_.element_bytes());
  next.source = x;
  next.target = new_target(what);
  next.preparation = preparation;
  call.target = {next.target.data_ptr(),
                 static_cast<std::size_t>(next.target.numel()) * attention_.element_bytes(), 0, 0, 0};
  call.layer = static_cast<int>(layer);
  call.step = step_;
  call.branch = branch_;
  call.device = attention_.device;
  call.stream = stream;
  call.prepare = filled.prepare.has_value() ? &*filled.prepare : nullptr;
}

void Exchange::count_start(int what) {
  const auto at = static_cast<std::size_t>(what);
  ++counts().started[at];
  seen_[static_cast<std::size_t>(branch_)] = 1;
  pending(what).under_way = true;
  if (transfers_.stores() && what != DIT_GATHER_OUTPUT) counts() += {{}, exact_bytes_[at]};
}

Exchange::Counts& Exchange::Counts::operator+=(const Counts& other) {
  for (std::size_t what = 0; what < kTransfers; ++what) started[what] += other.started[what];
  for (std::size_t level = 0; level < kMostLevels; ++level) sent[level] += other.sent[level];
  return *this;
}

void Exchange::run_start(int what, const dit_transfer_call& call) {
  require_ok(dit_transfer_start(transfers_.of(what), &call));
  count_start(what);
}

at::Tensor Exchange::run_finish(int what, void* stream) {
  Pending& done = pending(what);
  if (!done.under_way)
    throw std::invalid_argument(std::string("nothing is under way of ") +
                                kNames[static_cast<std::size_t>(what)] + " in exchange \"" + name_ +
                                "\": expected dit::start first");
  require_ok(attention_.on_device() ? dit_transfer_wait_stream(transfers_.of(what), stream)
                                    : dit_transfer_wait(transfers_.of(what)));
  counts() += {{}, group_->newly_sent()};
  return std::exchange(done, {}).target;
}

void Exchange::start(std::int64_t what, const at::Tensor& x, std::int64_t layer,
                     const Preparation& preparation) {
  const CurrentDevice current(attention_.memory_kind, attention_.device);
  void* const on = stream();
  Call filled;
  fill_call(filled, kind_of(what), x, layer, preparation, on);
  if (side_ != nullptr) filled.call.exchange_stream = side_->handle();
  run_start(kind_of(what), filled.call);
}

at::Tensor Exchange::finish(std::int64_t what) {
  const CurrentDevice current(attention_.memory_kind, attention_.device);
  return run_finish(kind_of(what), stream());
}

at::Tensor Exchange::exchange(std::int64_t what, const at::Tensor& x, std::int64_t layer,
                              const Preparation& preparation) {
  const CurrentDevice current(attention_.memory_kind, attention_.device);
  void* const on = stream();
  Call filled;
  fill_call(filled, kind_of(what), x, layer, preparation, on);
  run_start(kind_of(what), filled.call);
  return run_finish(kind_of(what), on);
}

void Exchange::run_together(const std::array<at::Tensor, 3>& x, std::int64_t layer,
                            const std::array<Preparation, 3>& preparations, void* stream) {
  std::array<Call, 3> filled;  // calls point into them
  transfers_.start_together([&](int what) {
    const auto at = static_cast<std::size_t>(what);
    fill_call(filled[at], what, x[at], layer, preparations[at], stream);
    return filled[at].call;
  });
  for (const int what : kTogether) count_start(what);
}

std::array<at::Tensor, 3> Exchange::scatter(const std::array<at::Tensor, 3>& x, std::int64_t layer,
                                            const std::array<Preparation, 3>& preparations) {
  const CurrentDevice current(attention_.memory_kind, attention_.device);
  void* const on = stream();
  run_together(x, layer, preparations, on);
  std::array<at::Tensor, 3> targets;
  for (std::size_t at = 0; at < targets.size(); ++at) targets[at] = run_finish(static_cast<int>(at), on);
  return targets;
}

void Exchange::begin_step(int step, int branch) {
  if (step < 0 || step >= attention_.steps)
    throw std::invalid_argument("step = " + std::to_string(step) + ": expected 0 to " +
                                std::to_string(attention_.steps - 1));
  if (branch < 0 || branch >= attention_.branches)
    throw std::invalid_argument("branch = " + std::to_string(branch) + ": expected 0 to " +
                                std::to_string(attention_.branches - 1));
  step_ = step;
  branch_ = branch;
}

void Exchange::reset() {
  std::string words;
  for (std::size_t at = 0; at < kTransfers; ++at)
    if (pending_[at].under_way)
      words = std::string("a start of ") + kNames[at] + " was not finished: expected dit::finish first";
  if (attention_.exact()) return;
  group_->agree(words);
  transfers_.reset();
  (void)group_->newly_sent();
  step_ = 0;
  branch_ = 0;
  std::ranges::fill(seen_, std::uint8_t{0});
}

Names<Exchange>& exchanges() {
  static auto* const names = new Names<Exchange>("exchange");
  return *names;
}

}  // namespace dit::operators
