#include "options.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "version_flag.hpp"

namespace tapa::bench {

namespace {

std::size_t parse_size(const std::string& text, const std::string& whole) {
  std::size_t used = 0;
  unsigned long long value = 0;
  try {
    if (!text.empty() && text[0] != '-') {
      value = std::stoull(text, &used);
    }
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || value > (std::size_t{1} << 40)) {
    throw CLI::ValidationError("--message-size", "'" + whole + "': expected [MIN:]MAX in bytes, MIN <= MAX");
  }
  return static_cast<std::size_t>(value);
}

// As OSU: "MAX", "MIN:MAX" or "MIN:".
void parse_message_size(const std::string& text, Options& options) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) {
    options.max_bytes = parse_size(text, text);
  } else {
    options.min_bytes = parse_size(text.substr(0, colon), text);
    if (colon + 1 < text.size()) {
      options.max_bytes = parse_size(text.substr(colon + 1), text);
    }
  }
  if (options.min_bytes > options.max_bytes) {
    throw CLI::ValidationError("--message-size", "'" + text + "': expected [MIN:]MAX in bytes, MIN <= MAX");
  }
}

template <typename T>
void add_optional(CLI::App& app, const std::string& names, std::optional<T>& value, const std::string& help,
                  const T& least) {
  app.add_option_function<T>(
         names, [&value](const T& given) { value = given; }, help)
      ->check(CLI::Range(least, std::numeric_limits<T>::max()));
}

void add_osu_options(CLI::App& app, Kind kind, Options& o) {
  app.add_option_function<std::string>(
      "-m,--message-size", [&o](const std::string& text) { parse_message_size(text, o); },
      "[MIN:]MAX bytes per pair of ranks (default 1:1048576)");
  add_optional(app, "-i,--iterations", o.iterations,
               "timed calls per size (default: as many as fit into --time)", 1);
  add_optional(app, "-x,--warmup", o.warmup,
               "untimed calls per size (default: 100, or 10 above 8192 bytes, within --time)", 0);
  app.add_flag("-f,--full", o.full, "print minimum, maximum and iterations too");
  app.add_flag("-c,--validation", o.validate, "check the data of every size");
  app.add_option("-u,--validation-warmup", o.validation_calls, "calls that -c checks")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-M,--mem-limit", o.memory_limit, "bytes that one rank's send buffer may have")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  if (kind == Kind::ialltoall) {
    app.add_option("-t,--num-test-calls", o.test_calls, "MPI_Test calls during the computation")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
  }
  if (kind == Kind::alltoall) {
    app.add_flag("-l,--in-place", o.in_place, "use MPI_IN_PLACE");
  }
  if (kind != Kind::select) {
    app.add_option_function<std::string>(
           "-d,--accelerator", [&o](const std::string&) { o.on_gpu = true; },
           "cuda: buffers are in the memory of the rank's GPU, which is chosen by the local rank")
        ->check(CLI::IsMember({"cuda"}));
  }
}

