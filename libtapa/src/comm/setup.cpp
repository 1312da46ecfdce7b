#include "comm/setup.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <new>
#include <numeric>
#include <span>
#include <utility>

#include "comm/results_store.hpp"
#include "device/tokens.hpp"
#include "run/device_memory.hpp"
#include "run/on_all_ranks.hpp"
#include "run/private_comm.hpp"
#include "run/world.hpp"
#include "tapa/device.h"
#include "transport/shm_buffers.hpp"
#include "world/drop_in.hpp"
#include "world/process_options.hpp"
#include "world/watched.hpp"

namespace tapa {

namespace {

/// What each rank tells. Zero in the fields of rank 0 on all others: the bits of all ranks are put together.
struct Word {
  static constexpr std::uint64_t kHere = 1;      // always: not 0 once it has come
  static constexpr std::uint64_t kGpu = 2;       // the process uses a GPU
  static constexpr std::uint64_t kOtherGpu = 4;  // through another driver than CUDA's
  static constexpr std::uint64_t kNoWorld = 8;   // it knows no world that these ranks are of
  static constexpr std::uint64_t kFailed = 16;   // it has no memory for what it needs
  std::uint64_t flags = kHere;
  // Of rank 0: what it has taken for the communicator.
  std::uint32_t context = 0;  // and 1 more; 0: there is none
  std::uint32_t serial = 0;
  ArenaRegion region;
  std::uint64_t results = 0;  // bytes of what it knows of such communicators
};
constexpr int kNumbers = sizeof(Word) / sizeof(std::uint64_t);
static_assert(sizeof(Word) == kNumbers * sizeof(std::uint64_t));

std::uint64_t own_gpu_flags() {
  const GpuUse use = gpu_use();
  if (use == GpuUse::none) return 0;
  return Word::kGpu | (use == GpuUse::cuda ? 0 : Word::kOtherGpu);
}

/// `flags`: of all ranks.
void note_gpus(MPI_Comm user, std::uint64_t flags, Membership& membership, const JointSteps& steps) {
  DeviceFacts& facts = membership.device;
  facts = {};
  facts.in_use = (flags & Word::kGpu) != 0;
  if (!facts.in_use) return;
  facts.cuda_only = (flags & Word::kOtherGpu) == 0;
  facts.mpi_takes = facts.built = true;
  std::map<std::uint64_t, int> nodes;
  for (const int r : membership.in_world) {
    const Hello& h = membership.world->hello(r);
    facts.mpi_takes = facts.mpi_takes && h.mpi_takes != 0;
    facts.built = facts.built && h.has_engine != 0;
    facts.ranks_of_node = std::max(facts.ranks_of_node, ++nodes[h.device_node]);
  }
  facts.nodes = static_cast<int>(nodes.size());
  facts.ranks = static_cast<int>(membership.in_world.size());
  facts.most_ranks = TAPA_DEVICE_MAX_RANKS;
  facts.most_joined = device::kMaxTokens;
  membership.gpu_rank = gpu_use() != GpuUse::none ? rank_in(user) : facts.ranks;
  steps.meet();
  check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &membership.gpu_rank, 1, MPI_INT, MPI_MIN, user), "MPI_Allreduce");
  // Where the options of today or of later may ask for it. Alike on all ranks.
  if (decide_device_way(facts, Settings{}).way != DeviceWay::engine) return;
  const int code = make_private_comm(user, membership.world->comm, static_cast<int>(*membership.context),
                                     &membership.device_comm);
  facts.has_comm = on_all_ranks(user, code == MPI_SUCCESS);
  if (!facts.has_comm) membership.device_comm = MPI_COMM_NULL;
}

/// One set-up, step by step.
class Joining {
 public:
  explicit Joining(MPI_Comm user) : user_(user), rank_(rank_in(user)), size_(size_of(user)) {}
  ~Joining() {
    if (result_.context) {
      leave_world(result_, rank_, result_.region.rounds);
    } else {
      take_back();
    }
    if (result_.device_comm != MPI_COMM_NULL) PMPI_Comm_free(&result_.device_comm);
  }
  Joining(const Joining&) = delete;
  Joining& operator=(const Joining&) = delete;

