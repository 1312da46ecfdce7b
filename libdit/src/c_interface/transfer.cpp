#include "c_interface/transfer.hpp"

#include <cstddef>
#include <stdexcept>
#include <utility>

#include "c_interface/error.hpp"
#include "c_interface/tensor.hpp"
#include "transfer/coded_transfer.hpp"
#include "transfer/plain_transfer.hpp"
#include "transfer/strided_transfer.hpp"

using namespace dit::c_interface;

namespace {

void require_between(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) + ": expected " +
                                std::to_string(least) + " to " + std::to_string(most));
  }
}

void require_fits(const dit_wire& wire, const dit_session& session, const dit::UlyssesLayout& layout,
                  const dit_transfer_options& options) {
  if (&wire.session != &session) {
    throw std::invalid_argument("options->wire is of another session");
  }
  if (wire.run.layout().shape() != layout.shape()) {
    throw std::invalid_argument("options->wire was made for another layout");
  }
  const std::size_t bytes = dit::bytes_of(wire.run.element());
  if (options.element_bytes != bytes) {
    throw std::invalid_argument("options->element_bytes = " + std::to_string(options.element_bytes) +
                                ": expected the wire's " + std::to_string(bytes));
  }
  if (options.groups != wire.run.groups()) {
    throw std::invalid_argument("options->groups = " + std::to_string(options.groups) +
                                ": expected the wire's " + std::to_string(wire.run.groups()));
  }
  // V chooses the rows for Q and K, in memory of its kind.
  if (wire.memory_kind >= 0 && options.memory_kind != wire.memory_kind) {
    throw std::invalid_argument("options->memory_kind = " + std::to_string(options.memory_kind) +
                                ": expected " + std::to_string(wire.memory_kind) +
                                ", as of the wire's first transfer");
  }
}

void require_memory_kind(const dit_session& session, const dit_transfer_options& options) {
  (void)dit::TransferMemory::of(options.memory_kind);
  if (options.memory_kind == DIT_MEMORY_HOST) {
    return;
  }
  const std::string given = "options->memory_kind = " + std::to_string(options.memory_kind);
  if (!session.context.moves_device_memory()) {
    throw dit::ExchangeError(DIT_ERROR_UNSUPPORTED, given + ": expected 0 (DIT_MEMORY_HOST) with plugin " +
                                                        session.context.plugin().name());
  }
}

/// Between nodes an exchange costs more than a pass over memory: one of packed blocks in place of two.
bool goes_packed(const dit_session& session, const dit::UlyssesLayout& layout,
                 const dit::TransferPart& part) {
  return session.context.leaves_node() &&
         dit::strided_parts(layout, part.tensor, session.context.rank(), part.group, part.groups).size() > 1;
}

std::unique_ptr<dit::TensorTransfer> make_way(dit_session& session, const dit::UlyssesLayout& layout,
                                              const dit_transfer_options& options) {
  const dit::TransferPart part{static_cast<dit::AttentionTensor>(options.kind), options.group, options.groups,
                               session.context.open_channel()};
  if (options.wire != nullptr) {
    return std::make_unique<dit::CodedTransfer>(session.context, options.wire->run, part,
                                                options.wire->branches, options.memory_kind);
  }
  if (options.memory_kind != DIT_MEMORY_HOST && session.context.takes_strided(options.memory_kind) &&
      !goes_packed(session, layout, part)) {
    return std::make_unique<dit::StridedTransfer>(session.context, layout, part, options.element_bytes,
                                                  options.memory_kind);
  }
  return std::make_unique<dit::PlainTransfer>(session.context, layout, part, options.element_bytes,
                                              session.context.take_layout_ids(1), options.memory_kind);
}

}  // namespace

void dit_transfer::check(const dit_session& session, const dit::UlyssesLayout& layout,
                         const dit_transfer_options& options) {
  require_ranks(layout, session.context.size());
  require_between("options->kind", options.kind, DIT_SCATTER_QUERY, DIT_GATHER_OUTPUT);
  require_between("options->groups", options.groups, 1, 1'000'000);
  require_between("options->group", options.group, 0, options.groups - 1);
  require_between("options->element_bytes", static_cast<std::int64_t>(options.element_bytes), 1, 1024);
  require_memory_kind(session, options);
  if (options.wire != nullptr) {
    require_fits(*options.wire, session, layout, options);
  }
}

