// The exchanges of one attention layer, libdit over plugin tapa against permute + NCCL; the usage is at the
// end.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/statistics.hpp"
#include "plain_flags.h"
#include "ways.hpp"
#include "write_file.hpp"

namespace tapa::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  std::vector<std::int64_t> tokens;
  std::int64_t text, heads, kv_heads, dim;
  std::string nccl, json;
  double seconds;
  bool zero_cta;  ///< also NCCL without thread blocks
  int layers;     ///< in a graph, or put on the stream before a wait
};

std::vector<std::int64_t> numbers_in(const std::string& list) {
  std::vector<std::int64_t> numbers;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) numbers.push_back(std::stoll(item));
  return numbers;
}

Settings read(const Arguments& arguments) {
  Settings settings{};
  settings.tokens = numbers_in(arguments.text("tokens", "4608,16896"));
  settings.text = static_cast<std::int64_t>(arguments.number("text", 0));
  settings.heads = static_cast<std::int64_t>(arguments.number("heads", 24));
  settings.kv_heads =
      static_cast<std::int64_t>(arguments.number("kv-heads", static_cast<double>(settings.heads)));
  settings.dim = static_cast<std::int64_t>(arguments.number("head-dim", 128));
  settings.nccl = arguments.text("nccl", "");
  settings.json = arguments.text("json", "");
  settings.seconds = arguments.number("seconds", 2);
  settings.zero_cta = arguments.number("zero-cta", 0) != 0;
  settings.layers = static_cast<int>(arguments.number("layers", 10));
  return settings;
}

/// Sessions that ways use: libtapa's, and NCCL's where there is one.
struct Sessions {
  Sessions(Job& job, const Settings& settings) : tapa("tapa") {
    try {
      nccl.emplace("nccl", settings.nccl.empty() ? "" : "library=" + settings.nccl);
      const Memory probe(64);
      (void)nccl->enlist(probe.get(), probe.bytes(), device_of(job.rank()));
      zero_cta.emplace("nccl", "zero-cta=1" + (settings.nccl.empty() ? "" : ",library=" + settings.nccl));
      nccl_allocate = nccl_memory(settings.nccl.empty() ? "libnccl.so.2" : settings.nccl);
    } catch (const std::exception& error) {  // alike on all ranks
      nccl.reset();
      zero_cta.reset();
      if (job.rank() == 0) std::printf("no NCCL: %s\n", error.what());
    }
  }
  Session tapa;
  std::optional<Session> nccl, zero_cta;
  Allocate nccl_allocate;
};

/// Microseconds of a layer, of the slower rank.
double time_of(const Settings& settings, const Stream& stream, const std::function<void()>& put) {
  Job::barrier();
  const auto began = Clock::now();
  put();
  stream.wait();
  return Job::greatest(std::chrono::duration<double>(Clock::now() - began).count()) * 1e6 / settings.layers;
}

class Comparison {
 public:
  Comparison(Job& job, const Settings& settings, const Sessions& sessions, std::int64_t tokens)
      : job_(job),
        settings_(settings),
        shape_{tokens, settings.text, settings.heads, settings.kv_heads, settings.dim},
        layout_(make_layout(attention_shape(shape_), job.size())),
        sizes_(shape_, layout_, job.rank()),
        sources_(sizes_, job.rank()),
        preparations_(shape_) {
    const int device = device_of(job.rank());
    const bool alike = shape_.heads == shape_.kv_heads && shape_.heads >= job.size();
    const auto add = [&](const std::string& name, const Session& session, Method method, bool prepared,
                         const Allocate& allocate = cuda_memory) {
      ways_.push_back(std::make_unique<Way>(WayOptions{name, method, prepared, allocate}, shape_, layout_,
                                            sizes_, session, device, preparations_));
    };
    add("tapa", sessions.tapa, Method::one_by_one, false);
    if (alike) add("tapa-qkv", sessions.tapa, Method::one_exchange, false);
    add("tapa-push", sessions.tapa, Method::push, false);
    add("tapa-norm-rope", sessions.tapa, Method::one_by_one, true);
    add("tapa-norm-rope-push", sessions.tapa, Method::push, true);
    if (!sessions.nccl) return;
    add("nccl", *sessions.nccl, Method::one_by_one, false);
    if (alike) add("nccl-qkv", *sessions.nccl, Method::one_exchange, false);
    add("nccl-norm-rope", *sessions.nccl, Method::one_by_one, true);
    if (!settings.zero_cta) return;
    add("nccl-zero-cta", *sessions.zero_cta, Method::one_by_one, false, sessions.nccl_allocate);
    if (alike)
      add("nccl-zero-cta-qkv", *sessions.zero_cta, Method::one_exchange, false, sessions.nccl_allocate);
  }

  /// How many ways gave other bits than host memory over MPI.
  std::uint64_t check() {
    const std::vector<std::uint8_t> plain = expected_results(shape_, layout_, sizes_, sources_, nullptr);
    const std::vector<std::uint8_t> prepared =
        expected_results(shape_, layout_, sizes_, sources_, &preparations_);
    std::uint64_t wrong = 0;
    for (const auto& way : ways_) {
      const std::vector<std::uint8_t>& expected = way->prepared() ? prepared : plain;
      way->clear();
      Job::barrier();
      way->put(sources_, stream_.get());
      stream_.wait();
      const std::vector<std::uint8_t> results = way->results();
      const std::uint64_t differ = Job::sum(results == expected ? 0 : 1);
      if (results != expected) say_wrong(*way, results, expected);
      wrong += differ;
      Job::barrier();
    }
    return wrong;
  }

