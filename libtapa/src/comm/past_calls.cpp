#include "comm/past_calls.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm_state.hpp"
#include "comm/registry.hpp"
#include "run/log.hpp"
#include "run/own_mpi.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "transport/shm_ring.hpp"
#include "world/world.hpp"

namespace tapa {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kBetween = 1s;         // looks
constexpr auto kBetweenAsking = 30s;  // a rank that waits long in each call is not to ask in each
constexpr int kLooks = 2;             // looks before somebody has waited for long

std::atomic<Clock::duration> next_look{};
std::atomic<bool> looking{false};
std::atomic<int> awaited{-1};  // see WaitsInMpi

/// Of whoever is looking.
struct Looks {
  const void* waits_in = nullptr;  // this rank: the buffers of a communicator, or where it is noted otherwise
  std::uint64_t round = 0;
  int waiting = 0;  // looks since then
  Clock::duration asked{-kBetweenAsking};
  int untaken = 0;  // looks at which another rank's message was there
  bool reported = false;
};
constinit Looks looks;

/// Carries the question of a rank that waits for another one: the communicators' own tags are less.
int question_tag() {
  static const int tag = largest_tag();
  return tag;
}

/// Whether this rank waits there as it did at the last looks.
bool waits_long(const void* where, std::uint64_t round) {
  const bool same = looks.waits_in == where && looks.round == round;
  looks.waits_in = where;
  looks.round = round;
  looks.waiting = same ? looks.waiting + 1 : 0;
  return looks.waiting >= kLooks;
}

/// Ranks that this one has waited for in a call through memory.
std::vector<int> missing_in_memory() {
  for (std::size_t at = 0; const auto state = next_state(at);) {
    const ShmBuffers* buffers = nullptr;
    {
      const auto parts = state->parts();
      if (!parts->regions.available()) continue;
      ShmBuffers& common = parts->regions.common();
      if (common.claim()) {  // no call is in it
        common.release();
        continue;
      }
      buffers = &common;
    }
    if (const auto awaited = buffers->pairs().awaited(); awaited.call > 0) {
      const std::vector<int> missing{state->membership.in_world[awaited.member]};
      return waits_long(&buffers->pairs(), awaited.call) ? missing : std::vector<int>();
    }
    const auto shown = [&](std::size_t member, std::uint64_t round) {
      return buffers->buffer(member, round)->sequence.load(std::memory_order_acquire);
    };
    const std::uint64_t round = std::max(shown(buffers->self(), 0), shown(buffers->self(), 1));
    std::vector<int> missing;
    for (const std::uint32_t member : buffers->order()) {
      if (shown(member, round) < round) missing.push_back(state->membership.in_world[member]);
    }
    if (!missing.empty()) return waits_long(buffers, round) ? missing : std::vector<int>();
  }
  return {};
}

/// Asks those that this rank has waited for, as they may not know of it.
void ask(const World& world) {
  std::vector<int> missing;
  const int in_mpi = awaited.load(std::memory_order_acquire);
  if (in_mpi < 0) {
    missing = missing_in_memory();
  } else if (waits_long(&awaited, static_cast<std::uint64_t>(in_mpi))) {
    missing.push_back(in_mpi);
  }
  const auto now = Clock::now().time_since_epoch();
  if (missing.empty() || now - looks.asked < kBetweenAsking) return;
  looks.asked = now;
  for (const int rank : missing) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (PMPI_Isend(nullptr, 0, MPI_BYTE, rank, question_tag(), world.comm, &request) == MPI_SUCCESS)
      PMPI_Request_free(&request);
  }
}

/// The sender of a message that nobody has taken yet.
std::optional<int> sent_to_us(const World& world) {
  // Elsewhere hardly anything goes through rings, whose memory is not to be touched for nothing.
  if (world.arena && (world.nodes > 1 || world.shared.options->settings().plan)) {
    const auto own = static_cast<std::size_t>(world.number_of(world.rank));
    for (std::size_t peer = 0; peer < world.mates.size(); ++peer) {
      const ShmRing ring(world.arena->ring(peer, own), world.arena->layout().ring_capacity());
      if (peer != own && ring.readable() > 0) return world.mates[peer];
    }
  }
  int found = 0;
  MPI_Status status{};
  const int code = PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world.comm, &found, &status);
  return code == MPI_SUCCESS && found != 0 ? std::optional(status.MPI_SOURCE) : std::nullopt;
}

