#include "comm/setup.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "run/error.hpp"
#include "run/log.hpp"
#include "topology/detect.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"

extern char** environ;

namespace tapa {

namespace {

// First byte of what rank 0 shares: whether options or the reason why there are none follow.
constexpr char kGood = '+';
constexpr char kBad = '-';

// What every rank must be able to do: open the memory that the others share, read all their memory.
constexpr int kShares = 1;
constexpr int kAttaches = 2;

/// Ranks with the same number can open each other's shared memory: same boot of the same kernel, same host
/// name, same process numbers.
std::uint64_t host_number() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  char processes[64] = {};
  if (readlink("/proc/self/ns/pid", processes, sizeof processes - 1) < 0) processes[0] = '\0';
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
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
std::optional<ShmSegment> own_segment(int ranks) {
  std::string why;
  auto segment = ShmSegment::create(ranks, ShmNode::extra_bytes(), why);
  if (!segment) log_info("no shared memory: " + why);
  return segment;
}

/// Whether Open MPI's TCP transport was told to use one interface, by hand or by the drop-in.
bool has_one_rail() {
  const char* include = std::getenv("OMPI_MCA_btl_tcp_if_include");
  return include != nullptr && *include != '\0' && std::strchr(include, ',') == nullptr;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw CallError(MPI_ERR_ARG, "option \"tuning\" is \"" + path + "\", expected a file that can be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The topology that option "topology" asks for. The option describes the whole job, so that a program's
/// sub-communicators get their part of it; where processes of other jobs are among them it describes these
/// ranks.
Topology topology_asked_for(const std::string& text, MPI_Comm comm) {
  int size = 0;
  int world_size = 0;
  PMPI_Comm_size(comm, &size);
  PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> in_world(ranks.size());
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  const int code = PMPI_Group_translate_ranks(group, size, ranks.data(), world, in_world.data());
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  check_mpi(code, "MPI_Group_translate_ranks");
  if (std::ranges::find(in_world, MPI_UNDEFINED) != in_world.end()) return override_topology(text, size);
  return override_topology(text, world_size).subset(in_world);
}

/// One part of several in a string: its length, a colon, its bytes.
std::string framed(const std::string& part) {
  return std::to_string(part.size()) + ":" + part;
}

std::string take_framed(std::string_view& from) {
  const std::size_t colon = from.find(':');
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(from.data(), from.data() + std::min(colon, from.size()), length);
  if (colon == std::string_view::npos || error != std::errc() || length > from.size() - colon - 1) {
    throw CallError(MPI_ERR_INTERN, "what rank 0 shares is cut short");
  }
  const std::string part(from.substr(colon + 1, length));
  from.remove_prefix(colon + 1 + length);
  return part;
}

/// Rank 0's options, tuning file and topology; or why they cannot be had.
std::string shared_part(MPI_Comm comm) {
  try {
    const Options options = environment_options();
    const std::string& topology = options.settings().topology;
    const std::string& path = options.settings().tuning;
    return kGood + framed(options.serialize()) + framed(path.empty() ? std::string() : read_file(path)) +
           framed(topology.empty() ? std::string() : write_topology(topology_asked_for(topology, comm)));
  } catch (const std::exception& e) {
    return kBad + std::string(e.what());
  }
}

void read_shared_part(const std::string& shared, Agreement& into) {
  if (shared.empty() || shared[0] != kGood) {
    throw CallError(MPI_ERR_ARG, shared.empty() ? std::string("rank 0 sent no options") : shared.substr(1),
                    CallError::Seen::everywhere);
  }
  std::string_view rest = std::string_view(shared).substr(1);
  into.options = Options::deserialize(take_framed(rest));
  into.tuning = take_framed(rest);
  into.topology = take_framed(rest);
}

}  // namespace

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

Setup::Setup(MPI_Comm user) {
  check_mpi(PMPI_Comm_rank(user, &rank_), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(user, &size_), "MPI_Comm_size");
  check_mpi(PMPI_Comm_idup(user, &result_.comm, &request_), "MPI_Comm_idup");
  // Local work while the others arrive.
  const std::string shared = rank_ == 0 ? shared_part(user) : std::string();
  segment_ = own_segment(size_);
  const std::string token = segment_ ? segment_->token() : std::string();
  const std::string& record = own_record();
  header_ = {shared.size(), token.size(), record.size(), host_number(), has_one_rail() ? 1U : 0U,
             own_cores()};
  mine_ = shared + token + record;
}

Setup::~Setup() {
  // Only an abandoned setup gets here with a request; its buffers must outlive it.
  if (request_ != MPI_REQUEST_NULL) PMPI_Wait(&request_, MPI_STATUS_IGNORE);
  if (result_.comm != MPI_COMM_NULL) PMPI_Comm_free(&result_.comm);
}

bool Setup::advance() {
  while (stage_ != Stage::done) {
    int complete = 0;
    check_mpi(PMPI_Test(&request_, &complete, MPI_STATUS_IGNORE), "setup of the communicator");
    if (complete == 0) return false;
    switch (stage_) {
      case Stage::duplicate:
        start_sizes();
        break;
      case Stage::sizes:
        start_records();
        break;
      case Stage::records:
        take_records();
        break;
      default:
        judge_memory();
    }
  }
  return true;
}

void Setup::start_sizes() {
  stage_ = Stage::sizes;
  check_mpi(PMPI_Comm_set_errhandler(result_.comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  headers_.resize(static_cast<std::size_t>(size_));
  check_mpi(PMPI_Iallgather(&header_, sizeof header_, MPI_BYTE, headers_.data(), sizeof header_, MPI_BYTE,
                            result_.comm, &request_),
            "MPI_Iallgather");
}

void Setup::start_records() {
  stage_ = Stage::records;
  std::uint64_t total = 0;
  for (const Header& h : headers_) {
    displs_.push_back(static_cast<int>(total));
    counts_.push_back(static_cast<int>(h.shared_bytes + h.token_bytes + h.record_bytes));
    total += h.shared_bytes + h.token_bytes + h.record_bytes;
    if (total > 0x7fffffff) throw CallError(MPI_ERR_INTERN, "descriptions of all ranks exceed 2 GiB");
  }
  all_.resize(total);
  check_mpi(PMPI_Iallgatherv(mine_.data(), static_cast<int>(mine_.size()), MPI_BYTE, all_.data(),
                             counts_.data(), displs_.data(), MPI_BYTE, result_.comm, &request_),
            "MPI_Iallgatherv");
}

/// None when there are more than fit: then it is not known.
Setup::Cores Setup::own_cores() {
  Cores cores{};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::size_t core = 0; core < std::min<std::size_t>(CPU_SETSIZE, 64 * cores.size()); ++core) {
    if (CPU_ISSET(core, &set)) cores[core / 64] |= std::uint64_t{1} << core % 64;
  }
  return cores;
}

void Setup::take_records() {
  stage_ = Stage::done;
  result_.ranks_on_host = 0;
  Cores cores{};
  std::vector<std::string> tokens;
  for (std::size_t r = 0; r < headers_.size(); ++r) {
    const Header& h = headers_[r];
    std::size_t at = static_cast<std::size_t>(displs_[r]) + h.shared_bytes;
    tokens.push_back(all_.substr(at, h.token_bytes));
    result_.records.push_back(all_.substr(at + h.token_bytes, h.record_bytes));
    if (h.host != header_.host) continue;
    ++result_.ranks_on_host;
    std::ranges::transform(cores, h.cores, cores.begin(), std::bit_or());
  }
  result_.cores_on_host = std::transform_reduce(cores.begin(), cores.end(), 0, std::plus(),
                                                [](std::uint64_t bits) { return std::popcount(bits); });
  if (result_.cores_on_host == 0) result_.cores_on_host = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  result_.one_rail = headers_[0].one_rail != 0;
  read_shared_part(all_.substr(0, headers_[0].shared_bytes), result_);
  all_.clear();
  // Each of these is the same on all ranks.
  const bool wanted = result_.options.settings().shm_limit > 0;
  const bool possible = std::ranges::none_of(tokens, &std::string::empty);
  if (wanted && possible && size_ > 1) connect_memory(tokens);
}

void Setup::connect_memory(const std::vector<std::string>& tokens) {
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
  memory_works_ = result_.node ? kShares | (result_.node->can_attach() ? kAttaches : 0) : 0;
  stage_ = Stage::memory;
  check_mpi(PMPI_Iallreduce(MPI_IN_PLACE, &memory_works_, 1, MPI_INT, MPI_BAND, result_.comm, &request_),
            "MPI_Iallreduce");
}

/// Each rank may have a threshold of its own: a block's way is its sender's decision.
std::size_t Setup::attach_from() const {
  const std::size_t wanted = result_.options.settings().attach_from;
  if (result_.options.origin("attach-from") != Origin::standard) return wanted;
  // Measured with 4 and 16 ranks on 2 cores: to wait until all readers had a core costs more than a second
  // copy.
  if (result_.ranks_on_host > result_.cores_on_host) return 2 * wanted;
  // Measured with 64 ranks on 64 cores: shorter blocks are slow as well when a slot does not hold one for
  // each member.
  const std::size_t half = wanted / 2;
  return half * static_cast<std::size_t>(result_.ranks_on_host - 1) < ShmBuffers::kSlotBytes ? wanted : half;
}

void Setup::judge_memory() {
  stage_ = Stage::done;
  if ((memory_works_ & kShares) == 0) {
    result_.node.reset();
    return;
  }
  const bool attach = (memory_works_ & kAttaches) != 0;
  if (!attach && rank_ == 0) log_info("no cross-memory attach: the kernel refuses it to some rank");
  result_.node->agreed(attach, attach_from());
}

Agreement Setup::take() {
  return std::exchange(result_, Agreement{});
}

}  // namespace tapa
