#include "comm/learnt_store.hpp"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "autotune/learnt_file.hpp"
#include "autotune/learnt_key.hpp"
#include "autotune/learnt_path.hpp"
#include "comm/guest.hpp"
#include "comm/setup.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/world.hpp"
#include "tapa/tapa.h"
#include "topology/sysfs.hpp"

extern char** environ;

namespace tapa {

namespace {

/// Closed at the end.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::string_view(value) : std::string_view();
}

/// Not from /proc/cpuinfo, for which the kernel may measure clocks for milliseconds.
std::string processor() {
#ifdef __x86_64__
  std::array<unsigned, 12> words{};
  for (unsigned i = 0; i < 3; ++i) {
    if (__get_cpuid(0x80000002U + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                    &words[4 * i + 3]) == 0)
      return "x86-64";
  }
  std::array<char, sizeof words + 1> name{};
  std::memcpy(name.data(), words.data(), sizeof words);
  const std::string text = name.data();
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "x86-64" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
#else
  const std::string number = read_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  utsname system{};
  ::uname(&system);
  return std::string(system.machine) + (number.empty() ? "" : " " + number);
#endif
}

/// As a line of text that a JSON file may have.
std::string printable(std::string text, std::size_t most) {
  text.resize(std::min(text.size(), most));
  for (char& c : text) c = c < ' ' || c > '~' ? '?' : c;
  return text.empty() ? "unknown" : text;
}

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  PMPI_Get_library_version(text.data(), &length);
  return printable(text.data(), 512);
}

/// Options that change neither plans nor what they take.
bool is_beside(std::string_view name) {
  static constexpr std::array<std::string_view, 10> beside{
      "report", "explain",       "log",      "timeout",  "check",
      "cache",  "agree-timeout", "machines", "fallback", "alloc-mem"};
  return std::ranges::find(beside, name) != beside.end();
}

std::string settings_digest(const Options& options) {
  std::string text;
  for (const OptionInfo& info : option_table()) {
    if (options.origin(info.name) == Origin::standard || is_beside(info.name)) continue;
    text += std::string(info.name) + "=" + options.text(info.name) + "\n";
  }
  for (const std::string& entry : mpi_settings(environ)) text += entry + "\n";
  return digest_of(text);
}

/// The text of a file, or nothing with a line that says why, but where it does not exist.
std::optional<std::string> text_of(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    log_info("cache " + path + ": " + why);
    return std::nullopt;
  };
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    return refuse(std::generic_category().message(errno));
  }
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return refuse("is no file");
  std::string text(kMostLearntBytes + 1, '\0');
  std::size_t had = 0;
  while (had < text.size()) {
    const ssize_t got = ::read(file.get(), &text[had], text.size() - had);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(std::generic_category().message(errno));
    if (got == 0) break;
    had += static_cast<std::size_t>(got);
  }
  if (had > kMostLearntBytes) return refuse("is longer than " + std::to_string(kMostLearntBytes) + " bytes");
  text.resize(had);
  return text;
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

