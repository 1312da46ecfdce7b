#include "transfers.hpp"

#include <stdexcept>

namespace dit::operators {
namespace {

constexpr std::array<const char*, kTransfers> kLabels = {"query", "key", "value", "output"};
constexpr std::size_t kAlignment = 256;  // what kernels may expect of a tensor
constexpr int kMostRanksOfStores = 16;   // a launch has room for so many, text and image apart

LayoutHandle make_layout(const Group& group, const Attention& attention) {
  std::string words;
  dit_layout* layout = nullptr;
  if (dit_layout_create(&attention.shape, group.size(), &layout) != DIT_OK) words = dit_last_error();
  LayoutHandle made(layout);
  group.agree(words);
  return made;
}

/// None for exact transfers.
WireHandle make_wire(const Group& group, const Attention& attention, const LayoutHandle& layout) {
  if (attention.exact()) return {};
  const dit_wire_options options{
      sizeof(dit_wire_options), attention.policy.c_str(),
      attention.layers,         attention.steps,
      attention.branches,       1,
      attention.element_type,   attention.off.empty() ? nullptr : attention.off.c_str()};
  dit_wire* wire = nullptr;
  require_ok(dit_wire_create(&group.session(), layout.get(), &options, &wire));
  return WireHandle(wire);
}

std::uint64_t bytes_of_wire(const WireHandle& wire) {
  std::uint64_t bytes = 0;
  if (wire != nullptr) require_ok(dit_wire_memory_bytes(wire.get(), &bytes));
  return bytes;
}

}  // namespace

std::uint64_t wire_bytes(Group& group, const Attention& attention) {
  return bytes_of_wire(make_wire(group, attention, make_layout(group, attention)));
}

Transfers::Transfers(Group& group, const Attention& attention)
    : group_(group), attention_(attention), layout_(make_layout(group, attention)) {
  const CurrentDevice current(attention.memory_kind, attention.device);
  wire_ = make_wire(group_, attention_, layout_);
  make_transfers();
  learn_shapes();
  if (attention.on_device()) {
    make_slots();
    if (wire_ == nullptr) {
      bind();
      warm_up();
    }
  }
}

// Bound transfers before the registration, and all of them before the wire.
Transfers::~Transfers() {
  const CurrentDevice current(attention_.memory_kind, attention_.device);
  for (TransferHandle& transfer : transfers_) transfer.reset();
  registration_.reset();
  wire_.reset();
  memory_ = DeviceMemory();
}

void Transfers::make_transfers() {
  for (int what = 0; what < kTransfers; ++what) {
    const auto at = static_cast<std::size_t>(what);
    const dit_transfer_options options{
        sizeof(dit_transfer_options), what,        0,           1,
        attention_.element_bytes(),   kLabels[at], wire_.get(), attention_.memory_kind};
    dit_transfer* transfer = nullptr;
    require_ok(dit_transfer_create(&group_.session(), layout_.get(), &options, &transfer));
    transfers_[at].reset(transfer);
  }
}

void Transfers::learn_shapes() {
  for (std::size_t at = 0; at < kTransfers; ++at)
    require_ok(dit_transfer_shapes(transfers_[at].get(), source_[at].data(), target_[at].data()));
}

std::size_t Transfers::bytes_of(int what) const {
  return elements_of(target(what)) * attention_.element_bytes();
}

void Transfers::make_slots() {
  std::size_t end = 0;
  for (int what = 0; what < kTransfers; ++what)
    for (int slot = 0; slot < attention_.slots; ++slot) {
      offsets_[static_cast<std::size_t>(what)].push_back(end);
      end += (bytes_of(what) + kAlignment - 1) / kAlignment * kAlignment;
    }
  std::string words;
  try {
    if (end > 0) memory_ = DeviceMemory(end);
  } catch (const std::runtime_error& error) {
    words = error.what();
  }
  group_.agree(words);
  slot_bytes_ = end;
  dit_registration* registration = nullptr;
  require_ok(dit_session_register(&group_.session(), memory_.data(), end, attention_.memory_kind,
                                  attention_.device, &registration));
  registration_.reset(registration);
}

dit_tensor Transfers::slot(int what, std::size_t number) const {
  const std::size_t bytes = bytes_of(what);
  std::byte* const begin = memory_.data() == nullptr
                               ? nullptr
                               : memory_.data() + offsets_[static_cast<std::size_t>(what)].at(number);
  return {begin, bytes, 0, 0, 0};
}

// A transfer that is bound cannot go by an exchange any more: all of them, or none.
void Transfers::bind() {
  if (group_.size() > kMostRanksOfStores) return;
  stores_ = try_to_bind();
  if (stores_) return;
  for (TransferHandle& transfer : transfers_) transfer.reset();
  make_transfers();
}

bool Transfers::try_to_bind() {
  for (int what = DIT_SCATTER_QUERY; what <= DIT_SCATTER_VALUE; ++what)
    for (std::size_t number = 0; number < static_cast<std::size_t>(attention_.slots); ++number) {
      const dit_tensor target = slot(what, number);
      const dit_status status = dit_transfer_bind(of(what), registration_.get(), &target);
      if (status == DIT_ERROR_UNSUPPORTED) return false;
      require_ok(status);
    }
  return true;
}

// Every transfer once, from memory that nobody reads later: what first starts allocate and look up is there
// before a stream is captured.
void Transfers::warm_up() {
  std::size_t most = 0;
  for (const Sizes& sizes : source_) most = std::max(most, elements_of(sizes));
  std::string words;
  DeviceMemory numbers;
  try {
    numbers = DeviceMemory(most * attention_.element_bytes() + 1);
  } catch (const std::runtime_error& error) {
    words = error.what();
  }
  group_.agree(words);
  void* const stream = current_stream(attention_.torch_device());
  words.clear();
  try {
    start_all(numbers.data(), stream);
  } catch (const std::exception& error) {  // no memory for buffers, on this rank perhaps
    words = error.what();
  }
  group_.agree(words);
  synchronize(stream);
}

dit_transfer_call Transfers::warm_up_call(int what, const std::byte* numbers, void* stream) const {
  const std::size_t bytes = elements_of(source(what)) * attention_.element_bytes();
  dit_transfer_call call{};
  call.struct_size = sizeof call;
  call.source = {const_cast<std::byte*>(numbers), bytes, 0, 0, 0};
  call.target = slot(what, 0);
  call.device = attention_.device;
  call.stream = stream;
  return call;
}

void Transfers::start_all(const std::byte* numbers, void* stream) const {
  for (int what = 0; what < kTransfers; ++what) {
    const dit_transfer_call call = warm_up_call(what, numbers, stream);
    require_ok(dit_transfer_start(of(what), &call));
    require_ok(dit_transfer_wait_stream(of(what), stream));
  }
  start_together([&](int what) { return warm_up_call(what, numbers, stream); });
  for (const int what : kTogether) require_ok(dit_transfer_wait_stream(of(what), stream));
}

// Not where an exchange has failed on some rank: then ends may remember different things.
bool Transfers::forget() {
  void* const stream = attention_.on_device() ? current_stream(attention_.torch_device()) : nullptr;
  const bool done = dit_wire_forget(wire_.get(), stream) == DIT_OK;
  return group_.context().agree_on_error(done ? "" : dit_last_error()).empty();
}

int Transfers::first_alike(int step, int branch) const {
  int first = 0;
  if (wire_ != nullptr) require_ok(dit_wire_first_alike(wire_.get(), step, branch, &first));
  return first;
}

void Transfers::note_replay(int branch) const {
  if (wire_ != nullptr) require_ok(dit_wire_replayed(wire_.get(), branch));
}

void Transfers::reset() {
  if (wire_ == nullptr) return;
  const CurrentDevice current(attention_.memory_kind, attention_.device);
  if (forget()) return;
  for (TransferHandle& transfer : transfers_) transfer.reset();
  wire_.reset();
  wire_ = make_wire(group_, attention_, layout_);
  make_transfers();
}

std::uint64_t Transfers::workspace_bytes() const {
  std::uint64_t sum = 0;
  for (const TransferHandle& transfer : transfers_) {
    std::size_t bytes = 0;
    require_ok(dit_transfer_workspace_bytes(transfer.get(), &bytes));
    sum += bytes;
  }
  return sum;
}

std::uint64_t Transfers::guarded() const {
  std::uint64_t all = 0;
  for (const TransferHandle& transfer : transfers_) {
    std::uint64_t guarded = 0;
    require_ok(dit_transfer_guarded(transfer.get(), &guarded));
    all += guarded;
  }
  return all;
}

std::uint64_t Transfers::wire_bytes() const {
  return bytes_of_wire(wire_);
}

std::string Transfers::wire_text() const {
  if (wire_ == nullptr) return "";
  std::size_t length = 0;
  require_ok(dit_wire_text(wire_.get(), nullptr, 0, &length));
  std::string text(length, '\0');
  require_ok(dit_wire_text(wire_.get(), text.data(), length + 1, nullptr));
  return text;
}

}  // namespace dit::operators
