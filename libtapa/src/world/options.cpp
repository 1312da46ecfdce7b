#include "world/options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "run/words.hpp"
#include "topology/sysfs.hpp"

namespace tapa {

namespace {

/// A value that a parser did not take; the caller adds whose value it was.
struct Unacceptable {
  std::string expected;
};

template <class Number>
Number parse_number(std::string_view text, std::string_view expected) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(static_cast<double>(value)) || value < 0)
    throw Unacceptable{std::string(expected)};
  return value;
}

std::size_t parse_bytes(std::string_view text) {
  return parse_number<std::size_t>(text, "a number of bytes");
}

bool parse_bool(std::string_view text) {
  if (text == "1" || text == "on" || text == "yes" || text == "true") return true;
  if (text == "0" || text == "off" || text == "no" || text == "false") return false;
  throw Unacceptable{"0 or 1"};
}

/// For options whose enumerators are in the order of the words that they allow.
template <class Enumerator>
Enumerator parse_word(const OptionValue& value) {
  std::string_view rest = value.allowed;
  for (int at = 0;; ++at) {
    const std::size_t end = rest.find('|');
    if (value.text == rest.substr(0, end)) return static_cast<Enumerator>(at);
    if (end == std::string_view::npos) throw Unacceptable{std::string(value.allowed)};
    rest.remove_prefix(end + 1);
  }
}

Reporting parse_reporting(std::string_view text) {
  constexpr std::string_view json = ",json";  // read where the report is written
  const std::string_view what = text.substr(0, text.size() - (text.ends_with(json) ? json.size() : 0));
  if (what == "passive") return Reporting::passive;
  try {
    return parse_bool(what) ? Reporting::on : Reporting::off;
  } catch (const Unacceptable&) {
    throw Unacceptable{"0, 1 or passive, maybe with ,json behind it"};
  }
}

/// The rate of all NICs; nothing when each is named with its own, which detection reads.
std::optional<double> parse_nic_rate(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const bool named = text.find('=') != std::string_view::npos;
  std::optional<double> rate;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = named ? std::min(text.find(',', begin), text.size()) : text.size();
    std::string_view entry = text.substr(begin, end - begin);
    if (named) entry.remove_prefix(std::min(entry.find('='), entry.size() - 1) + 1);
    rate = parse_rate(entry);
    if (!rate) throw Unacceptable{"a rate such as 100mbit, 25gbit or 800kbit, or nic0=100mbit,nic1=1gbit"};
    begin = end + 1;
  }
  return named ? std::nullopt : rate;
}

std::optional<Choice> parse_plan(std::string_view text) {
  if (text.empty() || text == "auto" || text == "model") return std::nullopt;
  try {
    return parse_choice(text);
  } catch (const std::invalid_argument& e) {
    throw Unacceptable{"auto, model or an algorithm (" + std::string(e.what()) + ")"};
  }
}

void parse_check(Settings& settings, std::string_view text) {
  constexpr std::string_view plan = ",plan";
  const bool strict = text.ends_with(plan);
  if (strict) text.remove_suffix(plan.size());
  const std::string_view word = text == "0" ? "off" : text == "1" ? "counts" : text;
  settings.check = parse_word<Check>({word, "off|mpi|args|counts|data"});
  settings.strict_plan = strict;
}

/// The second number is the drop-in's, which reads it before there is a library.
void parse_timeout(Settings& settings, std::string_view text) {
  constexpr std::string_view expected = "a number of seconds, 0 or more";
  const std::size_t comma = text.find(',');
  settings.timeout = parse_number<double>(text.substr(0, comma), expected);
  if (comma != std::string_view::npos) parse_number<double>(text.substr(comma + 1), expected);
}