void add_our_options(CLI::App& app, Kind kind, Options& o) {
  app.add_option("--step", o.step, "factor from one size to the next")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--time", o.seconds, "seconds that one size may take, all contenders together")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  if (kind != Kind::ialltoall && kind != Kind::select && kind != Kind::persistent) {
    app.add_option(
           "--burst", o.burst,
           "calls in a row between two barriers, timed together: ranks leave a barrier at different times, "
           "which is part of what a single call is timed to take")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_option(
           "--settle", o.settle,
           "with --versus: untimed calls of ours before all others, as far as they fit into --time; the "
           "library probes plans in the first calls of a size")
        ->check(CLI::Range(0, 100000))
        ->capture_default_str();
    app.add_option("--late", o.late, "microseconds that the last rank comes late to each timed call")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
  }
  app.add_option_function<std::string>(
         "--library", [&o](const std::string& name) { o.use_mpi = name == "mpi"; },
         "whose call is timed: tapa (default) or mpi")
      ->check(CLI::IsMember({"tapa", "mpi"}));
  app.add_option_function<std::string>(
         "--versus",
         [&o](const std::string& name) {
           o.versus_mpi = name == "mpi";
           o.versus_nccl = name == "nccl";
         },
         "alternate, call by call, with MPI's algorithms (mpi) or, with -d cuda, with NCCL's all-to-all "
         "(nccl), and print the ratio")
      ->check(kind == Kind::alltoall || kind == Kind::alltoallv ? CLI::IsMember({"mpi", "nccl"})
                                                                : CLI::IsMember({"mpi"}));
  app.add_option("--plan", o.plans,
                 "with --versus: race this plan too (text as for TAPA_PLAN; may be repeated)")
      ->allow_extra_args(false);
  if (kind == Kind::alltoall || kind == Kind::alltoallv || kind == Kind::alltoallw ||
      kind == Kind::persistent) {
    app.add_option_function<std::string>(
           "--buffers", [&o](const std::string& name) { o.registered = name == "registered"; },
           "memory that is sent from: user (default), or registered, which is TAPA_Alloc's")
        ->check(CLI::IsMember({"user", "registered"}));
  }
  if (kind == Kind::alltoall || kind == Kind::alltoallv)
    app.add_option("--nccl", o.nccl, "with --versus nccl: the library")->capture_default_str();
  app.add_option("--json", o.json, "with --versus: write the rows to this file");
  app.add_option_function<std::string>(
         "--nic-bound",
         [&o](const std::string& text) {
           try {
             o.nic_rate = parse_nic_rate(text);
             o.nic_rate->packet = packet_of_nic(std::getenv("TAPA_NICS"));
             if (o.nic_rate->nics == 0) {
               o.nic_rate->nics = count_nics(std::getenv("OMPI_MCA_btl_tcp_if_include"));
             }
           } catch (const std::invalid_argument& error) {
             throw CLI::ValidationError("--nic-bound", error.what());
           }
         },
         "[COUNTx]RATE of a node's NICs (tc's units): print the time that the NIC's bytes need, headers "
         "included")
      ->envname("TAPA_NIC_RATE");
  if (kind == Kind::alltoallv || kind == Kind::alltoallw) {
    app.add_option("--imbalance", o.imbalance,
                   "fraction by which block sizes differ from the mean, both ways")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    const std::map<std::string, Shape> shapes{{"even", Shape::even},
                                              {"half", Shape::half},
                                              {"sparse", Shape::sparse},
                                              {"to-few", Shape::to_few},
                                              {"from-few", Shape::from_few}};
    app.add_option(
           "--shape", o.shape,
           "even (default), half: half of all bytes are rank 0's, sparse: nine blocks of ten are empty, "
           "to-few or from-few: two ranks receive, or send, all; the mean stays the same")
        ->transform(CLI::CheckedTransformer(shapes))
        ->type_name("NAME");
    const std::map<std::string, Form> forms{
        {"blocking", Form::blocking}, {"nonblocking", Form::nonblocking}, {"persistent", Form::persistent}};
    app.add_option("--form", o.form,
                   "blocking (default), nonblocking or persistent: started and waited for; a race is against "
                   "MPI's call of that form, or its blocking one for persistent")
        ->transform(CLI::CheckedTransformer(forms))
        ->type_name("NAME");
  }
  if (kind == Kind::alltoall) {
    const std::map<std::string, Elements> kinds{
        {"chars", Elements::chars}, {"doubles", Elements::doubles}, {"gaps", Elements::gaps}};
    app.add_option("--elements", o.elements,
                   "what is sent: chars (default), doubles, or gaps: every other double of the send buffer")
        ->transform(CLI::CheckedTransformer(kinds))
        ->type_name("NAME");
  }
  if (kind == Kind::select) {
    app.add_option("--rows", o.rows, "rows of a block (a row has bytes / rows bytes, at least 1)")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    app.add_flag("--everywhere", o.everywhere,
                 "only active rows travel inside a node too, not just between nodes");
    app.add_option("--active", o.active, "fraction of the rows that are active")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
  }
}

}  // namespace

Parsed parse(Kind kind, const std::string& program, const std::string& title, int argc, char** argv) {
  Parsed parsed;
  CLI::App app(title, program);
  add_osu_options(app, kind, parsed.options);
  add_our_options(app, kind, parsed.options);
  tapa::add_version_flag(app, "-v,--version");
  try {
    app.parse(argc, argv);
    const Options& o = parsed.options;
    if (!o.versus() && (!o.json.empty() || !o.plans.empty() || o.settle > 0)) {
      const char* const option = !o.json.empty() ? "--json" : !o.plans.empty() ? "--plan" : "--settle";
      throw CLI::ValidationError(option, "needs --versus mpi or nccl");
    }
    if (o.versus_nccl && !o.on_gpu) throw CLI::ValidationError("--versus", "nccl needs -d cuda");
    if (o.versus_nccl && o.in_place) throw CLI::ValidationError("--in-place", "NCCL has no such call");
    if (o.on_gpu && (o.elements == Elements::gaps || o.registered)) {
      throw CLI::ValidationError("--accelerator", "takes neither --elements gaps nor --buffers registered");
    }
    if (o.on_gpu && o.form != Form::blocking)
      throw CLI::ValidationError("--accelerator", "needs --form blocking");
    if (o.elements != Elements::chars && (o.min_bytes % 8 != 0 || o.min_bytes == 0 || o.in_place)) {
      throw CLI::ValidationError("--elements", "needs sizes of 8, 16, 24, ... bytes and no --in-place");
    }
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    parsed.exit_code = app.exit(error, out, out);
    parsed.message = out.str();
  }
  return parsed;
}

std::vector<std::size_t> sizes(const Options& options, int ranks) {
  std::vector<std::size_t> result;
  const std::size_t most = options.memory_limit / static_cast<std::size_t>(ranks);
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes && bytes <= most;
       bytes = bytes == 0 ? 1 : bytes * static_cast<std::size_t>(options.step)) {
    result.push_back(bytes);
  }
  return result;
}

}  // namespace tapa::bench