  Membership run(std::vector<int> in_world, JointSteps& steps) {
    try {
      prepare(std::move(in_world));
    } catch (const std::bad_alloc&) {
      if (!is_drop_in()) refuse();
      throw;
    }
    agree();
    if (!is_drop_in()) steps.begin(user_);
    if ((word_.flags & Word::kFailed) != 0) throw FailedElsewhere();
    if ((word_.flags & Word::kNoWorld) != 0) make_world(steps);
    take(steps);
    return finish();
  }
  /// The first number and the first units were reserved for it.
  Membership run_as_whole(std::shared_ptr<World> world) {
    std::vector<int> ranks(static_cast<std::size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    place(std::move(world), std::move(ranks));
    word_.context = 1;
    if (shares_memory()) word_.region.count = static_cast<std::uint32_t>(size_);
    if (!results_file(*result_.world->shared.options).empty()) {  // nothing was found in this process yet
      recall_results();
      check_mpi(PMPI_Bcast(&word_.results, 1, MPI_UINT64_T, 0, user_), "MPI_Bcast");
    }
    take({});
    return finish();
  }
  /// Tells the others that this rank cannot even begin.
  void refuse() {
    word_.flags |= Word::kFailed;
    agree();
  }

 private:
  void prepare(std::vector<int> in_world) {
    static_cast<void>(own_options());  // for who waits
    std::shared_ptr<World> world = World::of_process();
    if (world && in_world.empty()) in_world = world->ranks_of(user_);
    if (world &&
        std::ranges::find(in_world, MPI_UNDEFINED) == in_world.end()) {  // the process's has all of them
      place(std::move(world), std::move(in_world));
      offer();
    } else {
      word_.flags |= Word::kNoWorld;
    }
    word_.flags |= own_gpu_flags();
  }
  Membership finish() {
    word_ = {};
    return std::exchange(result_, Membership{});
  }
  void place(std::shared_ptr<World> world, std::vector<int> in_world) {
    result_.in_world = std::move(in_world);
    result_.on_node.clear();
    result_.one_node = true;
    for (const int r : result_.in_world) {
      const bool near = world->number_of(r) >= 0;
      result_.on_node.push_back(near && world->arena ? world->number_of(r) : -1);
      result_.one_node = result_.one_node && near;
    }
    result_.world = std::move(world);
  }
  /// Not under the drop-in: its world is made in MPI_Init, or never.
  void make_world(const JointSteps& steps) {
    const std::uint64_t gpus = word_.flags & (Word::kGpu | Word::kOtherGpu);
    take_back();
    if (is_drop_in()) throw SetupError(MPI_ERR_COMM, "some rank is of another job");
    std::shared_ptr<World> world = World::make(user_, steps);
    const bool whole = size_of(MPI_COMM_WORLD) == size_ && is_of_this_world(user_);
    steps.meet();  // all have it, or none
    if (whole && !World::of_process()) World::set_of_process(world);
    std::vector<int> ranks = world->ranks_of(user_);
    place(std::move(world), std::move(ranks));
    word_ = {};
    offer();
    steps.meet();
    check_mpi(PMPI_Bcast(&word_, kNumbers, MPI_UINT64_T, 0, user_), "MPI_Bcast");
    word_.flags |= gpus;
  }
  /// What rank 0 takes for all.
  void offer() {
    if (rank_ != 0) return;
    const auto context = result_.world->take_context();
    if (!context) return;
    static std::atomic<std::uint32_t> serial{0};
    word_.context = *context + 1;
    word_.serial = ++serial;
    recall_results();
    if (!shares_memory()) return;
    word_.region = result_.world->arena->take(static_cast<std::size_t>(size_)).value_or(ArenaRegion{});
  }
  void take_back() {
    if (rank_ != 0 || word_.context == 0 || !result_.world) return;
    result_.world->give_context(word_.context - 1);
    if (word_.region.count > 0) result_.world->arena->give_back(word_.region);
    word_.context = word_.region.count = 0;
  }
  /// Under the drop-in all know their world and its options: rank 0's word is enough, but for GPUs.
  void agree() {
    if (is_drop_in() && result_.world && result_.world->shared.options->settings().timeout <= 0) {
      if (!result_.world->sees_gpus)
        return check_mpi(PMPI_Bcast(&word_, kNumbers, MPI_UINT64_T, 0, user_), "MPI_Bcast");
      check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &word_, kNumbers, MPI_UINT64_T, MPI_BOR, user_),
                "MPI_Allreduce");
      return;
    }
    // On the stack, if they are not very many: a rank without memory comes here, too, and says nothing.
    std::array<Word, 1024> few;
    std::vector<Word> many(rank_ == 0 && size_ > 1024 ? static_cast<std::size_t>(size_) : 0);
    const std::span<Word> all = many.empty() ? std::span(few) : std::span(many);
    const bool says = (word_.flags & Word::kFailed) == 0;
    if (hear_all(word_, &Word::flags, all, user_, says))
      for (const Word& theirs : all.first(static_cast<std::size_t>(size_))) word_.flags |= theirs.flags;
    tell_all(&word_, sizeof word_, user_, says);
  }
  void take(const JointSteps& steps) {
    if (word_.context == 0)
      throw SetupError(MPI_ERR_OTHER, "no message tags are left: too many communicators live");
    result_.context = word_.context - 1;
    result_.serial = word_.serial;
    result_.region = word_.region;
    note_gpus(user_, word_.flags, result_, steps);
    // What competitions on such communicators have found, in this process or in earlier runs.
    if (word_.results > 0) {
      result_.results.resize(word_.results);
      steps.meet();
      check_mpi(PMPI_Bcast(result_.results.data(), static_cast<int>(word_.results), MPI_CHAR, 0, user_),
                "MPI_Bcast");
    }
  }
  void recall_results() {
    if (rank_ != 0 || size_ < 2 || !result_.world->shared.options->settings().adapt) return;
    result_.results = results_for(*result_.world->shared.options, size_);
    word_.results = result_.results.size();
  }
  [[nodiscard]] bool shares_memory() const {
    return result_.one_node && result_.world->arena && size_ > 1 &&
           static_cast<std::size_t>(size_) <= ShmBuffers::kMostMembers;
  }

  MPI_Comm user_;
  int rank_;
  int size_;
  Word word_;
  Membership result_;
};

}  // namespace

