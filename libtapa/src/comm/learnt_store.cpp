#include "comm/learnt_store.hpp"

#include <algorithm>
#include <ctime>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "autotune/learnt_file.hpp"
#include "comm/learnt_disk.hpp"
#include "comm/learnt_place.hpp"
#include "files/paths.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

/// What this process knows. Never destroyed: MPI_Finalize may come after static objects end.
struct Notes {
  std::mutex mutex;
  Learnt run;
  int sizes = 0;
  int refuted = 0;
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

/// Whether this process writes the file: rank 0 of the job, where there is one.
bool keeps_file() {
  static const bool keeps = [] {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0 && !learnt_file(own_options()).empty();
  }();
  return keeps;
}

/// Of communicators of so many ranks.
Learnt found_here(int ranks) {
  Learnt found;
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  for (const LearntShape& shape : known.run.shapes) {
    if (shape.ranks == ranks) found.shapes.push_back(shape);
  }
  return found;
}

void save() {
  const std::string file = learnt_file(own_options());
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  if (known.run.shapes.empty()) return;
  const Learnt before = read_learnt(file);
  const Learnt after = merged(before, known.run, today());
  if (!differs(before, after)) return;
  const std::string problem = write_learnt(file, after);
  const std::size_t lost = without_room(known.run, after);
  log_info("cache " + file +
           (!problem.empty() ? ": cannot be written: " + problem
            : lost == 0      ? ": written"
                             : ": written; no room for " + std::to_string(lost) + " of this run's results"));
}

}  // namespace

std::string learnt_file(const Options& options) {
  const std::string& file = options.text("cache");
  if (file.find('/') == std::string::npos) return {};  // 0
  return files::from_first_folder(file).string();
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

bool names_learnt_file(const Options& options) {
  return options.text("cache").find('/') != std::string::npos;
}

std::string learnt_for(const Options& options, int ranks) {
  const Learnt found = found_here(ranks);
  Learnt fits;
  const std::string file = learnt_file(options);
  if (!file.empty() && !learnt_before(file).shapes.empty())
    fits.shapes = fitting(learnt_before(file), learnt_where(options), ranks, today());
  if (!found.shapes.empty()) fits = merged(std::move(fits), found, today());
  return fits.shapes.empty() ? std::string() : learnt_json(fits);
}

void note_learnt(LearntShape shape, int sizes_used, int sizes_refuted) {
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  known.sizes += sizes_used;
  known.refuted += sizes_refuted;
  add_to_run(known.run, std::move(shape));
}

std::string learnt_report() {
  if (!keeps_file()) return {};
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  const std::string file = " (" + learnt_file(own_options()) + ")";
  if (known.sizes == 0) return "no earlier run's results fit" + file;
  return "earlier runs' results begin " + std::to_string(known.sizes) + " sizes, " +
         std::to_string(known.refuted) + " of them hold no more" + file;
}

void save_learnt() noexcept {
  try {
    if (keeps_file()) save();
  } catch (const std::exception& e) {
    log_info(std::string("cache: not written: ") + e.what());
  }
}

}  // namespace tapa
