#include "run/executor.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "memory/reserve.hpp"

namespace tapa {

namespace {
// Messages and staging begin on a cache line of their own.
constexpr std::size_t kAlign = 64;
std::size_t align_up(std::size_t n) {
  return (n + kAlign - 1) / kAlign * kAlign;
}
}  // namespace

Executor::Executor(std::shared_ptr<const RankPlan> plan, std::unique_ptr<Transport> transport)
    : plan_(std::move(plan)), transport_(std::move(transport)), has_data_(transport_->has_data()) {
  prepare();
}

void Executor::prepare() {
  const std::size_t count = plan_->steps.size();
  std::size_t memory = align_up(plan_->scratch_bytes);
  successors_at_.assign(count + 1, 0);
  waits_for_.resize(count);
  staging_at_.resize(count);
  pieces_at_.resize(count);
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Step& step = plan_->steps[i];
    waits_for_[i] = step.deps.count;
    for (std::uint32_t dep : plan_->deps_of(step)) ++successors_at_[dep + 1];
    staging_at_[i] = memory;
    pieces_at_[i] = pieces;
    if (step.kind == StepKind::copy) continue;
    const std::uint32_t segments = step.kind == StepKind::send ? step.from.count : step.to.count;
    const bool in_pieces = transport_->takes_pieces(step.peer, step.bytes);
    pieces += in_pieces ? segments : 1;
    if (!in_pieces && segments > 1) memory = align_up(memory + step.bytes);
  }
  pieces_.resize(pieces);
  for (std::size_t i = 0; i < count; ++i) successors_at_[i + 1] += successors_at_[i];
  successors_.resize(plan_->deps.size());
  std::vector<std::uint32_t> fill(successors_at_.begin(), successors_at_.end() - 1);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uint32_t dep : plan_->deps_of(plan_->steps[i]))
      successors_[fill[dep]++] = static_cast<std::uint32_t>(i);
  }
  open_.resize(count);
  in_flight_.assign(count, 0);
  resolved_.resize(count);
  own_memory_ = memory;
  memory_bytes_ = memory + count * (sizeof(Resolved) + 40) + pieces * sizeof(Piece);
  ready_.reserve(count);
  completed_.reserve(count);
  send_.resize(static_cast<std::size_t>(plan_->ranks));
  recv_.resize(static_cast<std::size_t>(plan_->ranks));
  transport_->reserve(static_cast<int>(count));
}

void Executor::bind(std::span<const std::byte* const> send, std::span<std::byte* const> recv) {
  assert(done());
  assert(send.size() == send_.size() && recv.size() == recv_.size());
  if (memory_ == nullptr) memory_ = memory::for_blocks(own_memory_);
  std::copy(send.begin(), send.end(), send_.begin());
  std::copy(recv.begin(), recv.end(), recv_.begin());
  for (std::size_t i = 0; i < plan_->steps.size(); ++i) resolve(i);
}

std::byte* Executor::address(const Segment& segment) const {
  switch (segment.buffer) {
    case Buffer::send:
      // Only ever read: plans that write the send buffer do not pass the verifier.
      return const_cast<std::byte*>(send_[static_cast<std::size_t>(segment.block)]) + segment.offset;
    case Buffer::recv:
      return recv_[static_cast<std::size_t>(segment.block)] + segment.offset;
    case Buffer::scratch:
      break;
  }
  return memory_.get() + segment.offset;
}

/// A message whose segments happen to be one piece of memory travels from and to there, and others do where
/// the transport takes several pieces; else through staging.
void Executor::resolve(std::size_t index) {
  const Step& step = plan_->steps[index];
  if (step.kind == StepKind::copy) return;
  const auto segments = step.kind == StepKind::send ? plan_->from(step) : plan_->to(step);
  Resolved& r = resolved_[index];
  r.staged = false;
  Piece* const first = pieces_.data() + pieces_at_[index];
  Piece* last = first;
  *last = {address(segments.front()), segments.front().bytes};
  const bool in_pieces = transport_->takes_pieces(step.peer, step.bytes);
  for (const Segment& s : segments.subspan(1)) {
    std::byte* const at = address(s);
    if (at == last->data() + last->size()) {
      *last = {last->data(), last->size() + s.bytes};
    } else if (in_pieces) {
      *++last = {at, s.bytes};
    } else {
      r.staged = true;
      *first = {memory_.get() + staging_at_[index], step.bytes};
      break;
    }
  }
  r.pieces = {first, last + 1};
}