MessageSpace Membership::space() const {
  const int tags = world->tags_of_context();
  return {world->comm, in_world, on_node, static_cast<int>(*context) * tags, tags};
}

Membership join_world(MPI_Comm user, std::vector<int> in_world, JointSteps& steps) {
  return Joining(user).run(std::move(in_world), steps);
}

void refuse_to_join(MPI_Comm user) {
  Joining(user).refuse();
}

Membership join_as_whole(const std::shared_ptr<World>& world) {
  return Joining(MPI_COMM_WORLD).run_as_whole(world);
}

void ask_for_gpus(MPI_Comm user, Membership& membership) {
  std::uint64_t flags = own_gpu_flags();
  check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &flags, 1, MPI_UINT64_T, MPI_BOR, user), "MPI_Allreduce");
  note_gpus(user, flags, membership, {});
}

void leave_world(Membership& membership, int rank, std::uint64_t rounds) {
  if (!membership.world || !membership.context) return;
  if (membership.world->arena) membership.world->arena->leave(std::exchange(membership.region, {}), rounds);
  if (rank == 0) membership.world->give_context(*membership.context);
  membership.context.reset();
}

std::string gpu_message(int rank, const std::string& why) {
  return words("rank ", rank,
               " uses a GPU, so buffers may be in its memory (TAPA_GPU=host promises that none is); ", why);
}

}  // namespace tapa