dit_transfer::dit_transfer(dit_session& session, const dit::UlyssesLayout& layout,
                           const dit_transfer_options& options)
    : session_(session),
      wire_(options.wire),
      tensor_(static_cast<dit::AttentionTensor>(options.kind)),
      group_(options.group),
      groups_(options.groups),
      element_bytes_(options.element_bytes),
      label_(options.label == nullptr ? "" : options.label),
      way_(make_way(session, layout, options)),
      remembers_(wire_ != nullptr && wire_->run.remembers(tensor_)),
      layout_(layout),
      memory_kind_(options.memory_kind),
      serial_(++session.transfers_made) {
  ++session.transfers;
  if (wire_ != nullptr) {
    made_on_ = dit::TransferMemory::of(memory_kind_).current_device();
    wire_->add(*this);
    if (memory_kind_ != DIT_MEMORY_HOST) {
      wire_->on_device = true;
    }
  }
}

dit_transfer::~dit_transfer() {
  LeftBuffers buffers = release_buffers();  // nothing waits from here on
  if (under_way_) {
    drop_request(std::move(buffers));
  }
  for (const BoundTarget& bound : bound_) {
    --bound.registration->bound;
  }
  --session_.transfers;
  if (wire_ != nullptr) {
    wire_->remove(*this);
  }
}

void dit_transfer::require_idle() const {
  if (under_way_) {
    throw std::invalid_argument("transfer is under way: expected a wait before the next start");
  }
}

void dit_transfer::require_sound() const {
  if (broken_ && remembers_) {
    throw std::invalid_argument(
        "an exchange of this transfer failed or was cancelled, and its wire's ends may remember different "
        "things: expected only dit_transfer_free");
  }
}

std::shared_ptr<void> dit_transfer::make_current(int device) const {
  return dit::TransferMemory::of(memory_kind_).make_current(device);
}

std::size_t dit_transfer::workspace_bytes() const {
  if (!joins_alone()) {
    return way_->workspace_bytes();
  }
  const dit::JointPlan plan = plan_alone();
  return dit::TransferBuffers::workspace_bytes(plan.send_bytes, plan.recv_bytes);
}

void dit_transfer::use_workspace(std::span<std::byte> workspace) {
  require_idle();
  if (!joins_alone()) {
    return way_->use_workspace(workspace);
  }
  const dit::JointPlan plan = plan_alone();
  lent_.lie_in(workspace, plan.send_bytes, plan.recv_bytes);
}

dit::ExchangeRequest dit_transfer::send(const dit_transfer_call& call) {
  if (wire_ != nullptr && call.device != made_on_ && memory_kind_ != DIT_MEMORY_HOST) {
    throw std::invalid_argument("call->device is " + std::to_string(call.device) +
                                ": expected the device that was current when the transfer was made, " +
                                std::to_string(made_on_) + ", which remembers what its wire needs");
  }
  const dit::SourceTensor given =
      to_source("call->source", call.source, way_->source_shape(), element_bytes_);
  const dit::TargetTensor target =
      to_target("call->target", call.target, way_->target_shape(), element_bytes_);
  const dit::TransferPlace place{call.layer, call.step, call.branch};
  if (wire_ != nullptr) {
    (void)wire_->run.resolve(tensor_, place);
    way_->require_startable(place, call.stream);
  }
  dit::TransferStart how{false, label_.empty() ? nullptr : label_.c_str(), call.device, call.stream};
  how.exchange_stream = call.exchange_stream;
  const dit::SourceTensor source = prepared(call, given, target, how.has_own);
  ActiveSet active;
  if (wire_ != nullptr) {
    if (tensor_ != dit::AttentionTensor::output) {
      active = wire_->take_active_rows(tensor_, group_, place, source, memory_kind_, call.stream);
    }
  }
  broken_ = true;  // until all is on its way
  way_->pack(source, active.all ? dit::at_first(place) : place, active.rows(), call.stream);
  guarded_ += static_cast<std::uint64_t>(way_->take_times().guarded);
  dit::ExchangeRequest request = way_->start(target, how);
  broken_ = false;
  return request;
}