// The table of options. A new option is one row here and one field in Settings.
constexpr OptionInfo rows[] = {
    {"enable", "TAPA_ENABLE", "0|1|alloc-mem", "1",
     "0 hands every call to MPI; alloc-mem: the drop-in's MPI_Alloc_mem gives memory that the node's ranks "
     "can map, which a forked child shares",
     [](Settings& s, const OptionValue& v) { s.enable = v.text == "alloc-mem" || parse_bool(v.text); }},
    {"topology", "TAPA_TOPOLOGY", "2x2x3 (groups, slow to fast), a machine's name or a file", "",
     "replaces detection: in the environment it describes the whole job, set on a communicator its ranks",
     [](Settings& s, const OptionValue& v) { s.topology = v.text; }},
    {"tuning", "TAPA_TUNING", "file", "",
     "what tapa-tune has measured, options that no variable has, or both",
     [](Settings& s, const OptionValue& v) { s.tuning = v.text; }},
    {"plan", "TAPA_PLAN", "auto, model or an algorithm, e.g. linear, bruck:radix=4, tapa:split=node", "auto",
     "auto: the first blocking calls of each size that no tuning file covers probe the most promising plans "
     "and MPI's own, then the fastest is kept; model: what is predicted to be the fastest, without probing; "
     "an algorithm: one plan for all calls",
     [](Settings& s, const OptionValue& v) {
       s.plan = parse_plan(v.text);
       s.adapt = v.text != "model";
     }},
    {"nic-rate", "TAPA_NIC_RATE", "rate such as 100mbit, or nic0=100mbit,nic1=1gbit", "",
     "rate of one NIC, when detection cannot know it",
     [](Settings& s, const OptionValue& v) { s.nic_rate = parse_nic_rate(v.text); }},
    {"nics", "TAPA_NICS", "names of interfaces, separated by commas; first may be each or all", "",
     "which NICs carry the data between nodes, when detection takes the wrong ones; drop-in: each rank "
     "keeps to one NIC of Open MPI's list (each), takes all of them (all), or keeps to one when they are in "
     "one network (without such a word)",
     [](Settings&, const OptionValue&) {}},  // read where they are detected
    {"progress", "TAPA_PROGRESS", "auto|hook|thread|none", "auto",
     "what advances nonblocking calls: MPI's own progress, a thread, or nothing (they are left to MPI)",
     [](Settings&, const OptionValue& v) { parse_word<int>(v); }},
    {"check", "TAPA_CHECK", "off|mpi|args|counts|data, or one of them and ,plan", "mpi",
     "mpi: what MPI refuses; args: all that is wrong with local arguments; counts (or 1): both ends of "
     "every block agree; data: and its checksum is right; plan: a plan asked for that cannot be carried out "
     "is an error, not a warning and MPI",
     [](Settings& s, const OptionValue& v) { parse_check(s, v.text); }},
    {"timeout", "TAPA_TIMEOUT", "seconds, 0 = never; after a comma those of MPI_Init, 0 = for ever", "0,30",
     "a call that lasts longer prints who waits for whom, again each time its age doubles; drop-in: so long "
     "MPI_Init waits for ranks that may not have it, before it ends the job",
     [](Settings& s, const OptionValue& v) { parse_timeout(s, v.text); }},
    {"explain", "TAPA_EXPLAIN", "0|1", "0",
     "rank 0 of each communicator prints one line per new plan: what, why, predicted, measured",
     [](Settings& s, const OptionValue& v) { s.explain = parse_bool(v.text); }},
    {"log", "TAPA_LOG", "off|error|warn|info|debug", "warn", "what is written to stderr",
     [](Settings& s, const OptionValue& v) { s.log = parse_word<LogLevel>(v); }},
    {"report", "TAPA_REPORT", "0|1|passive, or one of them and ,json", "0",
     "counts calls, bytes and time, for the report at finalize; 1: MPI's own all-to-all runs beside some "
     "calls, for comparison; passive: it does not; json: as lines of JSON",
     [](Settings& s, const OptionValue& v) { s.report = parse_reporting(v.text); }},
    {"cache", "TAPA_CACHE", "0 or the path of a file, with a / in it", "0",
     "the file that keeps what blocking calls have found for the next run of the same shape on the same "
     "machine with the same libraries; 0: none",
     [](Settings&, const OptionValue& v) {
       const bool none = v.text == "0" || v.text == "off" || v.text == "no" || v.text == "false";
       if (!none && v.text.find('/') == std::string_view::npos) throw Unacceptable{std::string(v.allowed)};
     }},
    {"gpu", "TAPA_GPU", "auto|mpi|stage|host|else-mpi|else-stage", "auto",
     "buffers in GPU memory, where some rank's process uses a GPU: auto takes the device engine, else an "
     "MPI that says that it knows such memory, else copies to the host and back; else-mpi, else-stage: the "
     "engine, else the one or the other whatever MPI says; mpi hands MPI all calls; stage always copies; "
     "host promises that no buffer is there",
     [](Settings& s, const OptionValue& v) { s.gpu = parse_word<GpuBuffers>(v); }},
    {"gpu-wire", "TAPA_GPU_WIRE", "auto|nccl|mpi|staging|sockets|host", "auto",
     "what joins the nodes of ranks whose buffers in GPU memory take the device engine, or GPUs of one host "
     "that do not reach each other; auto takes the first that works, but nothing other than nccl where MPI "
     "takes such buffers itself",
     [](Settings& s, const OptionValue& v) { s.gpu_wire = parse_word<GpuWire>(v); }},
    {"shm-limit", "", "bytes, 0 = never", "32768",
     "longest message between ranks of one node that goes through the library's own shared memory; 32 times "
     "as long in plans that pass blocks on",
     [](Settings& s, const OptionValue& v) { s.shm_limit = parse_bytes(v.text); }},
    {"attach-from", "", "bytes, 0 = never", "16384",
     "shortest block that a rank of the same node copies straight from its sender's memory (cross-memory "
     "attach), where the kernel allows that; by default twice as long where ranks outnumber cores, and half "
     "as long for more than 32 ranks with a core each; read when a communicator is set up",
     [](Settings& s, const OptionValue& v) { s.attach_from = parse_bytes(v.text); }},
    {"piece", "", "bytes, 0 = by the network", "0",
     "longer messages between nodes travel in pieces of this size; by default 32768 over TCP, whole "
     "elsewhere",
     [](Settings& s, const OptionValue& v) { s.piece = parse_bytes(v.text); }},
    {"keep", "", "bytes", "33554432",
     "most memory that a communicator keeps between calls for plans and their scratch, and a process for "
     "packed blocks of each call under way, and for those of calls that MPI carries out; what needs more is "
     "freed after the call",
     [](Settings& s, const OptionValue& v) { s.keep = parse_bytes(v.text); }},
    {"wait", "", "auto|spin|yield|sleep", "auto",
     "how a blocked rank waits; auto: spin, or yield when a node has more ranks than cores",
     [](Settings& s, const OptionValue& v) { s.wait = parse_word<Wait>(v); }},
};

