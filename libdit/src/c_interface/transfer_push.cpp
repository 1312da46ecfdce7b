// What a transfer does with norm and RoPE, and with targets that all ranks know.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "c_interface/error.hpp"
#include "c_interface/prepare.hpp"
#include "c_interface/tensor.hpp"
#include "c_interface/transfer.hpp"

using namespace dit::c_interface;

namespace {

dit_prepare completed_prepare(const dit_prepare* prepare) {
  return read_struct(prepare, "call->prepare", "dit_prepare");
}

}  // namespace

dit::PrepareJob dit_transfer::job_for(const dit_transfer_call& call, const dit::SourceTensor& source) const {
  if (call.prepare == nullptr) {
    return job_of(nullptr, layout_, tensor_, session_.context.rank(), source, element_bytes_);
  }
  if (tensor_ == dit::AttentionTensor::output) {
    throw std::invalid_argument("call->prepare is given: expected null for DIT_GATHER_OUTPUT");
  }
  const dit_prepare how = completed_prepare(call.prepare);
  return job_of(&how, layout_, tensor_, session_.context.rank(), source, element_bytes_);
}

const std::vector<dit::PushPart>& dit_transfer::push_map() {
  if (!push_map_) {
    push_map_ = dit::push_parts(layout_, tensor_, session_.context.rank(), group_, groups_);
  }
  return *push_map_;
}

// A dense copy of the source where there is something to do to it; on a device its own block goes right into
// the target.
dit::SourceTensor dit_transfer::prepared(const dit_transfer_call& call, const dit::SourceTensor& source,
                                         const dit::TargetTensor& target, bool& has_own) {
  if (call.prepare == nullptr) {
    return source;
  }
  dit::PrepareJob job = job_for(call, source);
  const dit::TensorShape& shape = way_->source_shape();
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * element_bytes_;
  if (prepared_.size() < bytes) {
    prepared_ = dit::TransferMemory::of(memory_kind_).allocate(bytes);
  }
  if (bytes > 0) {
    add_dense_part(job, prepared_.data());
    has_own = way_->copies_own();
    for (const dit::PushPart& part : push_map()) {
      if (has_own && part.peer == session_.context.rank()) {
        add_own_part(job, part, target, element_bytes_);
      }
    }
    run_jobs({job}, completed_prepare(call.prepare).element_type, memory_kind_, call.device, call.stream);
  }
  return {std::span<const std::byte>(prepared_.span().first(bytes)), shape, dit::dense_strides(shape)};
}

void dit_transfer::bind(dit_registration* registration, const dit_tensor* target) {
  std::string wrong;
  if (memory_kind_ == DIT_MEMORY_HOST || !session_.context.takes_stores()) {
    throw dit::ExchangeError(
        DIT_ERROR_UNSUPPORTED,
        "no kernel can store into the targets of other ranks: expected device memory, and "
        "a plugin with DIT_CAPABILITY_STORES");
  }
  if (tensor_ == dit::AttentionTensor::output || wire_ != nullptr) {
    throw std::invalid_argument("transfer gathers the output, or has a wire: expected a scatter without one");
  }
  dit::TargetTensor own;
  std::size_t extent = 0;
  try {
    if (&required(registration, "registration").session != &session_) {
      throw std::invalid_argument("registration is of another session");
    }
    own = to_target("target", required(target, "target"), way_->target_shape(), element_bytes_);
    extent = static_cast<std::size_t>(dit::extent(own.shape, own.strides)) * element_bytes_;
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (const std::string all = session_.context.agree_on_error(wrong); !all.empty()) {
    throw std::invalid_argument(all);
  }
  bound_.push_back(bind_target(session_.context, *registration, *target, own.strides, extent));
  ++registration->bound;
}

const BoundTarget& dit_transfer::bound_to(const dit_tensor& target) const {
  for (const BoundTarget& bound : bound_) {
    if (bound.own.data == target.data && bound.own.batch_stride == target.batch_stride &&
        bound.own.row_stride == target.row_stride && bound.own.head_stride == target.head_stride) {
      return bound;
    }
  }
  throw std::invalid_argument("call->target is none that the transfer was bound to: expected one of its " +
                              std::to_string(bound_.size()));
}

void dit_transfer::start_together(std::span<dit_transfer* const> transfers,
                                  std::span<const dit_transfer_call> calls) {
  std::size_t bound = 0;
  for (const dit_transfer* transfer : transfers) {
    if (&transfer->session_ != &transfers[0]->session_ ||
        transfer->memory_kind_ != transfers[0]->memory_kind_) {
      throw std::invalid_argument("transfers are expected to be of one session and memory_kind");
    }
    bound += transfer->bound_.empty() ? 0 : 1;
  }
  for (std::size_t i = 1; i < transfers.size(); ++i) {
    if (std::find(transfers.begin(), transfers.begin() + static_cast<std::ptrdiff_t>(i), transfers[i]) !=
        transfers.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw std::invalid_argument("transfers[" + std::to_string(i) + "] is there twice: expected each once");
    }
  }
  if (bound == transfers.size()) {
    return push_together(transfers, calls);
  }
  if (bound > 0) {
    throw std::invalid_argument(std::to_string(bound) + " of " + std::to_string(transfers.size()) +
                                " transfers are bound: expected all or none");
  }
  if (transfers.size() > 1 && can_join(transfers, calls)) {
    return join(transfers, calls);
  }
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    transfers[i]->start(calls[i]);
  }
}

