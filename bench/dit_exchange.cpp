// How much of an exchange hides behind computation: exchange alone, computation alone, both at once, for
// several exchange plugins in one job, in turns. The computation is an amount of work, not of time: what
// progress costs in cycles shows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/statistics.hpp"
#include "exchange/exchange.hpp"
#include "version_flag.hpp"
#include "write_file.hpp"

namespace {

using tapa::bench::summarize;

struct Options {
  std::vector<std::string> plugins{"mpi", "tapa"};
  std::vector<std::size_t> sizes{1024, 4096, 16384, 65536};
  std::optional<double> compute_ms;
  int repeats = 7;
  std::string config;
  bool no_ids = false;
  std::string json;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Matrix products that fit into a core's cache.
class Work {
 public:
  Work() : a_(kSide * kSide, 0.5F), b_(kSide * kSide, 0.25F), c_(kSide * kSide) {}

  void run(long products) {
    for (long i = 0; i < products; ++i) multiply();
    sink_ = c_[static_cast<std::size_t>(products) % c_.size()];
  }

 private:
  static constexpr std::size_t kSide = 64;

  void multiply() {
    for (std::size_t row = 0; row < kSide; ++row)
      for (std::size_t k = 0; k < kSide; ++k)
        for (std::size_t column = 0; column < kSide; ++column)
          c_[row * kSide + column] += a_[row * kSide + k] * b_[k * kSide + column];
  }
  std::vector<float> a_, b_, c_;
  volatile float sink_ = 0;  // keeps the work from being optimised away
};

/// One plugin with its buffers.
class Contender {
 public:
  Contender(const std::string& plugin, const Options& options)
      : context_(dit::ExchangePlugin::load(plugin), {nullptr, 0, options.config}),
        layouts_(!options.no_ids) {}

  void resize(std::size_t bytes) {
    if (layouts_) layout_id_ = bytes;
    const auto size = static_cast<std::size_t>(context_.size());
    send_.assign(size * bytes, std::byte{1});
    recv_.assign(size * bytes, std::byte{0});
    blocks_.clear();
    for (std::size_t peer = 0; peer < size; ++peer) blocks_.push_back({peer * bytes, bytes});
  }
  [[nodiscard]] dit::ExchangeContext& context() { return context_; }
  [[nodiscard]] dit::ExchangeRequest start() { return context_.start(call()); }
  void exchange_blocking() { context_.exchange(call()); }

 private:
  [[nodiscard]] dit_exchange_call call() {
    dit_exchange_call call{};
    call.struct_size = sizeof call;
    call.send = send_.data();
    call.recv = recv_.data();
    call.send_blocks = call.recv_blocks = blocks_.data();
    call.label = "benchmark";
    call.layout_id = layout_id_;
    return call;
  }

  dit::ExchangeContext context_;
  std::vector<std::byte> send_, recv_;
  std::vector<dit_block> blocks_;
  bool layouts_;
  std::uint64_t layout_id_ = 0;
};

/// Medians over repeats, milliseconds.
struct Row {
  std::string plugin;
  std::size_t bytes = 0;
  double blocking = 0, exchange = 0, compute = 0, both = 0;

  /// Part of what could be hidden (the shorter of the two) that was.
  [[nodiscard]] double hidden() const {
    return (exchange + compute - both) / std::max(std::min(exchange, compute), 1e-9);
  }
};

class Benchmark {
 public:
  explicit Benchmark(const Options& options) : options_(options) {
    for (const std::string& plugin : options.plugins) contenders_.emplace_back(plugin, options);
    first_ = contenders_.front().context().rank() == 0;
  }

  void run() {
    for (auto& contender : contenders_)
      if (first_) std::printf("# %s\n", contender.context().describe().c_str());
    calibrate();
    if (first_)
      std::printf("#%-7s %10s %12s %12s %12s %12s %8s\n", "plugin", "bytes", "blocking_ms", "exchange_ms",
                  "compute_ms", "both_ms", "hidden");
    for (const std::size_t bytes : options_.sizes) one_size(bytes);
    if (first_ && !options_.json.empty()) write_json();
  }

 private:
  /// Time of one `body` of many in a row, of the slowest rank: ranks that share cores do not compute at the
  /// same time, so a single one would look shorter than it is. Alike on all ranks.
  double each_ms(const std::function<void()>& body, double estimate_ms) {
    constexpr double kSampleMs = 150;
    const int count = std::clamp(static_cast<int>(kSampleMs / std::max(estimate_ms, 1e-3)), 1, 2000);
    dit::ExchangeContext& context = contenders_.front().context();
    context.barrier();
    const double begin = now();
    for (int i = 0; i < count; ++i) body();
    const double own = (now() - begin) * 1e3 / count;
    const auto all = context.all_gather(std::as_bytes(std::span(&own, 1)));
    double slowest = 0;
    for (std::size_t at = 0; at < all.size(); at += sizeof own) {
      double other = 0;
      std::memcpy(&other, all.data() + at, sizeof other);
      slowest = std::max(slowest, other);
    }
    return slowest;
  }