constexpr std::size_t kRows = std::size(rows);

/// Options of earlier versions, and what to write instead.
constexpr std::pair<std::string_view, std::string_view> gone[] = {
    {"machines", "TAPA_TOPOLOGY=FOLDER/NAME.json"},
    {"rails", "TAPA_NICS=each for on, TAPA_NICS=all for off"},
    {"alloc-mem", "TAPA_ENABLE=alloc-mem"},
    {"agree-timeout", "TAPA_TIMEOUT=0,SECONDS"},
    {"fallback", "TAPA_CHECK=mpi,plan for error"},
    {"adapt", "TAPA_PLAN=model for off"},
    {"gpu-mpi", "TAPA_GPU=else-mpi for yes, TAPA_GPU=else-stage for no"},
};

std::string variable_of(std::string_view name) {
  std::string variable = "TAPA_";
  for (const char c : name)
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

/// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> line(b.size() + 1);
  std::iota(line.begin(), line.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = line[0];
    line[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = line[j + 1];
      line[j + 1] = std::min({above + 1, line[j] + 1, diagonal + (a[i] == b[j] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return line[b.size()];
}

/// Of a word that is in no row of one column: what to write instead of an option that is one no more, else
/// `what` it is not, with the nearest of the column where one is near.
std::string unknown(const std::string& what, std::string_view word, std::string_view OptionInfo::*column) {
  const auto says = [&](std::string_view name) { return word == name || word == variable_of(name); };
  for (const auto& [name, instead] : gone) {
    if (says(name)) return words(word, " is no option any more, write ", instead);
  }
  std::string_view best;
  std::size_t least = 4;  // more edits than this are another word
  for (const OptionInfo& info : rows) {
    if (info.variable.empty() && says(info.name))
      return words(word, " is an option of the tuning file: TAPA_TUNING=FILE.json, in it ",
                   R"({"format": "tapa-tuning/1", "options": {")", info.name, "\": VALUE}}");
    const std::size_t distance = edit_distance(word, info.*column);
    if (distance >= least) continue;
    least = distance;
    best = info.*column;
  }
  return "unknown " + what + (best.empty() ? "" : words(", did you mean ", best, "?"));
}

std::size_t row_with(std::string_view text, std::string_view OptionInfo::*column) {
  const OptionInfo* const at = std::ranges::find(rows, text, column);
  return static_cast<std::size_t>(at - rows);
}

std::size_t row_of(std::string_view name) {
  const std::size_t row = row_with(name, &OptionInfo::name);
  if (row == kRows)
    throw std::invalid_argument(unknown(words("option \"", name, "\""), name, &OptionInfo::name));
  return row;
}

}  // namespace

std::span<const OptionInfo> option_table() {
  return rows;
}

std::string_view to_string(Origin origin) {
  constexpr std::array<std::string_view, 4> names{"default", "environment", "tuning file", "TAPA_Comm_set"};
  return names.at(static_cast<std::size_t>(origin));
}

Options::Options() : texts_(kRows), origins_(kRows) {
  for (std::size_t row = 0; row < kRows; ++row) {
    take(row, rows[row].standard, Origin::standard, std::string(rows[row].name));
  }
}

Options Options::from_environment(const char* const* environment, std::vector<std::string>& warnings) {
  // Of the scripts in tools/; of a process, not of a job.
  constexpr std::string_view of_others[] = {"TAPA_BUILD", "TAPA_DEVICE_NODE", "TAPA_SOCKET_IFNAME",
                                            "TAPA_GPU_PEERS"};
  Options options;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with("TAPA_") || equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string_view value = entry.substr(equals + 1);
    const std::size_t row = row_with(name, &OptionInfo::variable);
    if (std::ranges::find(of_others, name) != std::end(of_others)) continue;
    if (row == kRows) warnings.push_back(unknown(words("variable ", name), name, &OptionInfo::variable));
    if (row == kRows || value.empty()) continue;  // an empty variable is as good as none
    options.take(row, value, Origin::environment, std::string(name));
  }
  return options;
}

void Options::set(std::string_view name, std::string_view value, Origin origin) {
  take(row_of(name), value, origin, "option \"" + std::string(name) + "\"");
}

/// `whose`: the value's, for messages.
void Options::take(std::size_t row, std::string_view value, Origin origin, const std::string& whose) {
  try {
    rows[row].apply(settings_, {value, rows[row].allowed});
  } catch (const Unacceptable& e) {
    throw std::invalid_argument(whose + " is \"" + std::string(value) + "\", expected " + e.expected);
  }
  texts_[row] = value;
  origins_[row] = origin;
}

void Options::take_file(const std::vector<std::pair<std::string, std::string>>& values,
                        const std::string& path) {
  const std::string where = "tuning file " + path + ": $.options: ";
  for (const auto& [name, value] : values) {
    const std::size_t row = row_with(name, &OptionInfo::name);
    if (row == kRows || !rows[row].variable.empty())
      throw std::invalid_argument(where + "\"" + name + "\" is no option of this file");
    take(row, value, Origin::file, where + name);
  }
}

const std::string& Options::text(std::string_view name) const {
  return texts_[row_of(name)];
}
Origin Options::origin(std::string_view name) const {
  return origins_[row_of(name)];
}

// As an environment has them; values come from C strings, so hold no \0.
std::string Options::serialize() const {
  std::string bytes;
  for (std::size_t row = 0; row < kRows; ++row) {
    if (origins_[row] != Origin::environment) continue;
    bytes.append(rows[row].variable).append("=").append(texts_[row]).push_back('\0');
  }
  return bytes;
}

Options Options::deserialize(const std::string& bytes) {
  if (!bytes.empty() && bytes.back() != '\0') throw std::invalid_argument("options of rank 0 are cut short");
  std::vector<const char*> environment;
  for (std::size_t at = 0; at < bytes.size(); at = bytes.find('\0', at) + 1)
    environment.push_back(&bytes[at]);
  environment.push_back(nullptr);
  std::vector<std::string> none;
  return from_environment(environment.data(), none);
}

}  // namespace tapa
