#include <optional>

#include "comm/call_notes.hpp"
#include "route/decide.hpp"
#include "route/recall.hpp"
#include "route/ways.hpp"
#include "run/datatype.hpp"
#include "run/shm_exchange.hpp"

namespace tapa {

namespace {

constexpr const char* kMemory = "memory";  // the plan, as reports name it

/// Dense where those of each side are, one after the other, and both sides' have as many bytes.
Uniform uniform_blocks(const Arguments& a) {
  const TypeInfo& recv = a.recv.info();
  const TypeInfo& send = a.sent().info();
  const std::size_t bytes = static_cast<std::size_t>(a.sent().count) * send.size;
  const bool dense = bytes != 0 && recv.always_dense() && send.always_dense() &&
                     bytes == static_cast<std::size_t>(a.recv.count) * recv.size;
  return dense ? Uniform{bytes, true, send.first, recv.first} : Uniform{bytes};
}

/// What carries a call out that need not be agreed on, and where such calls are counted.
struct Pick {
  std::optional<Algorithm> algorithm = std::nullopt;  ///< none: something has to be agreed, or said
  Competition* counted = nullptr;
  std::optional<ProbeKey> tried = std::nullopt;
};

/// What a competition that goes on says; nothing where it is over, or the call's turn is not its to give.
std::optional<Pick> choose_next(const Way& way, const Rules& rules) {
  if (way.kind == Way::Kind::settled || rules.compares()) return std::nullopt;
  if (way.kind == Way::Kind::agree) return Pick{};
  if (way.kind == Way::Kind::probe) return Pick{way.next().algorithm, nullptr, way.key};
  return Pick{way.next().algorithm, way.running};
}

Pick choose_uniform(CommParts& parts, const Rules& rules, int rank, std::size_t bytes) {
  const Offer offer{true, parts.regions.available(), false};
  if (offer.memory && parts.chooser.sure(bytes) && !rules.explain) return {Algorithm::memory};
  const Way way = way_of(parts, true, bytes, offer);
  if (const auto next = choose_next(way, rules)) return *next;
  // Ranks whose sizes differ go the same way.
  if (rules.compares() && parts.chooser.one_choice() && offer.memory && !rules.mpi_is_forced)
    return {parts.chooser.decide(bytes, offer).choice.algorithm, way.decided()};
  const auto entry = uniform_plan(parts, bytes, offer);
  const bool explained = !rules.explain || rank != 0 || entry->explained.load(std::memory_order_relaxed);
  return explained ? Pick{entry->choice.algorithm, way.decided()} : Pick{};
}

/// Blocks of different sizes, where shared memory or MPI carries all of them.
Pick choose_blocks(CommParts& parts, const Rules& rules, bool may_use_mpi) {
  const Offer offer{may_use_mpi, true, false};
  const std::size_t bytes = parts.mean.shared().value_or(0);
  if (parts.chooser.sure(bytes)) return {Algorithm::memory};
  const Way way = way_of(parts, false, bytes, offer);
  if (const auto next = choose_next(way, rules)) return *next;
  Pick chosen{Algorithm::memory, way.decided()};
  if (parts.chooser.forced() || rules.compares()) return chosen;
  const Choice* const winner = parts.tuner.fastest(false, bytes, offer, parts.mean.due()).choice;
  if (winner != nullptr && winner->algorithm == Algorithm::mpi) chosen.algorithm = Algorithm::mpi;
  return chosen;
}

/// Takes what a call needs to begin. `sampled`: MPI runs beside some of these calls, whose turn is waited
/// for; those with different blocks are counted together, whatever these are, so that ranks do it alike: 0
/// `bytes`.
Route begin_at_once(const Arguments& a, CommState& state, CommParts& parts, const Pick& chosen, bool sampled,
                    std::size_t bytes) {
  const Rules& rules = state.rules();
  Route route = in_order(state);
  if (chosen.algorithm == Algorithm::memory) {
    sampled = sampled && rules.report == Reporting::on;
    if (sampled && parts.report.sample_is_next(a.function, bytes, kMemory)) return route;
    if (!parts.regions.common().claim()) return route;
    if (sampled) static_cast<void>(parts.report.sample_due(a.function, bytes, kMemory));
    route.carrier = Carrier::memory;
    route.buffers = &parts.regions.common();
  } else {
    // Sizes are compared, and ranks that do not come are named, before MPI begins.
    const bool with_words = rules.compares() || rules.timeout > 0;
    if (chosen.algorithm != Algorithm::mpi || with_words) return route;
    route.carrier = Carrier::mpi;
    route.chosen = true;
  }
  parts.order.pass_window();
  if (chosen.counted != nullptr) chosen.counted->count();
  route.tried = chosen.tried;
  return route;
}

/// Of blocks that may differ; `later`: of a nonblocking call, for which memory is the only choice.
Route claim_blocks(const Arguments& arguments, CommState& state, bool uniform, bool later) {
  const Rules& rules = state.rules();
  Route route = in_order(state);
  // In place they may have to be copied first.
  if (arguments.in_place() || !rules.always_memory || rules.explain) return route;
  const bool reported = rules.report != Reporting::off;
  {
    const auto parts = state.parts();
    if (!parts->order.idle()) return route;
    const bool by_memory = later || arguments.neighbours;
    const Pick chosen = by_memory ? Pick{Algorithm::memory} : choose_blocks(*parts, rules, !arguments.large);
    route = begin_at_once(arguments, state, *parts, chosen, !by_memory, 0);
    if (route.carrier == Carrier::memory && reported && !later) parts->report.next_blocking();
    if (route.carrier == Carrier::plan) return route;
  }
  if (route.carrier == Carrier::memory && reported && !uniform) note_traffic(arguments, state.size, state);
  route.noted = route.tried || reported || route.carrier == Carrier::mpi;
  if (route.tried || reported) route.sent = bytes_of(arguments, arguments.sent(), state.size);
  return route;
}

}  // namespace

Route claim_uniform(const Arguments& arguments, CommState& state, const Uniform& blocks) {
  const Rules& rules = state.rules();
  if (!rules.fast) return in_order(state);
  const auto parts = state.parts();
  if (!parts->order.idle()) return in_order(state);
  LastWay& last = parts->last;
  Pick chosen{last.mpi ? Algorithm::mpi : Algorithm::memory, last.counted};
  if (blocks.bytes != last.bytes || (last.counted != nullptr && !last.counted->repeats())) {
    chosen = choose_uniform(*parts, rules, state.rank, blocks.bytes);
    if (chosen.algorithm != Algorithm::memory && chosen.algorithm != Algorithm::mpi) return in_order(state);
    last = {chosen.tried ? 0 : blocks.bytes, chosen.algorithm == Algorithm::mpi, chosen.counted};
  }
  if (chosen.algorithm == Algorithm::memory && arguments.in_place() &&
      !(blocks.dense && ShmExchange::fits(parts->regions.common(), blocks.bytes)))
    return in_order(state);
  Route route = begin_at_once(arguments, state, *parts, chosen, true, blocks.bytes);
  route.noted = route.tried || rules.report != Reporting::off;
  route.blocks = blocks;
  route.uniform = true;
  route.bytes = blocks.bytes;
  route.sent = blocks.bytes * static_cast<std::uint64_t>(state.size);
  if (route.carrier == Carrier::memory && rules.report != Reporting::off) {
    route.stands_for = parts->report.begin(arguments.function, blocks.bytes, kMemory, route.sent);
    route.noted = route.tried || route.stands_for != 0;
  }
  return route;
}

Route claim_later(const Arguments& arguments, CommState& state) {
  // What is sent may have to be copied first; what is compared is so in the order of calls.
  const bool copied = arguments.in_place() || arguments.has_equal_buffers();
  if (copied || state.rules().compares()) return in_order(state);
  const bool uniform = arguments.form == Form::uniform && !arguments.neighbours;
  const Uniform blocks = uniform ? uniform_blocks(arguments) : Uniform{};
  if (uniform ? !blocks.dense : !MemoryRun::is_dense(arguments)) return in_order(state);
  Route route = claim_blocks(arguments, state, uniform, true);
  route.blocks = blocks;
  route.uniform = uniform;
  return route;
}

Route claim(const Arguments& arguments, CommState& state) {
  if (arguments.has_equal_buffers()) return in_order(state);  // what is sent may have to be copied first
  if (arguments.form != Form::uniform || arguments.neighbours)
    return claim_blocks(arguments, state, false, false);
  const Uniform blocks = uniform_blocks(arguments);
  if (blocks.bytes == 0) return in_order(state);  // there is no exchange
  // Where buffers may be in GPU memory the ranks agree first, in each call.
  if (blocks.dense && state.device_calls() == nullptr) remember_blocks(arguments, state, blocks);
  return claim_uniform(arguments, state, blocks);
}

}  // namespace tapa
