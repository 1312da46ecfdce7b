#include "agreement.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "handles.hpp"
#include "library.hpp"
#include "mpi_as_passed.hpp"
#include "next.hpp"
#include "options.hpp"
#include "series.hpp"
#include "text.hpp"

namespace tapa::preload {

namespace {

constexpr long long kMagic = 0x7461706144726f70;  // "tapaDrop"
constexpr long long kVersion = TAPA_VERSION_NUMBER;
constexpr int kTag = 32761;    // below the least MPI_TAG_UB
constexpr double kGrace = 2;   // seconds for the ranks that have the drop-in to say so
constexpr int kMostNamed = 8;  // ranks in a message

std::atomic<Verdict> agreed{Verdict::open};
std::array<bool, kFunctions> split{};  ///< functions not taken over on some ranks only; before the verdict
Handles mpi;                           ///< of the program's MPI; written before them

/// Why a rank cannot use libtapa.
enum Obstacle : int { no_libtapa, refused_mpi, lacking_mpi, kObstacles };

#define TAPA_PMPI(NAME) (reinterpret_cast<decltype(&P##NAME)>(next("P" #NAME)))

/// Whether the MPI has the handles of the MPI 5 standard. Libraries with handles of their own give -1.
bool has_standard_handles() {
  const auto ask = reinterpret_cast<int (*)(int*, int*)>(find_next("PMPI_Abi_get_version"));
  int major = -1;
  int minor = -1;
  return ask != nullptr && ask(&major, &minor) == MPI_SUCCESS && major > 0;
}

/// Also finds the handles of an MPI that is not foreign, and which libtapa serves it.
Judgement judge() {
  std::array<char, 8192> version{};  // MPICH's limit; Open MPI's is 256
  int length = 0;
  TAPA_PMPI(MPI_Get_library_version)(version.data(), &length);
  const bool standard = has_standard_handles();
  const Judgement judgement = judge_mpi(built_for, version.data(), standard);
  if (judgement.fit == Fit::foreign) return judgement;
  mpi = handles_of(standard ? Family::standard : parse_library_version(version.data()).family);
  if (standard) serve_standard();
  return judgement;
}

/// As launchers tell it: an MPI whose handles nobody knows cannot be asked. True where none does.
bool is_first_of_job() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* const value = secure_getenv(name);
    if (value != nullptr) return std::string_view(value) == "0";
  }
  return true;
}

/// Functions that libtapa needs, and that not every MPI of a compatible series has.
const char* lacking_function() {
  struct Function {
    const char* name;
    const char* other_name;  ///< that does as well, or null
  };
  static constexpr std::array<Function, 3> functions{{
      {"PMPI_Ialltoallw", nullptr},
#ifdef TAPA_HAVE_MPI_LARGE_COUNT
      {"PMPI_Alltoall_c", nullptr},
#endif
#ifdef TAPA_HAVE_MPIX_PERSISTENT
      {"PMPIX_Alltoall_init", "PMPI_Alltoall_init"},  // Open MPI 4, 5
#endif
  }};
  for (const auto& [name, other_name] : functions) {
    if (name == nullptr || find_next(name) != nullptr) continue;
    if (other_name == nullptr || find_next(other_name) == nullptr) return name;
  }
  return nullptr;
}

/// What a rank brings into the agreement. All are reduced to the least, which is the own one where all agree.
struct Ballot {
  static constexpr std::size_t kTakers = 5;
  std::array<long long, kTakers + 2 * kFunctions> words{};
  Ballot() = default;
  Ballot(int rank, int obstacle, const std::array<Taker, kFunctions>& takers)
      : words{kMagic, -kMagic, kVersion, -kVersion,
              obstacle == kObstacles ? std::numeric_limits<long long>::max()
                                     : static_cast<long long>(rank) * kObstacles + obstacle} {
    for (std::size_t f = 0; f < kFunctions; ++f) {
      words[kTakers + f] = static_cast<long long>(takers[f]);
      words[kTakers + kFunctions + f] = -words[kTakers + f];
    }
  }
  [[nodiscard]] bool same_everywhere() const {
    return words[0] == kMagic && words[1] == -kMagic && words[2] == kVersion && words[3] == -kVersion;
  }
  [[nodiscard]] bool all_can() const { return words[4] == std::numeric_limits<long long>::max(); }
  /// Whether the drop-in takes a function over on some ranks only.
  [[nodiscard]] bool splits(std::size_t f) const {
    return words[kTakers + f] == 0 && last_taker(f) != Taker::drop_in;
  }
  /// The greatest of all ranks.
  [[nodiscard]] Taker last_taker(std::size_t f) const {
    return static_cast<Taker>(-words[kTakers + kFunctions + f]);
  }
  [[nodiscard]] int first_rank_that_cannot() const { return static_cast<int>(words[4] / kObstacles); }
  [[nodiscard]] int obstacle() const { return static_cast<int>(words[4] % kObstacles); }
};

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void sleep(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec time{whole, static_cast<long>(1e9 * (seconds - static_cast<double>(whole)))};
  nanosleep(&time, nullptr);
}

