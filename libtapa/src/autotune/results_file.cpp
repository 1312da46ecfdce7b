#include "autotune/results_file.hpp"

#include <sys/resource.h>

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "autotune/tuning_file.hpp"
#include "files/output_file.hpp"
#include "topology/json_reader.hpp"

namespace tapa {

namespace {

constexpr const char* format_name = "tapa-learnt/2";
constexpr std::size_t longest_text = 8192;  // MPICH's version

/// What a sum of such can be taken of.
double read_seconds(const JsonReader& value) {
  const double seconds = value.positive("seconds");
  if (seconds > 1e9) value.fail("a number of seconds, at most 1e9");
  return seconds;
}

PlanResult read_plan(const JsonReader& value) {
  value.only_keys({"choice", "seconds", "samples", "given_up"});
  return {.choice = read_choice(value.at("choice")),
          .seconds = read_seconds(value.at("seconds")),
          .samples = value.at("samples").integer(1, INT32_MAX),
          .given_up = value.at("given_up").boolean()};
}

SizeResult read_size(const JsonReader& value) {
  value.only_keys({"uniform", "bytes", "decided", "day", "plans"});
  SizeResult size;
  size.uniform = value.at("uniform").boolean();
  size.bytes = static_cast<std::size_t>(value.at("bytes").integer(0, INT32_MAX));
  if (size.bytes != 0 && !std::has_single_bit(size.bytes)) value.at("bytes").fail("0 or a power of two");
  size.decided = value.at("decided").boolean();
  size.day = value.at("day").integer(1, INT32_MAX);
  const JsonReader list = value.at("plans");
  for (std::size_t i = 0, n = list.size(1, kMostPlanResults, "plans"); i < n; ++i) {
    size.plans.push_back(read_plan(list.at(i)));
    for (std::size_t k = 0; k < i; ++k) {
      if (size.plans[k].choice == size.plans[i].choice)
        list.at(i).at("choice").fail("a plan that the list does not have yet");
    }
  }
  return size;
}

ShapeResults read_shape(const JsonReader& value) {
  value.only_keys({"libtapa", "mpi", "cpu", "settings", "job", "ranks", "topology", "sizes"});
  ShapeResults shape;
  shape.where = {value.at("libtapa").text(), value.at("mpi").text(longest_text), value.at("cpu").text(),
                 value.at("settings").text(), value.at("job").integer(1, INT32_MAX)};
  shape.ranks = value.at("ranks").integer(2, shape.where.job);
  shape.topology = value.at("topology").text();
  shape.sizes = value.at("sizes").each(1, kMostSizeResults, "sizes", read_size);
  return shape;
}

nlohmann::ordered_json size_json(const SizeResult& size) {
  nlohmann::ordered_json out = {
      {"uniform", size.uniform}, {"bytes", size.bytes}, {"decided", size.decided}, {"day", size.day}};
  for (const PlanResult& plan : size.plans) {
    out["plans"].push_back({{"choice", to_string(plan.choice)},
                            {"seconds", plan.seconds},
                            {"samples", plan.samples},
                            {"given_up", plan.given_up}});
  }
  return out;
}

constexpr std::size_t kBeginning = 256;
constexpr mode_t kOwnersAlone = 0600;

/// A longer file than the process may write would end it by a signal.
bool may_write(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

/// Whether the file that is there is empty or begins like one of these, damaged or not; written by a person's
/// tool perhaps. Else the user has named it by mistake.
bool may_be_ours(const files::OutputFile& place) {
  const std::string text = files::read_beginning(place.open_regular(), kBeginning);
  return text.empty() || text.find("\"tapa-learnt/") != std::string::npos;
}

}  // namespace

Results parse_results(const std::string& text, const std::string& path) {
  const std::string origin = "cache " + path;
  const nlohmann::json document = parse_json(text, origin, kMostResultsBytes);
  const JsonReader root(document, origin);
  root.require_format(format_name);
  root.only_keys({"format", "shapes"});
  return {root.at("shapes").each(0, kMostShapeResults, "shapes", read_shape)};
}

std::string results_json(const Results& results) {
  nlohmann::ordered_json out = {{"format", format_name}, {"shapes", nlohmann::ordered_json::array()}};
  for (const ShapeResults& shape : results.shapes) {
    nlohmann::ordered_json row = {{"libtapa", shape.where.libtapa}, {"mpi", shape.where.mpi},
                                  {"cpu", shape.where.cpu},         {"settings", shape.where.settings},
                                  {"job", shape.where.job},         {"ranks", shape.ranks},
                                  {"topology", shape.topology}};
    for (const SizeResult& size : shape.sizes) row["sizes"].push_back(size_json(size));
    out["shapes"].push_back(std::move(row));
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string shortened_json(Results& results) {
  std::string text = results_json(results);
  for (; text.size() > kMostResultsBytes && !results.shapes.empty(); text = results_json(results))
    results.shapes.pop_back();
  return text;
}

std::string write_results(const std::string& path, const Results& results) {
  const std::string text = results_json(results);
  if (text.size() > kMostResultsBytes) return "would be too long";
  if (!may_write(text.size())) return "the process may write no such file";
  try {
    const files::OutputFile place(path);
    if (place.is_regular() && !may_be_ours(place)) return "is not one of libtapa's";
    place.replace([&](std::ostream& out) { out << text; }, kOwnersAlone);
  } catch (const files::FileError& error) {
    return error.what();
  }
  return {};
}

}  // namespace tapa