void Executor::start(int first_tag) {
  blind_ = false;
  begin(first_tag);
}

void Executor::start_blind(int first_tag) {
  blind_ = true;
  begin(first_tag);
}

void Executor::begin(int first_tag) {
  assert(done());
  first_tag_ = first_tag;
  spoiled_by_ = -1;
  open_ = waits_for_;
  remaining_ = plan_->steps.size();
  ready_.clear();
  for (std::uint32_t i = 0; i < open_.size(); ++i) {
    if (open_[i] == 0) ready_.push_back(i);
  }
  run_ready();
}

/// Posts ready steps in order; copies complete at once and may make more steps ready.
void Executor::run_ready() {
  for (std::size_t i = 0; i < ready_.size(); ++i) post(ready_[i]);
  ready_.clear();
}

void Executor::post(std::uint32_t index) {
  const Step& step = plan_->steps[index];
  if (step.kind == StepKind::copy) {
    if (!has_failed()) copy_step(step);
    complete(index);
    return;
  }
  Resolved& r = resolved_[index];
  if (blind_ || (has_failed() && step.kind == StepKind::send)) {
    Piece& piece = pieces_[pieces_at_[index]];
    piece = nothing(step.bytes);
    r = {{&piece, 1}, false};
  }
  const int tag = first_tag_ + step.channel;
  in_flight_[index] = 1;
  if (step.kind == StepKind::recv) {
    transport_->post_recv(static_cast<int>(index), step.peer, tag, r.pieces);
    return;
  }
  if (r.staged) gather(step, r.pieces.front().data());
  transport_->post_send(static_cast<int>(index), step.peer, tag, r.pieces);
}

void Executor::complete(std::uint32_t index) {
  const Step& step = plan_->steps[index];
  if (step.kind == StepKind::recv && resolved_[index].staged && !has_failed())
    scatter(step, resolved_[index].pieces.front().data());
  in_flight_[index] = 0;
  --remaining_;
  for (std::uint32_t i = successors_at_[index]; i < successors_at_[index + 1]; ++i) {
    if (--open_[successors_[i]] == 0) ready_.push_back(successors_[i]);
  }
}

void Executor::gather(const Step& step, std::byte* to) {
  for (const Segment& s : plan_->from(step)) {
    if (has_data_) std::memcpy(to, address(s), s.bytes);
    to += s.bytes;
  }
  transport_->copied(step.bytes);
}

void Executor::scatter(const Step& step, const std::byte* from) {
  for (const Segment& s : plan_->to(step)) {
    if (has_data_) std::memcpy(address(s), from, s.bytes);
    from += s.bytes;
  }
  transport_->copied(step.bytes);
}

void Executor::copy_step(const Step& step) {
  transport_->copied(step.bytes);
  if (!has_data_) return;
  const auto from = plan_->from(step);
  const auto to = plan_->to(step);
  std::size_t a = 0, b = 0, a_done = 0, b_done = 0;
  while (a < from.size() && b < to.size()) {
    const std::size_t n = std::min(from[a].bytes - a_done, to[b].bytes - b_done);
    std::memmove(address(to[b]) + b_done, address(from[a]) + a_done, n);
    a_done += n;
    b_done += n;
    if (a_done == from[a].bytes) ++a, a_done = 0;
    if (b_done == to[b].bytes) ++b, b_done = 0;
  }
}

bool Executor::progress(bool block) {
  if (done()) return true;
  completed_.clear();
  transport_->poll(completed_, block);
  for (const int done : completed_) {
    const auto step = static_cast<std::uint32_t>(done < 0 ? ~done : done);
    if (done < 0) spoiled_by_ = plan_->steps[step].peer;
    complete(step);
  }
  run_ready();
  if (done() && spoiled_by_ >= 0 && !blind_) {
    throw TransportError(
        "rank " + std::to_string(spoiled_by_) +
        " has sent an empty message: it had no memory for its blocks, or got such a message itself");
  }
  return done();
}

std::vector<Waiting> Executor::waiting(std::size_t limit) const {
  std::vector<Waiting> list;
  for (std::size_t i = 0; i < in_flight_.size() && list.size() < limit; ++i) {
    if (in_flight_[i] == 0) continue;
    const Step& step = plan_->steps[i];
    list.push_back({step.kind == StepKind::send, step.peer, step.channel, step.phase, step.bytes});
  }
  return list;
}

}  // namespace tapa