  void run(nlohmann::json& rows) {
    measure("graph", rows, [&](const Way& way) {
      auto graph = std::make_shared<Graph>(stream_, [&] { put_layers(way); });
      return [this, graph] { graph->launch(stream_); };
    });
    measure("eager", rows, [&](const Way& way) { return [this, &way] { put_layers(way); }; });
  }

 private:
  /// Which tensors have wrong bytes, and how many.
  void say_wrong(const Way& way, const std::vector<std::uint8_t>& results,
                 const std::vector<std::uint8_t>& expected) const {
    const std::pair<const char*, std::size_t> tensors[] = {
        {"Q", sizes_.query}, {"K", sizes_.key}, {"V", sizes_.value}, {"O", sizes_.output}};
    std::size_t at = 0;
    for (const auto& [name, bytes] : tensors) {
      std::size_t wrong = 0;
      for (const std::size_t end = at + bytes; at < end; ++at) wrong += results[at] != expected[at] ? 1 : 0;
      if (wrong > 0)
        std::printf("rank %d: %s: WRONG BITS: %zu of %zu bytes of %s\n", job_.rank(), way.name().c_str(),
                    wrong, bytes, name);
    }
    std::fflush(stdout);
  }
  void put_layers(const Way& way) const {
    for (int layer = 0; layer < settings_.layers; ++layer) way.put(sources_, stream_.get());
  }

  template <class Prepare>
  void measure(const char* mode, nlohmann::json& rows, const Prepare& prepare) {
    std::vector<std::function<void()>> puts;
    for (const auto& way : ways_) puts.emplace_back(prepare(*way));
    std::vector<std::vector<double>> times(ways_.size());
    const auto began = Clock::now();
    for (int round = -3; times[0].size() < 5 || more(began); ++round) {
      for (std::size_t way = 0; way < ways_.size(); ++way) {
        const double microseconds = time_of(settings_, stream_, puts[way]);
        if (round >= 0) times[way].push_back(microseconds);
      }
    }
    report(mode, times, rows);
  }

  [[nodiscard]] bool more(Clock::time_point began) const {
    const double passed = std::chrono::duration<double>(Clock::now() - began).count();
    return Job::greatest(passed) < settings_.seconds;
  }

  void report(const char* mode, const std::vector<std::vector<double>>& times, nlohmann::json& rows) const {
    double rivals[2] = {0, 0};  // of numbers as they are, and with norm and RoPE
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      const double median = summarize(times[way]).median;
      double& rival = rivals[ways_[way]->prepared() ? 1 : 0];
      if (ways_[way]->name().rfind("nccl", 0) == 0 && (rival == 0 || median < rival)) rival = median;
    }
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      const Summary summary = summarize(times[way]);
      const double rival = rivals[ways_[way]->prepared() ? 1 : 0];
      rows.push_back({{"ranks", job_.size()},
                      {"tokens", shape_.tokens},
                      {"text", shape_.text},
                      {"heads", shape_.heads},
                      {"kv_heads", shape_.kv_heads},
                      {"head_dim", shape_.dim},
                      {"mode", mode},
                      {"way", ways_[way]->name()},
                      {"microseconds", summary.median},
                      {"spread", summary.spread()},
                      {"samples", summary.count},
                      {"against_nccl", rival / summary.median}});
      if (job_.rank() == 0)
        std::printf("%7lld %-6s %-20s %9.1f %8.2f %7.1f %%\n", static_cast<long long>(shape_.tokens), mode,
                    ways_[way]->name().c_str(), summary.median, rival / summary.median,
                    100 * summary.spread());
    }
    std::fflush(stdout);
  }

  Job& job_;
  Settings settings_;
  Shape shape_;
  Layout layout_;
  Sizes sizes_;
  Sources sources_;
  Preparations preparations_;
  Stream stream_;
  std::vector<std::unique_ptr<Way>> ways_;
};

int run(Job& job, int argc, char** argv) {
  const Settings settings = read(Arguments(argc, argv));
  take_device(job.rank());
  const Sessions sessions(job, settings);
  nlohmann::json rows = nlohmann::json::array();
  std::uint64_t wrong = 0;
  if (job.rank() == 0)
    std::printf(
        "%d ranks, %lld heads of %lld, %lld key heads, %lld text tokens; microseconds of a layer\n"
        " tokens mode   way                         us  NCCL/it  spread\n",
        job.size(), static_cast<long long>(settings.heads), static_cast<long long>(settings.dim),
        static_cast<long long>(settings.kv_heads), static_cast<long long>(settings.text));
  for (const std::int64_t tokens : settings.tokens) {
    Comparison comparison(job, settings, sessions, tokens);
    wrong += comparison.check();
    if (wrong == 0) comparison.run(rows);
  }
  if (job.rank() == 0 && !settings.json.empty()) write_file("--json", settings.json, rows.dump(1) + "\n");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tapa::bench

constexpr char kUsage[] =
    R"(usage: mpirun -n RANKS ulysses [--tokens 4608,16896] [--heads 24] [--kv-heads N] [--head-dim 128] [--text N]
  [--nccl LIBRARY] [--zero-cta 1] [--layers N] [--seconds S] [--json FILE]

The exchanges of one attention layer, Q, K and V in and O out, bf16: libdit over plugin tapa against permute
+ NCCL, all in turns in one run.
--zero-cta 1: also NCCL without thread blocks, whose bits were wrong here where memory was not registered
(2.28.9).
)";

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
  return tapa::bench::run_program("ulysses", argc, argv,
                                  [&](tapa::bench::Job& job) { return tapa::bench::run(job, argc, argv); });
}