/// A longer file than the process may write would end it by a signal.
bool may_write(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

/// A link stays, what it leads to is replaced.
std::string behind_links(const std::string& path) {
  std::error_code problem;
  const std::filesystem::path file = std::filesystem::canonical(path, problem);
  return problem ? path : file.string();
}

/// Whether a file may take that place: a file is there, or nothing. A device, a pipe or a folder is never
/// replaced, whatever rights the process has.
bool holds_no_other(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 ? S_ISREG(facts.st_mode) : errno == ENOENT;
}

/// Whether a file that the user named may be one of these, damaged or not: else it is another one, by
/// mistake.
bool may_be_ours(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return errno == ENOENT;
  std::array<char, 256> begin{};
  const ssize_t got = ::read(file.get(), begin.data(), begin.size());
  if (got <= 0) return got == 0;
  const std::string_view text(begin.data(), static_cast<std::size_t>(got));
  return text.find("\"tapa-learnt/") != std::string_view::npos;  // written by a person's tool perhaps
}

/// The folders of the default place, for the user alone. Errors show when the file is made.
void make_folders(const std::string& file) {
  const std::string own = file.substr(0, file.rfind('/'));
  ::mkdir(own.substr(0, own.rfind('/')).c_str(), 0700);
  ::mkdir(own.c_str(), 0700);
}

/// Whole, under a name of its own first; readable by the user alone. Returns why it could not, or "".
std::string replace_file(const std::string& path, const std::string& text) {
  if (text.size() > kMostLearntBytes) return "would be too long";
  if (!may_write(text.size())) return "the process may write no such file";
  const std::string target = behind_links(path);
  if (!holds_no_other(target)) return "is no file";
  std::string draft = target + ".XXXXXX";
  File file(::mkostemp(draft.data(), O_CLOEXEC));  // mode 0600
  if (file.get() < 0) return std::generic_category().message(errno);
  const bool written = write_all(file.get(), text) && file.close();
  if (written && ::rename(draft.c_str(), target.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(draft.c_str());
  return std::generic_category().message(error);
}

/// What this process knows. Never destroyed: MPI_Finalize may come after static objects end.
struct Notes {
  std::mutex mutex;
  Learnt run;
  std::map<int, double> lives;  // by ranks: the least of those that were never set up
  std::set<int> disappointing;  // ranks of communicators that were set up early for nothing
  std::vector<int> early;       // ranks of those worth an early talk; written in MPI_Init alone
  int sizes = 0;
  int refuted = 0;
  int at_once = 0;
};
Notes& notes() {
  static auto* const instance = new Notes;
  return *instance;
}

/// As the file was when it was first asked for.
const Learnt& learnt_before(const std::string& file) {
  static const auto* const learnt = new Learnt(read_learnt(file));
  return *learnt;
}

/// The environment's options; nothing when they are wrong, which others tell.
const Options* own_options() {
  static const auto* const options = []() -> const Options* {
    try {
      return new Options(environment_options());
    } catch (const CallError&) {
      return nullptr;
    }
  }();
  return options;
}

std::vector<LearntShape> learnt_shapes(const Options& options, int ranks) {
  const std::string file = learnt_file(options);
  if (file.empty()) return {};
  const Learnt& before = learnt_before(file);
  if (before.shapes.empty()) return {};
  return fitting(before, learnt_where(options), ranks, today());
}

void save() {
  const Options* const options = own_options();
  const std::string file = options != nullptr ? learnt_file(*options) : std::string();
  if (file.empty()) return;
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  if (known.run.shapes.empty() && known.lives.empty()) return;
  const Learnt before = read_learnt(file);
  Learnt after = merged(before, known.run, today());
  for (const auto& [ranks, seconds] : known.lives) shorten(after, learnt_where(*options), ranks, seconds);
  if (!differs(before, after)) return;
  const bool named = options->text("cache").find('/') != std::string::npos;
  if (!named) make_folders(file);
  const std::string problem = !named || !holds_no_other(behind_links(file)) || may_be_ours(file)
                                  ? write_learnt(file, after)
                                  : "is not one of libtapa's";
  log_info("cache " + file + (problem.empty() ? ": written" : ": cannot be written: " + problem));
}

}  // namespace

std::string learnt_file(const Options& options) {
  if (::getauxval(AT_SECURE) != 0) return {};
  return learnt_path(options.text("cache"), variable("XDG_CACHE_HOME"), variable("HOME"));
}

LearntWhere learnt_where(const Options& options) {
  static const auto* const fixed = [] {
    auto* const where = new LearntWhere;
    where->libtapa = std::to_string(TAPA_VERSION_MAJOR) + "." + std::to_string(TAPA_VERSION_MINOR) + "." +
                     std::to_string(TAPA_VERSION_PATCH);
    where->mpi = mpi_version();
    where->cpu = printable(processor(), 128) + ", " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
    PMPI_Comm_size(MPI_COMM_WORLD, &where->job);
    return where;
  }();
  LearntWhere where = *fixed;
  where.settings = settings_digest(options);
  return where;
}

int today() {
  return static_cast<int>(std::time(nullptr) / 86400);
}

Learnt read_learnt(const std::string& file) {
  const std::optional<std::string> text = text_of(file);
  if (!text) return {};
  try {
    return parse_learnt(*text, file);
  } catch (const std::invalid_argument& e) {
    log_info(std::string(e.what()) + "; it is not used");
    return {};
  }
}

std::string write_learnt(const std::string& file, const Learnt& learnt) {
  return replace_file(file, learnt_json(learnt));
}

std::string learnt_for(const Options& options, int ranks) {
  Learnt fits;
  fits.shapes = learnt_shapes(options, ranks);
  return fits.shapes.empty() ? std::string() : learnt_json(fits);
}

LearntAdvice learnt_advice(const Options& options, int ranks) {
  const std::vector<LearntShape> shapes = learnt_shapes(options, ranks);
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  return {!known.disappointing.contains(ranks) && pays_at_once(shapes, setup_seconds()), never_paid(shapes)};
}

std::vector<int> early_sizes(std::size_t most) {
  if (own_options() == nullptr) return {};
  std::map<int, std::vector<LearntShape>> by_ranks;
  for (LearntShape& shape : learnt_shapes(*own_options(), 0))
    by_ranks[shape.ranks].push_back(std::move(shape));
  std::vector<int> sizes;
  for (const auto& [ranks, alike] : by_ranks) {
    if (sizes.size() < most && pays_at_once(alike, setup_seconds())) sizes.push_back(ranks);
  }
  return sizes;
}

void talk_early(std::vector<int> sizes) {
  notes().early = std::move(sizes);
}

bool talks_early(int ranks) {
  const auto& early = notes().early;
  return std::ranges::find(early, ranks) != early.end();
}

void note_learnt(LearntShape shape, int sizes_used, int sizes_refuted, bool set_up_early) {
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  known.sizes += sizes_used;
  known.refuted += sizes_refuted;
  known.at_once += set_up_early ? 1 : 0;
  if (set_up_early && shape.least * gain_of(shape) < setup_seconds()) known.disappointing.insert(shape.ranks);
  if (keeps_learnt()) add_to_run(known.run, std::move(shape));
}

void note_life(int ranks, double seconds) {
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  const auto [at, first] = known.lives.try_emplace(ranks, seconds);
  if (!first) at->second = std::min(at->second, seconds);
}

bool keeps_learnt() {
  static const bool keeps = [] {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0 && own_options() != nullptr && !learnt_file(*own_options()).empty();
  }();
  return keeps;
}

std::string learnt_report() {
  if (!keeps_learnt()) return {};
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  const std::string file = " (" + learnt_file(*own_options()) + ")";
  if (known.sizes == 0) return "no earlier run's results fit" + file;
  return "earlier runs' results begin " + std::to_string(known.sizes) + " sizes, " +
         std::to_string(known.refuted) + " of them hold no more; " + std::to_string(known.at_once) +
         " communicators were set up at once for them" + file;
}

void save_learnt() noexcept {
  try {
    if (keeps_learnt()) save();
  } catch (const std::exception& e) {
    log_info(std::string("cache: not written: ") + e.what());
  }
}

}  // namespace tapa
