#include "api/setup.hpp"

#include <unistd.h>

#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "api/error.hpp"
#include "api/log.hpp"
#include "api/detection.hpp"

extern char** environ;

namespace tapa {

namespace {

// First byte of what rank 0 shares: whether options or the reason why there are none follow.
constexpr char kGood = '+';
constexpr char kBad = '-';

std::uint64_t host_number() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return std::hash<std::string>{}(name);
}

/// This rank's description of its place; made once, as it does not change. Empty when detection failed.
const std::string& own_record() {
  static const std::string record = [] {
    try {
      return local_record();
    } catch (const std::exception& e) {
      log_warn(std::string("detection failed, the machine is taken as flat: ") + e.what());
      return std::string();
    }
  }();
  return record;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(MPI_ERR_ARG, "option \"tuning\" is \"" + path + "\", expected a file that can be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Rank 0's options, then its tuning file; or why they cannot be had.
std::string shared_part() {
  try {
    const Options options = environment_options();
    const std::string text = options.serialize();
    const std::string& path = options.settings().tuning;
    return kGood + std::to_string(text.size()) + ":" + text +
           (path.empty() ? std::string() : read_file(path));
  } catch (const Error& e) {
    return kBad + std::string(e.what());
  }
}

void read_shared_part(const std::string& shared, Agreement& into) {
  if (shared.empty() || shared[0] != kGood) {
    throw Error(MPI_ERR_ARG, shared.empty() ? std::string("rank 0 sent no options") : shared.substr(1));
  }
  const std::size_t colon = shared.find(':');
  const std::size_t length = std::stoul(shared.substr(1, colon - 1));
  into.options = Options::deserialize(std::string_view(shared).substr(colon + 1, length));
  into.tuning = shared.substr(colon + 1 + length);
}

}  // namespace

Options environment_options() {
  std::vector<std::string> warnings;
  try {
    Options options = Options::from_environment(environ, warnings);
    static std::once_flag once;
    std::call_once(once, [&] {
      set_log_level(options.settings().log);
      for (const std::string& warning : warnings) log_warn(warning);
    });
    return options;
  } catch (const std::invalid_argument& e) {
    throw Error(MPI_ERR_ARG, e.what());
  }
}

Setup::Setup(MPI_Comm user) {
  check_mpi(MPI_Comm_rank(user, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(user, &size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_idup(user, &result_.comm, &request_), "MPI_Comm_idup");
  // Local work while the others arrive.
  const std::string shared = rank_ == 0 ? shared_part() : std::string();
  const std::string& record = own_record();
  header_ = {shared.size(), record.size(), host_number()};
  mine_ = shared + record;
}

Setup::~Setup() {
  // Only an abandoned setup gets here with a request; its buffers must outlive it.
  if (request_ != MPI_REQUEST_NULL) MPI_Wait(&request_, MPI_STATUS_IGNORE);
  if (result_.comm != MPI_COMM_NULL) MPI_Comm_free(&result_.comm);
}

bool Setup::advance() {
  while (stage_ != Stage::done) {
    int complete = 0;
    check_mpi(MPI_Test(&request_, &complete, MPI_STATUS_IGNORE), "setup of the communicator");
    if (complete == 0) return false;
    switch (stage_) {
      case Stage::duplicate:
        start_sizes();
        break;
      case Stage::sizes:
        start_records();
        break;
      default:
        finish();
    }
  }
  return true;
}

void Setup::start_sizes() {
  stage_ = Stage::sizes;
  check_mpi(MPI_Comm_set_errhandler(result_.comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  headers_.resize(static_cast<std::size_t>(size_));
  check_mpi(MPI_Iallgather(&header_, sizeof header_, MPI_BYTE, headers_.data(), sizeof header_, MPI_BYTE,
                           result_.comm, &request_),
            "MPI_Iallgather");
}

void Setup::start_records() {
  stage_ = Stage::records;
  std::uint64_t total = 0;
  for (const Header& h : headers_) {
    displs_.push_back(static_cast<int>(total));
    counts_.push_back(static_cast<int>(h.shared_bytes + h.record_bytes));
    total += h.shared_bytes + h.record_bytes;
    if (total > 0x7fffffff) throw Error(MPI_ERR_INTERN, "descriptions of all ranks exceed 2 GiB");
  }
  all_.resize(total);
  check_mpi(MPI_Iallgatherv(mine_.data(), static_cast<int>(mine_.size()), MPI_BYTE, all_.data(),
                            counts_.data(), displs_.data(), MPI_BYTE, result_.comm, &request_),
            "MPI_Iallgatherv");
}

void Setup::finish() {
  stage_ = Stage::done;
  result_.ranks_on_host = 0;
  for (std::size_t r = 0; r < headers_.size(); ++r) {
    const Header& h = headers_[r];
    result_.records.push_back(
        all_.substr(static_cast<std::size_t>(displs_[r]) + h.shared_bytes, h.record_bytes));
    if (h.host == header_.host) ++result_.ranks_on_host;
  }
  read_shared_part(all_.substr(0, headers_[0].shared_bytes), result_);
  all_.clear();
}

Agreement Setup::take() {
  return std::exchange(result_, Agreement{});
}

}  // namespace tapa