// Of the same call on all ranks, as far as one rank can see.
void dit_transfer::require_alike(std::span<dit_transfer* const> transfers,
                                 std::span<const dit_transfer_call> calls) {
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    transfers[i]->require_idle();
    if (transfers[i]->bound_to(calls[i].target).registration !=
            transfers[0]->bound_to(calls[0].target).registration ||
        calls[i].stream != calls[0].stream || calls[i].exchange_stream != calls[0].exchange_stream ||
        calls[i].device != calls[0].device || transfers[i]->element_bytes_ != transfers[0]->element_bytes_) {
      throw std::invalid_argument(
          "transfers are expected to have targets in one registration, one stream and device, and elements "
          "of "
          "one size");
    }
  }
}

// What goes as it is goes with any numbers of its size.
int dit_transfer::common_type(std::span<dit_transfer* const> transfers,
                              std::span<const dit_transfer_call> calls) {
  int type = -1;
  for (const dit_transfer_call& call : calls) {
    if (call.prepare == nullptr) {
      continue;
    }
    const int own = completed_prepare(call.prepare).element_type;
    if (type >= 0 && type != own) {
      throw std::invalid_argument("calls have prepare->element_type " + std::to_string(type) + " and " +
                                  std::to_string(own) + ": expected the same");
    }
    type = own;
  }
  return type >= 0 ? type : element_type_of(transfers[0]->element_bytes_);
}

void dit_transfer::push_together(std::span<dit_transfer* const> transfers,
                                 std::span<const dit_transfer_call> calls) {
  require_alike(transfers, calls);
  const int element_type = common_type(transfers, calls);
  std::vector<dit::PrepareJob> jobs;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const dit_transfer& of = *transfers[i];
    const dit::SourceTensor source =
        to_source("call->source", calls[i].source, of.way_->source_shape(), of.element_bytes_);
    jobs.push_back(of.job_for(calls[i], source));
    add_push_parts(jobs.back(), transfers[i]->push_map(), of.bound_to(calls[i].target), of.element_bytes_);
  }
  const dit::RegisteredMemory& memory = transfers[0]->bound_to(calls[0].target).registration->memory;
  const auto request = std::make_shared<SharedRequest>(transfers.size());
  const auto current = transfers[0]->make_current(calls[0].device);
  void* const stream = transfers[0]->way_->exchange_stream(calls[0].stream, calls[0].exchange_stream);
  request->set(push(memory, jobs, element_type, calls[0].device, stream));
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    transfers[i]->begin(request, calls[i]);
    transfers[i]->pushed_ = true;
  }
}
