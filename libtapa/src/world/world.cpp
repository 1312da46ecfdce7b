#include "world/world.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include "files/descriptor.hpp"
#include "memory/reserve.hpp"
#include "run/locked.hpp"
#include "run/log.hpp"
#include "run/private_comm.hpp"
#include "run/scratch.hpp"
#include "topology/detect.hpp"
#include "topology/detect_mpi.hpp"
#include "transport/memory_file.hpp"
#include "transport/shm_buffers.hpp"
#include "world/drop_in.hpp"

namespace tapa {

namespace {

constexpr int kLeastTags = 1 << 14;  // of a communicator; CallOrder wants half of them

// Bits that hold on a rank, in the agreement.
constexpr std::uint64_t kShares = 1;    // it has the memory of its node
constexpr std::uint64_t kAttaches = 2;  // it can read its mates' memory

struct OfProcess {
  std::shared_ptr<World> world;
};

std::string own_record() {
  try {
    return local_record();
  } catch (const std::exception& e) {
    log_warn(words("detection failed, the machine is taken as flat: ", e.what()));
    return {};
  }
}

}  // namespace

std::shared_ptr<World> World::of_process() {
  return locked<OfProcess>()->world;
}

void World::set_of_process(std::shared_ptr<World> world) {
  locked<OfProcess>()->world = std::move(world);
}

std::shared_ptr<World> World::make(MPI_Comm of, const JointSteps& steps) {
  memory::keep_reserve();
  std::shared_ptr<World> world(new World(of));
  std::string why;
  std::optional<ShmSegment> file;
  if (world->size > 1) file = ShmSegment::create(why);
  if (!why.empty()) log_info("no shared memory: " + why);
  world->hellos_ = gather_hellos(own_hello(file ? &*file : nullptr), of, steps);
  check_versions(world->hellos_);
  world->find_mates();
  const bool shares = world->open_arena(file);
  world->agree(shares, of, steps);  // then all have opened the file
  world->make_comms(of, steps);
  world->count_cores();
  world->describe_places(steps);
  return world;
}

void World::release() {
  shm.reset();
  if (comm != MPI_COMM_NULL) PMPI_Comm_free(&comm);
}

void World::find_mates() {
  std::map<std::uint64_t, int> numbers;
  number_.assign(static_cast<std::size_t>(size), -1);
  for (int r = 0; r < size; ++r) {
    const std::uint64_t host = hello(r).host;
    node_.push_back(numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second);
    if (host != hello(rank).host) continue;
    number_[static_cast<std::size_t>(r)] = static_cast<int>(mates.size());
    mates.push_back(r);
    pids_.push_back(ShmSegment::process(std::string(hello(r).token_text())));
  }
  nodes = static_cast<int>(numbers.size());
}

/// Those of the node's first ranks, which keep them open until all agree. False: this rank cannot have it.
bool World::open_arena(const std::optional<ShmSegment>& file) {
  if (mates.size() == 1) return true;
  std::uint64_t most = hello(rank).most_bytes;
  for (const int mate : mates) most = std::min(most, hello(mate).most_bytes);
  const auto layout = arena_layout(mates.size(), most, page_bytes());
  std::string why = layout ? "this rank has no file" : "its address space is limited";
  const auto open = [&](std::size_t number) {
    const int owner = mates[number];
    files::Descriptor opened(owner == rank ? fcntl(file->fd(), F_DUPFD_CLOEXEC, 0)
                                           : ShmSegment::open_token(std::string(hello(owner).token_text())));
    if (!opened.is_open()) why = words("cannot open that of rank ", owner);
    return opened;
  };
  if (layout && file) arena = NodeArena::map(open, *layout, why);
  if (!arena) {
    log_info("no shared memory: " + why);
    return false;
  }
  NodeArena::Place& place = arena->place(static_cast<std::size_t>(number_of(rank)));
  place = place_of(own_cores());
  if (mates.front() == rank && is_drop_in()) reserve();
  if (is_drop_in() && nodes == 1) ShmBuffers::populate(arena->unit(static_cast<std::size_t>(rank)));
  return true;
}

/// MPI_COMM_WORLD's own, before other ranks can take any.
void World::reserve() {
  if (rank == 0) static_cast<void>(arena->contexts().take(1));
  if (nodes == 1) arena->take_first(static_cast<std::size_t>(size));
}

/// Whether all ranks have their node's memory; the options of rank 0.
void World::agree(bool shares, MPI_Comm of, const JointSteps& steps) {
  const bool reads = shares && std::ranges::all_of(mates, [&](int mate) {
                       return mate == rank || ShmSegment::readable(std::string(hello(mate).token_text()));
                     });
  static_cast<void>(own_options());  // this process's log level
  std::uint64_t all = (shares ? kShares : 0) | (reads ? kAttaches : 0);
  steps.meet();
  check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_BAND, of), "MPI_Allreduce");
  if ((all & kShares) == 0) arena.reset();
  attaches = (all & kAttaches) != 0;
  if (!attaches && rank == 0 && size > 1)
    log_info("no cross-memory attach: the kernel refuses it to some rank");
  shared =
      unpack_options(share_text(of, rank == 0 ? pack_options(of) : std::string(), [&] { steps.meet(); }));
  if (shared.options->settings().shm_limit == 0) arena.reset();
  Scratch::keep_at_most(shared.options->settings().keep);
  has_progress = std::ranges::all_of(hellos_, [](const Hello& h) { return h.has_progress != 0; });
  // Also where the options speak of buffers in GPU memory.
  const GpuBuffers gpu = shared.options->settings().gpu;
  sees_gpus = gpu == GpuBuffers::mpi || gpu == GpuBuffers::stage ||
              (gpu != GpuBuffers::host &&
               std::ranges::any_of(hellos_, [](const Hello& h) { return h.sees_gpus != 0; }));
}

