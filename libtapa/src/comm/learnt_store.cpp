#include "comm/learnt_store.hpp"

#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "autotune/learnt_account.hpp"
#include "autotune/learnt_file.hpp"
#include "autotune/learnt_path.hpp"
#include "comm/guest.hpp"
#include "comm/learnt_disk.hpp"
#include "comm/learnt_place.hpp"
#include "comm/newcomer.hpp"
#include "comm/setup.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/world.hpp"

namespace tapa {

namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::string_view(value) : std::string_view();
}

/// What this process knows. Never destroyed: MPI_Finalize may come after static objects end.
struct Notes {
  std::mutex mutex;
  Learnt run;
  std::map<int, double> lives;  // by ranks: the least of those that were never set up
  std::map<int, double> paid;   // into accounts, by ranks
  std::map<int, double> drawn;  // from accounts
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

/// Where relative paths begin, however the program changes its folder: "" when that is not known.
const std::string& first_folder() {
  static const auto* const folder = [] {
    std::error_code problem;
    return new std::string(std::filesystem::current_path(problem).string());
  }();
  return *folder;
}

/// A path of the user's, with a / in it, and not the default place.
bool is_named(const Options& options) {
  return options.text("cache").find('/') != std::string::npos;
}

bool is_in_own_place(const std::string& file) {
  if (!is_in_others_folder(file)) return true;
  static std::once_flag told;
  std::call_once(told, [&] { log_info("cache " + file + ": in another user's folder; nothing is kept"); });
  return false;
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

/// What this run pays into accounts, and draws; by ranks. Little is not worth a write of the file.
std::map<int, double> payments(const Notes& known) {
  constexpr double worth_it = Newcomer::kPatience / 16;
  std::map<int, double> changes;
  for (const auto& [ranks, seconds] : known.paid) {
    if (seconds > worth_it * setup_seconds(ranks)) changes[ranks] += seconds;
  }
  for (const auto& [ranks, seconds] : known.drawn) changes[ranks] -= seconds;
  return changes;
}

void save() {
  const Options* const options = own_options();
  const std::string file = options != nullptr ? learnt_file(*options) : std::string();
  if (file.empty()) return;
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  const std::map<int, double> changes = payments(known);
  if (known.run.shapes.empty() && known.lives.empty() && changes.empty()) return;
  const Learnt before = read_learnt(file);
  const LearntWhere where = learnt_where(*options);
  Learnt after = before;
  for (const auto& [ranks, seconds] : changes) settle(after, where, ranks, seconds, today());
  after = merged(std::move(after), known.run, today());
  for (const auto& [ranks, seconds] : known.lives) shorten(after, where, ranks, seconds);
  if (!differs(before, after)) return;
  const bool named = is_named(*options);
  if (!named) make_folders(file);
  const std::string problem =
      named && is_of_another(file) ? "is not one of libtapa's" : write_learnt(file, after);
  log_info("cache " + file + (problem.empty() ? ": written" : ": cannot be written: " + problem));
}

}  // namespace

std::string learnt_file(const Options& options) {
  if (::getauxval(AT_SECURE) != 0) return {};
  std::string file = learnt_path(options.text("cache"), variable("XDG_CACHE_HOME"), variable("HOME"));
  if (file.empty()) return {};
  const bool whole = file.front() == '/' || first_folder().empty();
  if (is_named(options)) return whole ? file : first_folder() + "/" + file;
  return is_in_own_place(file) ? file : std::string();
}

void note_folder() {
  static_cast<void>(first_folder());
}

int today() {
  return std::max(1, static_cast<int>(std::time(nullptr) / 86400));  // of a clock that was never set
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
  return {!known.disappointing.contains(ranks) && pays_at_once(shapes, setup_seconds(ranks)),
          never_paid(shapes)};
}

std::vector<int> early_sizes(std::size_t most) {
  if (own_options() == nullptr) return {};
  std::map<int, std::vector<LearntShape>> by_ranks;
  for (LearntShape& shape : learnt_shapes(*own_options(), 0))
    by_ranks[shape.ranks].push_back(std::move(shape));
  std::vector<int> sizes;
  for (const auto& [ranks, alike] : by_ranks) {
    if (sizes.size() < most && pays_at_once(alike, setup_seconds(ranks))) sizes.push_back(ranks);
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
  if (set_up_early && shape.least * gain_of(shape) < setup_seconds(shape.ranks))
    known.disappointing.insert(shape.ranks);
  if (keeps_learnt()) add_to_run(known.run, std::move(shape));
}

void note_life(int ranks, double seconds) {
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  const auto [at, first] = known.lives.try_emplace(ranks, seconds);
  if (!first) at->second = std::min(at->second, seconds);
}

void pay_account(int ranks, double seconds) {
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  known.paid[ranks] += seconds;
}

double account_left(int ranks) {
  if (!keeps_learnt()) return 0;
  const Options& options = *own_options();
  const Learnt& before = learnt_before(learnt_file(options));
  if (before.accounts.empty()) return 0;
  const double account = account_of(before, learnt_where(options), ranks, today());
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  const auto drawn = known.drawn.find(ranks);
  return std::max(0.0, account - (drawn != known.drawn.end() ? drawn->second : 0));
}

void draw_account(int ranks, double seconds) {
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  known.drawn[ranks] += seconds;
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