/// Lets MPI move until `done` or for `limit` seconds. The others are usually there already, so polls come
/// first.
template <class Done>
bool wait(Done done, double limit) {
  const double begin = now();
  for (int poll = 0; !done(); ++poll) {
    if (now() - begin > limit) return false;
    if (poll < 1000) {
      sched_yield();
    } else {
      sleep(1e-4);
    }
  }
  return true;
}

bool completed(MPI_Request& request) {
  int flag = 0;
  TAPA_PMPI(MPI_Test)(&request, &flag, mpi.status_ignore);
  return flag != 0;
}

/// Ranks for a message, of which it names the first.
class RankList {
 public:
  void add(int rank) {
    if (number_ < kMostNamed) text_.add(number_ == 0 ? "" : ", ", rank);
    ++number_;
  }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] Line text() const {
    Line whole = number_ == 1 ? "rank " : "ranks ";
    whole += text_;
    if (number_ > kMostNamed) whole.add(" and ", number_ - kMostNamed, " more");
    return whole += " of MPI_COMM_WORLD";
  }

 private:
  Line text_;
  int number_ = 0;
};

[[noreturn]] void end_without(const RankList& ranks) {
  end_job(
      "%s %s not have the drop-in, others do: LD_PRELOAD was not passed on (mpirun -x LD_PRELOAD), or "
      "TAPA_ENABLE=0 is set there only",
      ranks.text().c_str(), ranks.number() == 1 ? "does" : "do");
}

