#include "comm/setup.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "comm/device_calls.hpp"
#include "comm/duplications.hpp"
#include "comm/shared_options.hpp"
#include "device/places.hpp"
#include "device/tokens.hpp"
#include "run/device_memory.hpp"
#include "run/log.hpp"
#include "run/private_comm.hpp"
#include "run/progress.hpp"
#include "tapa/tapa.h"
#include "topology/detect.hpp"
#include "topology/sysfs.hpp"

// POSIX leaves its declaration to programs; NOLINTNEXTLINE(readability-redundant-declaration)
extern char** environ;

namespace tapa {

namespace {

// What every rank must be able to do: open the memory that the others share, read all their memory.
constexpr int kShares = 1;
constexpr int kAttaches = 2;

// Ranks that speak another version of this agreement show another number. Never 0: that is a rank from which
// nothing has come yet.
constexpr std::uint64_t kMagic = 0x7461706100000007;

constexpr std::uint64_t kVersion = TAPA_VERSION_MAJOR << 16 | TAPA_VERSION_MINOR << 8 | TAPA_VERSION_PATCH;

/// Ranks with the same number can open each other's shared memory: same boot of the same kernel, same host
/// name, same process numbers.
std::uint64_t host_number() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  char processes[64] = {};
  if (readlink("/proc/self/ns/pid", processes, sizeof processes - 1) < 0) processes[0] = '\0';
  const std::string boot = read_line("/proc/sys/kernel/random/boot_id");
  return std::hash<std::string>{}(std::string(name) + "/" + processes + "/" + boot);
}

/// This rank's description of its place; made once, as it does not change. Empty when detection failed.
const std::string& own_record() {
  static const auto* const record = [] {  // never destroyed: calls may come from destructors of globals
    try {
      return new std::string(local_record());
    } catch (const std::exception& e) {
      log_warn(std::string("detection failed, the machine is taken as flat: ") + e.what());
      return new std::string;
    }
  }();
  return *record;
}

/// This rank's shared memory.
std::optional<ShmSegment> own_segment() {
  std::string why;
  auto segment = ShmSegment::create(why);
  if (!segment) log_info("no shared memory: " + why);
  return segment;
}

/// Whether Open MPI's TCP transport was told to use one interface, by hand or by the drop-in.
bool has_one_rail() {
  const char* include = std::getenv("OMPI_MCA_btl_tcp_if_include");
  return include != nullptr && *include != '\0' && std::strchr(include, ',') == nullptr;
}

/// How many ranks the launcher has started on this host; 0 when it does not say.
int ranks_started_here() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return 0;
}

using Cores = std::array<std::uint64_t, 16>;  // a bit for each processor

/// Where this process may run. None when there are more than fit: then it is not known.
Cores own_cores() {
  Cores cores{};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::size_t core = 0; core < std::min<std::size_t>(CPU_SETSIZE, 64 * cores.size()); ++core) {
    if (CPU_ISSET(core, &set)) cores[core / 64] |= std::uint64_t{1} << core % 64;
  }
  return cores;
}

struct Header {  // what each rank tells first
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t has_progress;
  std::uint64_t shared_bytes;  // rank 0: packed options; others: 0
  std::uint64_t token_bytes;   // how others open this rank's shared memory; 0: it has none
  std::uint64_t record_bytes;
  std::uint64_t host;         // same number = same host
  std::uint64_t device_node;  // and a node for buffers in GPU memory
  std::uint64_t one_rail;     // rank 0: see Agreement
  std::uint64_t gpu;          // GpuUse
  std::uint64_t has_engine;   // for buffers in GPU memory
  std::uint64_t mpi_takes;    // such buffers
  std::uint64_t duplicates;   // it may have MPI_Comm_idup under way
  Cores cores;                // where this rank may run
};

std::string version_text(std::uint64_t version) {
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff) + "." +
         std::to_string(version & 0xff);
}

