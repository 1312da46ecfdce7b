#include "c_transfers.hpp"

#include <algorithm>
#include <utility>

namespace fuzz {
namespace {

constexpr std::size_t kMostWays = 6;
constexpr std::uint8_t kReleased = 0x5C;

dit_tensor dense(Buffer& buffer) {
  return {buffer.data(), buffer.size(), 0, 0, 0};
}

/// What a start is to do with V-Major's rows, as far as dit.h tells.
enum class Rows : std::uint8_t { free, chosen, missing };

Rows rows_for(const Way& way, const WireState::Visited& at) {
  const WireState& wire = *way.wire;
  if (!wire.policy->v_major || way.kind == DIT_GATHER_OUTPUT || way.kind == DIT_SCATTER_VALUE)
    return Rows::free;
  const WireState::Visit& visit = wire.visits[wire.slot(std::get<2>(at))];
  const bool chosen = visit.any && visit.place == at && !visit.taken.contains({way.kind, way.group});
  return chosen ? Rows::chosen : Rows::missing;
}

void note_rows(Way& way, const WireState::Visited& at) {
  WireState& wire = *way.wire;
  if (!wire.policy->v_major || way.kind == DIT_GATHER_OUTPUT) return;
  WireState::Visit& visit = wire.visits[wire.slot(std::get<2>(at))];
  const bool fresh = !visit.any || visit.place != at || visit.taken.contains({way.kind, way.group});
  if (fresh && way.kind == DIT_SCATTER_VALUE) visit = {true, at, {}};
  if (visit.any && visit.place == at) visit.taken.insert({way.kind, way.group});
}

}  // namespace

Way* Transfers::choose() {
  const int chosen = numbers_.byte();
  return ways_.empty() ? nullptr : &ways_[static_cast<std::size_t>(chosen) % ways_.size()];
}

void Transfers::create(const std::shared_ptr<WireState>& wire) {
  Way way;
  way.kind = numbers_.up_to(4);
  way.groups = numbers_.up_to(3);
  way.group = numbers_.up_to(3);
  way.element = static_cast<std::size_t>(numbers_.up_to(4));
  if (place_.layout == nullptr || ways_.size() >= kMostWays) return;
  dit_transfer_options options{};
  options.struct_size = sizeof options;
  bool right = way.kind <= DIT_GATHER_OUTPUT && way.groups >= 1 && way.group < way.groups && way.element >= 1;
  if (wire != nullptr) {  // mostly right: what the wire has
    const bool fits = way.element != 1 || wire->element_bytes() == 1;
    if (fits) way.element = wire->element_bytes();
    const bool same_groups = way.groups != 0;
    if (same_groups) way.groups = wire->groups;
    way.group = same_groups ? way.group % way.groups : 0;
    right = way.kind <= DIT_GATHER_OUTPUT && fits && same_groups;
    options.wire = wire->wire;
  }
  options.kind = way.kind;
  options.group = way.group;
  options.groups = way.groups;
  options.element_bytes = way.element;
  require_status(right, dit_transfer_create(place_.session, place_.layout, &options, &way.transfer),
                 "dit_transfer_create");
  if (!right) {
    require(way.transfer == nullptr, "a failed call leaves its outputs");
    return;
  }
  way.number = ++made_;
  way.wire = wire;
  if (wire != nullptr) ++wire->transfers;
  std::size_t source = 0, target = 0;
  must_work(dit_transfer_bytes(way.transfer, &source, &target), "dit_transfer_bytes");
  way.source = Buffer(source);
  way.target = Buffer(target);
  ways_.push_back(std::move(way));
}

bool Transfers::choose_place(const Way& way, dit_transfer_call& call) {
  if (way.wire == nullptr) return true;
  const WireState& wire = *way.wire;
  const int where = numbers_.byte();
  constexpr int kNowhere = 250;
  call.layer = where % wire.layers;
  call.step = where / 4 % wire.steps;
  call.branch = where / 32 % 2;
  if (where == kNowhere) call.layer = wire.layers;
  if (where == kNowhere + 1) call.step = wire.steps;
  if (where == kNowhere + 2) call.branch = 2;
  if (where == kNowhere + 3) call.step = -1;
  return where < kNowhere || where > kNowhere + 3;
}

/// A start of which only V-Major's rows may be wrong; what comes of that is the same on all ranks.
dit_status Transfers::start_with_rows(Way& way, const dit_transfer_call& call) {
  const dit_status status = dit_transfer_start(way.transfer, &call);
  if (way.wire == nullptr) {
    must_work(status, "dit_transfer_start");
    return status;
  }
  const WireState::Visited at{call.layer, call.step, call.branch};
  if (rows_for(way, at) != Rows::missing) must_work(status, "dit_transfer_start with a wire");
  if (status != DIT_OK) must_fail_with(DIT_ERROR_ARGUMENT, status, "dit_transfer_start without rows");
  place_.board.agree(key_of(Topic::start, {way.number, ++starts_}), static_cast<std::uint64_t>(status),
                     "a start works on all ranks, or on none");
  if (status == DIT_OK) note_rows(way, at);
  return status;
}

bool Transfers::start(Way& way) {
  const int fault = numbers_.up_to(7);
  dit_transfer_call call{};
  call.struct_size = sizeof call;
  const bool there = choose_place(way, call);
  const bool right = !way.under_way && fault != 1 && fault != 2 && there;
  if (right) {
    ++way.round;
    model().fill(way);
    way.target.fill(kUntouched);
  }
  call.source = dense(way.source);
  call.target = dense(way.target);
  if (fault == 1) ++call.source.bytes;
  if (fault == 2) call.struct_size = 3;
  if (!right) {
    must_fail(dit_transfer_start(way.transfer, &call), "dit_transfer_start");
    return false;
  }
  if (start_with_rows(way, call) != DIT_OK) return false;
  way.under_way = way.started = true;
  if (way.wire != nullptr) {
    way.place = {call.layer, way.wire->slot(call.branch)};
    way.rounds[way.place].push_back(way.round);
    note_late(way, call.step);
  }
  return true;
}

void Transfers::start() {
  if (Way* way = choose(); way != nullptr) (void)start(*way);
}

/// What the session counts is what the layout sends.
void Transfers::start_counted() {
  Way* const way = choose();
  if (way == nullptr) return;
  dit_exchange_totals before{}, after{};
  before.struct_size = after.struct_size = sizeof before;
  must_work(dit_session_totals(place_.session, &before), "dit_session_totals");
  const bool started = start(*way);
  must_work(dit_session_totals(place_.session, &after), "dit_session_totals");
  if (way->wire != nullptr) return;  // coded, and the guard's words
  std::uint64_t expected[16] = {};
  for (int peer = 0; peer < place_.of.ranks && started; ++peer)
    if (peer != place_.rank) expected[place_.of.level_of(place_.rank, peer)] += model().bytes_to(*way, peer);
  for (int level = 0; level < 16; ++level)
    require(after.sent_bytes[level] - before.sent_bytes[level] == expected[level],
            "a start is counted as what it sends");
  wait(*way);
  dit_exchange_totals finished{};
  finished.struct_size = sizeof finished;
  must_work(dit_session_totals(place_.session, &finished), "dit_session_totals");
  require(finished.exchanges == after.exchanges + (started ? 1 : 0) || !started,
          "an exchange is counted once it is finished");
}

void Transfers::wait(Way& way) {
  must_work(dit_transfer_wait(way.transfer), "dit_transfer_wait");
  if (way.under_way) model().check(way);
  way.under_way = false;
}

void Transfers::wait() {
  if (Way* way = choose(); way != nullptr) wait(*way);
}

void Transfers::test() {
  Way* const way = choose();
  if (way == nullptr) return;
  int done = -1;
  must_work(dit_transfer_test(way->transfer, &done), "dit_transfer_test");
  require(done == 1 || (done == 0 && way->under_way), "done, or under way");
  wait(*way);  // ranks see different answers, and go on alike
}

/// Under way or not; a freed one may be freed again.
void Transfers::release(Way& way) {
  const bool waits = way.under_way;
  must_work(dit_transfer_free(&way.transfer), "dit_transfer_free");
  require(way.transfer == nullptr, "a freed handle is null");
  if (waits) model().check(way);
  way.under_way = false;
  if (way.wire != nullptr) --way.wire->transfers;
  must_work(dit_transfer_free(&way.transfer), "dit_transfer_free of null");
}

void Transfers::drop_freed() {
  std::erase_if(ways_, [](const Way& any) { return any.transfer == nullptr; });
}

void Transfers::release() {
  if (Way* way = choose(); way != nullptr) release(*way);
  drop_freed();
}

void Transfers::release_all() {
  for (Way& way : ways_) release(way);
  drop_freed();
}

void Transfers::use_workspace() {
  Way* const way = choose();
  if (way == nullptr) return;
  std::size_t bytes = 0;
  must_work(dit_transfer_workspace_bytes(way->transfer, &bytes), "dit_transfer_workspace_bytes");
  workspaces_.emplace_back(bytes + 1);
  const bool enough = numbers_.coin() || bytes == 0;
  const bool right = !way->under_way && !way->started && enough;
  const dit_status status =
      dit_transfer_use_workspace(way->transfer, workspaces_.back().data(), enough ? bytes : bytes - 1);
  if (right) must_work(status, "dit_transfer_use_workspace");
  if (!enough || way->under_way) must_fail(status, "dit_transfer_use_workspace");
}

/// Of one rank: source and target stay until they are released.
void Transfers::give_up(Way& way) {
  given_up_.emplace_back();
  GivenUp& kept = given_up_.back();
  const auto release = [](void* user) {
    auto* const freed = static_cast<GivenUp*>(user);
    freed->source.fill(kReleased);  // who reads it all the same gets nothing that was sent
    freed->target.fill(kReleased);
    ++freed->released;
  };
  const bool waits = way.under_way;
  const Buffer source(way.source.size()), target(way.target.size());
  kept.source = std::exchange(way.source, source);
  kept.target = std::exchange(way.target, target);
  must_work(dit_transfer_cancel(way.transfer, release, &kept), "dit_transfer_cancel");
  require(waits || kept.released == 1, "what is not under way is released at once");
  way.under_way = false;
}

/// By some ranks; the others get its data all the same.
void Transfers::cancel() {
  Way* const way = choose();
  const int ranks = numbers_.byte();
  if (way == nullptr) return;
  const bool own = (ranks >> place_.rank & 1) != 0;
  const bool waited = way->under_way;
  if (own)
    give_up(*way);
  else
    wait(*way);
  if (way->wire == nullptr || !way->wire->policy->remembers) return;
  const bool all = (ranks & ((1 << place_.of.ranks) - 1)) == (1 << place_.of.ranks) - 1;
  if (all && way->round > 0 && numbers_.coin()) {  // refused by all, or by none: nothing may be remembered
    dit_transfer_call call{};
    call.struct_size = sizeof call;
    call.source = dense(way->source);
    call.target = dense(way->target);
    const dit_status status = dit_transfer_start(way->transfer, &call);
    place_.board.agree(key_of(Topic::start, {way->number, ++starts_}), static_cast<std::uint64_t>(status),
                       "a start after all ranks cancelled works on all, or on none");
    require(status != DIT_OK || !waited || !way->wire->surely_remembers(place_.of, way->kind),
            "what is remembered ends with a cancel");
    must_work(dit_transfer_wait(way->transfer), "dit_transfer_wait");
  }
  release(*way);
  drop_freed();
}

void Transfers::require_released() const {
  for (const GivenUp& kept : given_up_) {
    require(kept.released == 1, "buffers of what was cancelled are released, once");
    kept.source.require_guards();
    kept.target.require_guards();
    require(std::all_of(kept.target.data(), kept.target.data() + kept.target.size(),
                        [](std::uint8_t byte) { return byte == kReleased; }),
            "nothing is written to what was released");
  }
}

/// What a transfer says of itself, and what host memory cannot do.
void Transfers::ask() {
  Way* const way = choose();
  if (way == nullptr) return;
  std::int64_t source[4] = {}, target[4] = {};
  must_work(dit_transfer_shapes(way->transfer, source, target), "dit_transfer_shapes");
  model().check_shapes(*way, source, target);
  std::uint64_t guarded = 7;
  must_work(dit_transfer_guarded(way->transfer, &guarded), "dit_transfer_guarded");
  const bool guards = way->wire != nullptr && way->wire->policy->guard;
  require(guarded <= (guards ? static_cast<std::uint64_t>(way->round) : 0),
          "a guard sends no more than what was started");
  place_.board.agree(key_of(Topic::guarded, {way->number, way->round}), guarded,
                     "a guard says the same on all ranks");
  const dit_status status = dit_transfer_wait_stream(way->transfer, nullptr);
  if (way->under_way)
    must_fail_with(DIT_ERROR_UNSUPPORTED, status, "dit_transfer_wait_stream of host memory");
  else
    must_work(status, "dit_transfer_wait_stream with nothing under way");
}

/// Some of those that are not under way, in any order.
void Transfers::start_together() {
  must_work(dit_transfer_start_together(nullptr, nullptr, 0), "dit_transfer_start_together of none");
  const int fault = numbers_.up_to(9);
  const int chosen = numbers_.byte();
  const bool backwards = numbers_.coin();
  std::vector<Way*> ways;
  for (std::size_t at = 0; at < ways_.size(); ++at)
    if (ways_[at].wire == nullptr && !ways_[at].under_way && (chosen >> at & 1) != 0)
      ways.push_back(&ways_[at]);
  if (backwards) std::reverse(ways.begin(), ways.end());
  if (ways.empty()) return;
  std::vector<dit_transfer*> all;
  std::vector<dit_transfer_call> calls;
  for (Way* way : ways) {
    if (fault > 4) {
      ++way->round;
      model().fill(*way);
      way->target.fill(kUntouched);
    }
    all.push_back(way->transfer);
    calls.emplace_back();
    calls.back().struct_size = sizeof(dit_transfer_call);
    calls.back().source = dense(way->source);
    calls.back().target = dense(way->target);
  }
  const auto start = [&] { return dit_transfer_start_together(all.data(), calls.data(), all.size()); };
  switch (fault) {
    case 0:
      all.back() = nullptr;
      return must_fail(start(), "dit_transfer_start_together");
    case 1:
      return must_fail(dit_transfer_start_together(nullptr, calls.data(), 1), "dit_transfer_start_together");
    case 2:
      return must_fail(dit_transfer_start_together(all.data(), nullptr, 1), "dit_transfer_start_together");
    case 3:
      calls[0].struct_size = 3;
      return must_fail(start(), "dit_transfer_start_together");
    case 4:
      all.push_back(all[0]);
      calls.push_back(calls[0]);
      return must_fail_with(DIT_ERROR_ARGUMENT, start(), "dit_transfer_start_together of one twice");
    default:
      must_work(start(), "dit_transfer_start_together");
  }
  for (Way* way : ways) way->under_way = way->started = true;
}

void Transfers::bind(dit_registration* registration) {
  Way* const way = choose();
  if (way == nullptr) return;
  const dit_tensor target = dense(way->target);
  const dit_status status = dit_transfer_bind(way->transfer, registration, &target);
  if (registration == nullptr)
    must_fail(status, "dit_transfer_bind to null");
  else
    must_fail_with(DIT_ERROR_UNSUPPORTED, status, "dit_transfer_bind of host memory");
}

void Transfers::misuse() {
  std::size_t bytes = 7;
  std::uint64_t count = 7;
  std::int64_t shape[4];
  must_fail(dit_transfer_start(nullptr, nullptr), "dit_transfer_start");
  must_fail(dit_transfer_bytes(nullptr, &bytes, &bytes), "dit_transfer_bytes");
  must_fail(dit_transfer_free(nullptr), "dit_transfer_free");
  must_fail(dit_transfer_wait(nullptr), "dit_transfer_wait");
  must_fail(dit_transfer_cancel(nullptr, nullptr, nullptr), "dit_transfer_cancel");
  must_fail(dit_transfer_guarded(nullptr, &count), "dit_transfer_guarded");
  must_fail(dit_transfer_wait_stream(nullptr, nullptr), "dit_transfer_wait_stream");
  must_fail(dit_transfer_bind(nullptr, nullptr, nullptr), "dit_transfer_bind");
  must_fail(dit_transfer_shapes(nullptr, shape, shape), "dit_transfer_shapes");
  require(bytes == 7 && count == 7, "a failed call leaves its outputs");
  if (ways_.empty()) return;
  dit_transfer* const transfer = ways_.front().transfer;
  must_fail(dit_transfer_test(transfer, nullptr), "dit_transfer_test");
  must_fail(dit_transfer_guarded(transfer, nullptr), "dit_transfer_guarded");
  must_fail(dit_transfer_shapes(transfer, nullptr, shape), "dit_transfer_shapes");
  must_fail(dit_transfer_start(transfer, nullptr), "dit_transfer_start");
}

}  // namespace fuzz