/// What a rank tells rank 0.
struct Answer {
  std::array<long long, 2> words;  ///< kMagic, kVersion
  MPI_Request request;
  bool came;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

/// A rank that is not 0 tells it, and waits for it to end the job.
[[noreturn]] void tell_rank_0(int rank) {
  std::array<long long, 2> mine{kMagic, kVersion};
  MPI_Request request{};
  TAPA_PMPI(MPI_Isend)(mine.data(), 2, mpi.long_long, 0, kTag, mpi.world, &request);
  wait([&] { return completed(request); }, kGrace);
  // Or rank 0 is itself without the drop-in; then the others speak up one after the other.
  sleep(2 * kGrace + 0.5 * std::min(rank, 60));
  RankList first;
  first.add(0);
  end_without(first);
}

/// Waits for what all other ranks tell, for a while.
void listen(std::span<Answer> answers) {
  for (std::size_t r = 1; r < answers.size(); ++r) {
    TAPA_PMPI(MPI_Irecv)
    (answers[r].words.data(), 2, mpi.long_long, static_cast<int>(r), kTag, mpi.world, &answers[r].request);
  }
  const auto others_came = [&] {
    bool all = true;
    for (Answer& answer : answers.subspan(1)) {
      answer.came = answer.came || completed(answer.request);
      all = all && answer.came;
    }
    return all;
  };
  wait(others_came, kGrace);
}

/// Rank 0 ends the job with the names of those that are not there. Point to point, as a collective call is
/// never completed where ranks are missing.
[[noreturn]] void name_and_end(int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const std::unique_ptr<Answer[], Free> memory(static_cast<Answer*>(std::calloc(ranks, sizeof(Answer))));
  if (memory == nullptr) end_job("no memory to ask %d ranks whether they have the drop-in", size);
  const std::span<Answer> answers(memory.get(), ranks);
  listen(answers);
  RankList missing;
  RankList others;
  for (std::size_t r = 1; r < ranks; ++r) {
    if (!answers[r].came || answers[r].words[0] != kMagic) {
      missing.add(static_cast<int>(r));
    } else if (answers[r].words[1] != kVersion) {
      others.add(static_cast<int>(r));
    }
  }
  if (missing.number() > 0) end_without(missing);
  if (others.number() > 0)
    end_job("%s: another version of the drop-in than rank 0's, %s", others.text().c_str(), TAPA_VERSION);
  end_job("the ranks did not answer each other for %g s in MPI_Init (TAPA_TIMEOUT=0,SECONDS)",
          agree_timeout());
}

Ballot reduce(const Ballot& mine, int rank, int size) {
  Ballot all;
  MPI_Request request{};
  TAPA_PMPI(MPI_Iallreduce)
  (mine.words.data(), all.words.data(), static_cast<int>(mine.words.size()), mpi.long_long, mpi.minimum,
   mpi.world, &request);
  const double limit = agree_timeout();
  const bool ended =
      wait([&] { return completed(request); }, limit > 0 ? limit : std::numeric_limits<double>::infinity());
  if (ended && all.same_everywhere()) return all;
  if (rank != 0) tell_rank_0(rank);
  name_and_end(size);
}

/// Rank 0 tells why, as far as it knows of another rank.
void tell(const Ballot& all, const Judgement& judgement) {
  const int rank = all.first_rank_that_cannot();
  Line why;
  switch (all.obstacle()) {
    case no_libtapa:
      why.add("cannot read the ", libtapa_name(), " beside its drop-in (on rank 0 ", libtapa_file(), ")");
      if (judgement.fit == Fit::compatible) why.add("; ", judgement.why);
      break;
    case refused_mpi:
      why = judgement.fit == Fit::refused ? judgement.why
                                          : Line("runs an MPI that the drop-in was not built for");
      break;
    default: {
      const char* const name = lacking_function();
      why.add("runs an MPI that has no ", name != nullptr ? name : "PMPI_ function of the build's");
    }
  }
  say("rank %d of MPI_COMM_WORLD: %s; all-to-all stays with MPI on all ranks", rank, why.c_str());
}

/// The functions that are split so.
Line names_split_by(const Ballot& all, Taker taker) {
  Line names;
  for (std::size_t f = 0; f < kFunctions; ++f) {
    if (split[f] && all.last_taker(f) == taker) names.add(names.empty() ? "" : ", ", function_names()[f]);
  }
  return names;
}

void tell_split(const Ballot& all) {
  if (const Line names = names_split_by(all, Taker::tool); !names.empty())
    say("a tool behind the drop-in takes over %s on some ranks only; on all ranks that stays with MPI",
        names.c_str());
  if (const Line names = names_split_by(all, Taker::others); !names.empty())
    say("the drop-in of some ranks does not take over %s; on all ranks that stays with MPI", names.c_str());
}

int own_obstacle(const Judgement& judgement) {
  if (judgement.fit == Fit::refused) return refused_mpi;
  if (lacking_function() != nullptr) return lacking_mpi;
  return libtapa_is_there() ? kObstacles : no_libtapa;
}

int copy_nothing(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int at_end(MPI_Comm, int, void*, void*) {
  end_libtapa();
  return MPI_SUCCESS;
}

/// The first thing that MPI_Finalize does is to delete what hangs on MPI_COMM_SELF, the last first: what the
/// program hangs there comes before this, and may still use all that it has.
void hang_end() {
  int key = 0;
  if (TAPA_PMPI(MPI_Comm_create_keyval)(copy_nothing, at_end, &key, nullptr) != MPI_SUCCESS) return;
  TAPA_PMPI(MPI_Comm_set_attr)(mpi.self, key, nullptr);
  TAPA_PMPI(MPI_Comm_free_keyval)(&key);
}

}  // namespace

Verdict verdict() {
  return agreed.load(std::memory_order_acquire);
}

bool stays_with_mpi(const char* name) {
  const auto& names = function_names();
  const std::string_view called = *name == 'P' ? name + 1 : name;
  const auto found = std::ranges::find_if(names, [&](std::string_view one) { return one == called; });
  return found != names.end() && split[static_cast<std::size_t>(found - names.begin())];
}

void agree() {
  static std::atomic<bool> begun{false};
  if (begun.exchange(true)) return;
  const auto judgement = judge();
  if (judgement.fit == Fit::foreign) {
    if (is_first_of_job()) say("preload: %s; all-to-all stays with MPI", judgement.why.c_str());
    agreed.store(Verdict::mpi, std::memory_order_release);
    return;
  }
  int rank = 0;
  int size = 1;
  TAPA_PMPI(MPI_Comm_rank)(mpi.world, &rank);
  TAPA_PMPI(MPI_Comm_size)(mpi.world, &size);
  const Ballot mine(rank, own_obstacle(judgement), takers());
  const Ballot all = size > 1 ? reduce(mine, rank, size) : mine;
  const bool ours = all.all_can();
  for (std::size_t f = 0; f < kFunctions; ++f) split[f] = all.splits(f);
  if (rank == 0) ours ? tell_split(all) : tell(all, judgement);
  if (rank == 0 && judgement.fit == Fit::compatible) log_info("preload: %s", judgement.why.c_str());
  if (ours) hang_end();
  agreed.store(ours ? Verdict::libtapa : Verdict::mpi, std::memory_order_release);
  if (!ours || size == 1) return;
  load_libtapa();
  settle_functions();
}

void end_job(const char* format, ...) {
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  say("%s", text.data());
  sleep(0.2);  // MPICH's launcher may drop what it has not read yet when a job is aborted
  TAPA_PMPI(MPI_Abort)(mpi.world, 1);
  std::abort();
}

}  // namespace tapa::preload