/// A rank that has asked for this one, or, at several looks, one whose message nobody has taken.
std::optional<int> waits_for_us(const World& world) {
  int found = 0;
  MPI_Status status{};
  std::optional<int> asker;
  while (PMPI_Iprobe(MPI_ANY_SOURCE, question_tag(), world.comm, &found, &status) == MPI_SUCCESS &&
         found != 0) {
    asker = status.MPI_SOURCE;
    PMPI_Recv(nullptr, 0, MPI_BYTE, *asker, question_tag(), world.comm, MPI_STATUS_IGNORE);
  }
  if (asker) return asker;
  const std::optional<int> sender = sent_to_us(world);
  looks.untaken = sender ? looks.untaken + 1 : 0;
  return looks.untaken > kLooks ? sender : std::nullopt;
}

struct Place {
  std::string file;
  const void* object = nullptr;
  const void* function = nullptr;
};
Place place_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return {};
  return {info.dli_fname != nullptr ? info.dli_fname : "", info.dli_fbase, info.dli_saddr};
}

struct PastCall {
  const char* function;
  std::string caller;  // its file
};

/// MPI's all-to-all that this thread is in, if it is in one and not through this library.
std::optional<PastCall> past_call() {
  constexpr std::array names{"MPI_Alltoall",          "MPI_Alltoallv",          "MPI_Alltoallw",
                             "MPI_Neighbor_alltoall", "MPI_Neighbor_alltoallv", "MPI_Neighbor_alltoallw"};
  std::array<void*, 64> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  const void* const own = place_of(reinterpret_cast<const void*>(&watch_for_past_calls)).object;
  bool in_look = false;  // before it is what stands in place of backtrace(), as in a sanitized program
  bool in_mpi = false;   // beyond this very look
  std::optional<PastCall> found;
  for (int i = 0; i < depth; ++i) {
    const Place place = place_of(static_cast<const char*>(frames[static_cast<std::size_t>(i)]) - 1);
    const bool ours = place.object == own;
    if (ours && in_mpi) return std::nullopt;
    in_look = in_look || ours;
    if (ours || !in_look) continue;
    in_mpi = true;
    if (found && found->caller.empty()) found->caller = place.file;
    const auto name = std::ranges::find_if(
        names, [&](const char* n) { return place.function != nullptr && find_in_mpi(n) == place.function; });
    if (name != names.end()) found = PastCall{*name, {}};
  }
  return found;
}

void tell(const World& world, int waiting, const PastCall& call) {
  looks.reported = true;
  log_warn(words(
      "rank ", world.rank, " of MPI_COMM_WORLD is in MPI's own ", call.function,
      ", called past the drop-in by ", call.caller.empty() ? "an unknown object" : call.caller, ", and rank ",
      waiting, " has waited for it in the drop-in's for seconds: if these are one call, neither ever ends"));
}

void look() {
  const auto world = World::of_process();
  if (!world || looks.reported) return;
  ask(*world);
  const auto waiting = waits_for_us(*world);
  if (!waiting) return;
  looks.untaken = 0;
  if (const auto call = past_call()) tell(*world, *waiting, *call);
}

/// Open MPI calls it now and then while a thread waits.
int hook() {
  const auto now = Clock::now().time_since_epoch();
  if (now < next_look.load(std::memory_order_relaxed) || Progress::is_inside()) return 0;
  if (looking.exchange(true, std::memory_order_acquire)) return 0;
  next_look.store(now + kBetween, std::memory_order_relaxed);
  try {
    const Progress::Pause pause;
    look();
  } catch (const std::exception&) {
    looks.untaken = 0;  // then nothing is reported
  }
  looking.store(false, std::memory_order_release);
  return 0;
}

/// A function of Open MPI's list of those that it calls when it waits.
int (*registration(const char* name))(int (*)()) {
#ifdef OPEN_MPI
  return reinterpret_cast<int (*)(int (*)())>(
      dlsym(RTLD_DEFAULT, name));  // NOLINT: that is how dlsym is used
#else
  static_cast<void>(name);
  return nullptr;
#endif
}

}  // namespace

void watch_for_past_calls() {
  if (const auto add = registration("opal_progress_register_lp")) add(hook);
}

void stop_watching() {
  if (const auto remove = registration("opal_progress_unregister")) remove(hook);
}

WaitsInMpi::WaitsInMpi(std::span<const int> ranks, int self) {
  const int next = ranks[static_cast<std::size_t>(self + 1) % ranks.size()];
  int none = -1;
  noted_ = awaited.compare_exchange_strong(none, next, std::memory_order_acq_rel);
}

WaitsInMpi::~WaitsInMpi() {
  if (noted_) awaited.store(-1, std::memory_order_release);
}

}  // namespace tapa