void dit_transfer::start(const dit_transfer_call& call) {
  dit_transfer* const self = this;
  if (!bound_.empty()) {
    return push_together({&self, 1}, {&call, 1});
  }
  if (joins_alone()) {
    return join({&self, 1}, {&call, 1});
  }
  require_idle();
  require_sound();
  const auto current = make_current(call.device);
  auto request = std::make_shared<SharedRequest>(1);
  request->set(send(call));
  begin(std::move(request), call);
}

void dit_transfer::begin(std::shared_ptr<SharedRequest> request, const dit_transfer_call& call) {
  device_ = call.device;
  stream_ = call.exchange_stream != nullptr ? call.exchange_stream : call.stream;
  request_ = std::move(request);
  pushed_ = false;
  under_way_ = true;
  lost_.clear();
}

void dit_transfer::require_not_lost() const {
  if (!lost_.empty()) {
    throw dit::ExchangeError(
        DIT_ERROR_COMMUNICATION,
        "the transfer's last exchange was lost, and its target is not complete: " + lost_);
  }
}

template <typename Ask>
void dit_transfer::ask(const Ask& ask) {
  try {
    ask();
  } catch (const std::exception& error) {  // one that is late may still come
    under_way_ = under_way_ && !request_->lost();
    if (!under_way_) {
      broken_ = true;
      lost_ = error.what();
      if (arriving_ != nullptr) {
        arriving_->given_up = true;
        arriving_.reset();
      }
    }
    throw;
  }
}

bool dit_transfer::test() {
  if (!under_way_) {
    require_not_lost();
    return true;
  }
  bool done = false;
  ask([&] {
    done = request_->test();
    if (done) {
      finish();
    }
  });
  return done;
}

void dit_transfer::wait() {
  if (!under_way_) {
    return require_not_lost();
  }
  ask([&] {
    request_->wait();
    finish();
  });
}

void dit_transfer::wait_stream(void* stream) {
  if (!under_way_) {
    return require_not_lost();
  }
  ask([&] { request_->wait_stream(stream); });
  if (arriving_ != nullptr) {
    finish_joint(stream);
  } else if (!pushed_) {
    const auto current = make_current(device_);
    way_->finish_on(stream);
  }
  under_way_ = false;
  drop_request({});  // nobody asks for it any more: the stream sees to the rest
}

// Others that were started together may still ask for it.
void dit_transfer::drop_request(LeftBuffers buffers) {
  request_->drop(std::move(buffers));
  request_.reset();
}

// Also the dense copy: late ranks may read what is sent right out of it.
LeftBuffers dit_transfer::release_buffers() {
  if (arriving_ != nullptr) {
    arriving_->given_up = true;
  }
  return {way_->release_buffers(), std::exchange(prepared_, {}), std::exchange(arriving_, nullptr), nullptr};
}

void dit_transfer::finish() {
  under_way_ = false;
  const auto current = make_current(device_);
  if (arriving_ != nullptr) {
    finish_joint(stream_);
    dit::TransferMemory::of(memory_kind_).wait(stream_);
  } else if (!pushed_) {
    way_->finish();
  }
}

// What was lost has been told.
void dit_transfer::wait_for_all() {
  if (under_way_) {
    wait();
  }
  way_->wait_for_late();
}

void dit_transfer::require_forgettable() const {
  require_idle();
  require_sound();
}

void dit_transfer::forget(void* stream) {
  const auto current = make_current(made_on_);
  way_->forget(stream);
}

void dit_transfer::cancel(std::shared_ptr<void> of_caller) {
  lost_.clear();
  if (!under_way_) {
    return;
  }
  under_way_ = false;
  broken_ = true;
  LeftBuffers buffers = release_buffers();
  buffers.of_caller = std::move(of_caller);
  drop_request(std::move(buffers));
}