/// One agreement, step by step.
class Setup {
 public:
  explicit Setup(MPI_Comm user);
  ~Setup() {
    if (result_.device_comm != MPI_COMM_NULL) PMPI_Comm_free(&result_.device_comm);
    if (result_.comm != MPI_COMM_NULL) PMPI_Comm_free(&result_.comm);
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  Agreement run(bool defers);

 private:
  void tell_headers();
  void watch(MPI_Request& request) const;
  void check_versions() const;
  void make_comm();
  void tell_records();
  void take_records(const std::string& all, const std::vector<int>& displs);
  void note_gpus();
  void make_device_comm();
  void count_cores();
  void share_memory(const std::vector<std::string>& tokens);
  [[nodiscard]] std::size_t attach_from() const;

  MPI_Comm user_;
  int rank_ = 0;
  int size_ = 0;
  std::optional<ShmSegment> segment_;
  std::string mine_;  // what follows the header
  Header header_{};
  std::vector<Header> headers_;
  Agreement result_;
};

Setup::Setup(MPI_Comm user) : user_(user) {
  check_mpi(PMPI_Comm_rank(user, &rank_), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(user, &size_), "MPI_Comm_size");
  const std::string shared = rank_ == 0 ? pack_options(user) : std::string();
  if (size_ > 1) segment_ = own_segment();
  const std::string token = segment_ ? segment_->token() : std::string();
  const std::string& record = own_record();
  header_ = {kMagic,
             kVersion,
             Progress::instance().always_advances() ? 1U : 0U,
             shared.size(),
             token.size(),
             record.size(),
             host_number(),
             std::hash<std::string>{}(device::own_node()),
             has_one_rail() ? 1U : 0U,
             static_cast<std::uint64_t>(gpu_use()),
             has_device_engine() ? 1U : 0U,
             mpi_takes_device_memory() ? 1U : 0U,
             may_be_duplicating() ? 1U : 0U,
             own_cores()};
  mine_ = shared + token + record;
}

Agreement Setup::run(bool defers) {
  tell_headers();
  check_versions();
  const auto duplicates = [](const Header& h) { return h.duplicates != 0; };
  if (defers && std::ranges::any_of(headers_, duplicates)) throw SetupDeferred();
  make_comm();
  tell_records();
  make_device_comm();
  return std::exchange(result_, Agreement{});
}

/// Nonblocking, so that it can be told who is missing.
void Setup::tell_headers() {
  headers_.resize(static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(PMPI_Iallgather(&header_, sizeof header_, MPI_BYTE, headers_.data(), sizeof header_, MPI_BYTE,
                            user_, &request),
            "MPI_Iallgather");
  if (own_timeout() > 0) watch(request);
  check_mpi(PMPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Iallgather");
}

/// Says now and then whose header has not come.
void Setup::watch(MPI_Request& request) const {
  using namespace std::chrono_literals;
  const double began = PMPI_Wtime();
  double next = own_timeout();
  for (int complete = 0; complete == 0; std::this_thread::sleep_for(20us)) {
    check_mpi(PMPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Iallgather");
    const double age = PMPI_Wtime() - began;
    if (complete != 0 || age < next) continue;
    next = 2 * age;
    std::string missing;
    for (int r = 0; r < size_; ++r) {
      if (r != rank_ && headers_[static_cast<std::size_t>(r)].magic == 0)
        missing += (missing.empty() ? "rank " : ", ") + std::to_string(r);
    }
    char text[64];
    std::snprintf(text, sizeof text, "set-up unfinished after %.1f s: ", age);
    print_line(text + ("waits for the other ranks of the communicator to make their first call: " + missing));
  }
}

void Setup::check_versions() const {
  for (std::size_t r = 0; r < headers_.size(); ++r) {
    const Header& h = headers_[r];
    if (h.magic == headers_[0].magic && h.version == headers_[0].version) continue;
    throw SetupError(MPI_ERR_OTHER, "rank " + std::to_string(r) + " has libtapa " + version_text(h.version) +
                                        ", rank 0 has " + version_text(headers_[0].version) +
                                        ", expected the same on all ranks");
  }
}

void Setup::make_comm() {
  check_mpi(make_private_comm(user_, &result_.comm), "MPI_Comm_create");
}

void Setup::tell_records() {
  std::vector<int> counts;
  std::vector<int> displs;
  std::uint64_t total = 0;
  for (const Header& h : headers_) {
    displs.push_back(static_cast<int>(total));
    counts.push_back(static_cast<int>(h.shared_bytes + h.token_bytes + h.record_bytes));
    total += h.shared_bytes + h.token_bytes + h.record_bytes;
    if (total > 0x7fffffff) throw SetupError(MPI_ERR_INTERN, "descriptions of all ranks exceed 2 GiB");
  }
  std::string all(total, '\0');
  check_mpi(PMPI_Allgatherv(mine_.data(), static_cast<int>(mine_.size()), MPI_BYTE, all.data(), counts.data(),
                            displs.data(), MPI_BYTE, result_.comm),
            "MPI_Allgatherv");
  take_records(all, displs);
}

void Setup::take_records(const std::string& all, const std::vector<int>& displs) {
  std::vector<std::string> tokens;
  for (std::size_t r = 0; r < headers_.size(); ++r) {
    const Header& h = headers_[r];
    const std::size_t at = static_cast<std::size_t>(displs[r]) + h.shared_bytes;
    tokens.push_back(all.substr(at, h.token_bytes));
    result_.records.push_back(all.substr(at + h.token_bytes, h.record_bytes));
  }
  count_cores();
  result_.one_rail = headers_[0].one_rail != 0;
  result_.has_progress = std::ranges::all_of(headers_, [](const Header& h) { return h.has_progress != 0; });
  note_gpus();
  SharedOptions shared = unpack_options(all.substr(0, headers_[0].shared_bytes));
  result_.options = std::make_shared<const Options>(std::move(shared.options));
  result_.tuning = std::move(shared.tuning);
  result_.topology = std::move(shared.topology);
  result_.learnt = std::move(shared.learnt);
  // Each of these is the same on all ranks.
  const bool wanted = result_.options->settings().shm_limit > 0;
  const bool possible = std::ranges::none_of(tokens, &std::string::empty);
  if (wanted && possible && size_ > 1) share_memory(tokens);
}

void Setup::note_gpus() {
  const auto gpu = std::ranges::find_if(headers_, [](const Header& h) { return h.gpu != 0; });
  if (gpu != headers_.end()) result_.gpu_rank = static_cast<int>(gpu - headers_.begin());
  constexpr auto others = static_cast<std::uint64_t>(GpuUse::others);
  const auto all = [&](const auto& holds) { return std::ranges::all_of(headers_, holds); };
  DeviceFacts& facts = result_.device;
  facts.in_use = gpu != headers_.end();
  facts.cuda_only = all([](const Header& h) { return h.gpu != others; });
  facts.mpi_takes = all([](const Header& h) { return h.mpi_takes != 0; });
  facts.built = all([](const Header& h) { return h.has_engine != 0; });
  std::map<std::uint64_t, int> nodes;
  for (const Header& h : headers_)
    facts.ranks_of_node = std::max(facts.ranks_of_node, ++nodes[h.device_node]);
  facts.nodes = static_cast<int>(nodes.size());
  facts.ranks = size_;
  facts.most_ranks = TAPA_DEVICE_MAX_RANKS;
  facts.most_joined = device::kMaxTokens;
}

/// Where the options of today or of later may ask for it. Alike on all ranks.
void Setup::make_device_comm() {
  if (decide_device_way(result_.device, Settings{}).way != DeviceWay::engine) return;
  check_mpi(make_private_comm(user_, &result_.device_comm), "MPI_Comm_create");
}

void Setup::count_cores() {
  result_.ranks_on_host = 0;
  Cores cores{};
  for (const Header& h : headers_) {
    if (h.host != header_.host) continue;
    ++result_.ranks_on_host;
    std::ranges::transform(cores, h.cores, cores.begin(), std::bit_or());
  }
  const auto online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  int usable = std::transform_reduce(cores.begin(), cores.end(), 0, std::plus(),
                                     [](std::uint64_t bits) { return std::popcount(bits); });
  if (usable == 0) usable = online;
  // A small communicator does not see the ranks beside it.
  result_.crowded = result_.ranks_on_host > usable || ranks_started_here() > online;
}

void Setup::share_memory(const std::vector<std::string>& tokens) {
  std::vector<int> members;
  std::vector<std::string> theirs;
  for (int r = 0; r < size_; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (headers_[at].host != header_.host) continue;
    members.push_back(r);
    theirs.push_back(tokens[at]);
  }
  std::string why;
  result_.node = ShmNode::connect(std::move(*segment_), rank_, size_, members, theirs, why);
  if (!result_.node) log_info("no shared memory: " + why);
  int works = result_.node ? kShares | (result_.node->can_attach() ? kAttaches : 0) : 0;
  check_mpi(PMPI_Allreduce(MPI_IN_PLACE, &works, 1, MPI_INT, MPI_BAND, result_.comm), "MPI_Allreduce");
  if ((works & kShares) == 0) {
    result_.node.reset();
    return;
  }
  const bool attach = (works & kAttaches) != 0;
  if (!attach && rank_ == 0) log_info("no cross-memory attach: the kernel refuses it to some rank");
  result_.node->agreed(attach, attach_from());
}

/// Each rank may have a threshold of its own: a block's way is its sender's decision.
std::size_t Setup::attach_from() const {
  const std::size_t wanted = result_.options->settings().attach_from;
  if (result_.options->origin("attach-from") != Origin::standard) return wanted;
  // Measured with 4 and 16 ranks on 2 cores: to wait until all readers had a core costs more than a second
  // copy.
  if (result_.crowded) return 2 * wanted;
  // Measured with 64 ranks on 64 cores: shorter blocks are slow as well when a buffer does not hold one for
  // each member.
  const std::size_t half = wanted / 2;
  return half * static_cast<std::size_t>(result_.ranks_on_host - 1) < ShmBuffers::kBufferBytes ? wanted
                                                                                               : half;
}

}  // namespace

std::string gpu_message(int rank, const std::string& why) {
  return "rank " + std::to_string(rank) +
         " uses a GPU, so buffers may be in its memory (TAPA_GPU=host promises that none is); " + why;
}

Options environment_options() {
  std::vector<std::string> warnings;
  try {
    Options options = Options::from_environment(environ, warnings);
    static std::once_flag once;
    std::call_once(once, [&] {
      set_log_level(options.settings().log);
      int rank = 0;  // once in the job is enough
      PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
      if (rank != 0) return;
      for (const std::string& warning : warnings) log_warn(warning);
    });
    return options;
  } catch (const std::invalid_argument& e) {
    throw CallError(MPI_ERR_ARG, e.what());
  }
}

Check own_check() {
  static const Check check = [] {
    try {
      return environment_options().settings().check;
    } catch (const CallError&) {
      return Settings{}.check;
    }
  }();
  return check;
}

double own_timeout() {
  static const double seconds = [] {
    try {
      return environment_options().settings().timeout;
    } catch (const CallError&) {
      return 0.0;
    }
  }();
  return seconds;
}

Agreement agree_on_setup(MPI_Comm user, bool defers) {
  // A program's threads may have little stack, and nothing takes more of it than detection.
  static_cast<void>(own_record());
  return std::make_unique<Setup>(user)->run(defers);
}

}  // namespace tapa