  /// Products in a millisecond while all ranks compute.
  void calibrate() {
    constexpr double kEnoughMs = 100;
    constexpr double kOnce = 1e9;  // an estimate that makes one run a sample
    double ms = 0;
    for (long products = 1000; ms < kEnoughMs; products *= 2) {
      ms = each_ms([&] { work_.run(products); }, kOnce);
      per_ms_ = static_cast<double>(products) / ms;
    }
  }

  void one_size(std::size_t bytes) {
    const std::size_t n = contenders_.size();
    std::vector<double> guess(n);
    std::vector<std::vector<double>> blocking(n), exchange(n), compute(n), both(n);
    for (std::size_t i = 0; i < n; ++i) {
      contenders_[i].resize(bytes);
      for (int run = 0; run < 3; ++run) guess[i] = each_ms([&] { contenders_[i].exchange_blocking(); }, 50);
    }
    in_turns([&](std::size_t i) {
      blocking[i].push_back(each_ms([&] { contenders_[i].exchange_blocking(); }, guess[i]));
      exchange[i].push_back(each_ms([&] { contenders_[i].start().wait(); }, guess[i]));
    });
    double longest = 0;
    for (const auto& samples : exchange) longest = std::max(longest, summarize(samples).median);
    const double compute_ms = options_.compute_ms.value_or(longest);
    const auto products = std::max(1L, static_cast<long>(per_ms_ * compute_ms));
    in_turns([&](std::size_t i) {
      compute[i].push_back(each_ms([&] { work_.run(products); }, compute_ms));
      both[i].push_back(each_ms(
          [&] {
            dit::ExchangeRequest request = contenders_[i].start();
            work_.run(products);
            request.wait();
          },
          compute_ms + guess[i]));
    });
    for (std::size_t i = 0; i < n; ++i)
      report({contenders_[i].context().plugin().name(), bytes, summarize(blocking[i]).median,
              summarize(exchange[i]).median, summarize(compute[i]).median, summarize(both[i]).median});
  }

  void in_turns(const std::function<void(std::size_t)>& sample) {
    for (int repeat = 0; repeat < options_.repeats; ++repeat)
      for (std::size_t i = 0; i < contenders_.size(); ++i) sample(i);
  }

  void report(const Row& row) {
    rows_.push_back(row);
    if (!first_) return;
    std::printf("%-8s %10zu %12.3f %12.3f %12.3f %12.3f %8.2f\n", row.plugin.c_str(), row.bytes, row.blocking,
                row.exchange, row.compute, row.both, row.hidden());
    std::fflush(stdout);
  }

  void write_json() {
    nlohmann::json rows = nlohmann::json::array();
    for (const Row& row : rows_)
      rows.push_back({{"plugin", row.plugin},
                      {"bytes", row.bytes},
                      {"blocking_ms", row.blocking},
                      {"exchange_ms", row.exchange},
                      {"compute_ms", row.compute},
                      {"both_ms", row.both},
                      {"hidden", row.hidden()}});
    dit::ExchangeContext& context = contenders_.front().context();
    const nlohmann::json all{{"benchmark", "dit_exchange"},
                             {"machine", {{"ranks", context.size()}, {"text", context.describe()}}},
                             {"rows", rows}};
    tapa::write_file("--json", options_.json, all.dump(2) + "\n");
  }

  const Options& options_;
  std::vector<Contender> contenders_;
  bool first_ = false;
  Work work_;
  double per_ms_ = 0;
  std::vector<Row> rows_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("How much of an exchange hides behind computation, for exchange plugins in turns",
               "dit_exchange");
  tapa::add_version_flag(app);
  app.add_option("--plugins", options.plugins, "exchange plugins, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--sizes", options.sizes, "bytes for each pair of ranks, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--compute-ms", options.compute_ms,
                 "length of the computation; default: as long as the slowest plugin's exchange")
      ->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats, "samples; medians are reported")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--config", options.config, "settings for all plugins, such as poll_us=200");
  app.add_flag("--no-ids", options.no_ids,
               "give no layout_id: plugins learn the sizes of blocks anew each time");
  app.add_option("--json", options.json, "file to write the table to");
  CLI11_PARSE(app, argc, argv);
  try {
    Benchmark(options).run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dit_exchange: %s\n", e.what());
    return 1;
  }
  return 0;
}