void World::make_comms(MPI_Comm of, const JointSteps& steps) {
  static_cast<void>(alone_comm());  // not in the first call that packs
  steps.meet();
  check_mpi(make_private_comm(of, &comm), "MPI_Comm_create");
  tag_limit_ = largest_tag();
  contexts_ = std::clamp<unsigned>(static_cast<unsigned>(tag_limit_ / kLeastTags), 1, ArenaLayout::kContexts);
  if (arena) return join_rings();
  if (rank == 0 && is_drop_in()) static_cast<void>(own_contexts_.take(1));  // MPI_COMM_WORLD's
}

void World::join_rings() {
  const std::size_t capacity = arena->layout().ring_capacity();
  const auto own = static_cast<std::size_t>(number_of(rank));
  std::vector<RingEnds> ends;
  for (std::size_t peer = 0; peer < mates.size(); ++peer) {
    ends.push_back({ShmRing(arena->ring(own, peer), capacity), ShmRing(arena->ring(peer, own), capacity),
                    arena->bell(peer)});
  }
  shm = std::make_unique<ShmNode>(ends, own, arena->bell(own));
}

// Of an arena each rank has told where it runs.
void World::count_cores() {
  const auto online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  Cores cores = own_cores();
  for (std::size_t mate = 0; arena && mate < mates.size(); ++mate) {
    const auto& theirs = arena->place(mate).cores;
    std::transform(theirs.begin(), theirs.end(), cores.begin(), cores.begin(), std::bit_or());
  }
  int usable = 0;
  for (const std::uint64_t bits : cores) usable += std::popcount(bits);
  if (usable == 0 || !arena) usable = online;
  crowded = static_cast<int>(mates.size()) > usable || ranks_started_here() > online;
}

/// What plans between nodes go by, and what a program that asked for the library may ask of its levels.
void World::describe_places(const JointSteps& steps) {
  const Settings& s = shared.options->settings();
  const bool wanted = nodes > 1 || !is_drop_in() || s.plan || !shared.tuning.empty();
  if (size == 1 || !wanted || !s.topology.empty()) return;
  try {
    records = gather_records(comm, own_record(), [&] { steps.meet(); });
  } catch (const std::runtime_error& e) {
    refuse(MPI_ERR_INTERN, e.what());
  }
}

int World::distance_to(int mate) const {
  const auto& own = arena->place(static_cast<std::size_t>(number_of(rank)));
  const auto& other = arena->place(static_cast<std::size_t>(number_of(mate)));
  if (own.package == 0 || other.package == 0) return 0;
  if (own.package != other.package) return 2;
  return own.cache != 0 && own.cache == other.cache ? 0 : 1;
}

// Each node has its part of the numbers, or each rank where nodes have no memory.
std::optional<unsigned> World::take_context() {
  const auto owners = static_cast<unsigned>(arena ? nodes : size);
  const auto owner = static_cast<unsigned>(arena ? node_of(rank) : rank);
  const unsigned most = contexts_ / owners + (owner < contexts_ % owners ? 1 : 0);
  const auto found = (arena ? arena->contexts() : own_contexts_).take(most);
  return found ? std::optional(*found * owners + owner) : std::nullopt;
}

void World::give_context(unsigned context) {
  const auto owners = static_cast<unsigned>(arena ? nodes : size);
  (arena ? arena->contexts() : own_contexts_).give(context / owners);
}

}  // namespace tapa
