// What a wire policy's guard costs on device memory; the usage is at the end.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/statistics.hpp"
#include "gpu.hpp"
#include "plain_flags.h"
#include "wires.hpp"

namespace tapa::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSteps = 2;    // the first is not timed: nothing is remembered yet
constexpr int kSeries = 20;  // exchanges put on the stream before a wait

struct Guard {
  const char* name;
  const char* value;
};
constexpr Guard kGuards[] = {{"no guard", "0"}, {"silent", "1000000"}, {"speaks", "1e-9"}};

std::string policy_of(const std::string& mode, const char* guard, const std::string& level) {
  return on_all_links(std::string(R"({"format": "dit-wire-policy", "version": 1, "guard": )") + guard +
                          R"(, "rules": [{"mode": ")" + mode + "\"}]}",
                      level);
}

/// Exchanges under one guard.
class Way {
 public:
  Way(const Session& session, const Layout& layout, const std::string& policy, int device)
      : wire_(session, layout, policy, 1, kSteps, DIT_ELEMENT_BF16),
        transfer_(session, layout, DIT_SCATTER_QUERY, 2, DIT_MEMORY_CUDA, 0, 1, wire_.get()),
        from_(transfer_.source_bytes()),
        to_(transfer_.target_bytes()),
        device_(device) {
    const std::vector<std::uint8_t> sent = numbers(from_.bytes(), DIT_ELEMENT_BF16, 7, 0);
    cuda(cudaMemcpy(from_.get(), sent.data(), sent.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    put(0);
    stream_.wait();
  }

  /// Seconds of an exchange when so many are put on the stream before a wait.
  double seconds(int series) {
    Job::barrier();
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < series; ++i) put(1);
    stream_.wait();
    return Job::greatest(std::chrono::duration<double>(Clock::now() - begin).count()) / series;
  }
  std::vector<double> single, in_series;

 private:
  void put(int step) {
    dit_transfer_call call = Transfer::call_of(dense(from_.get(), from_.bytes()),
                                               dense(to_.get(), to_.bytes()), device_, stream_.get());
    call.step = step;
    dit_call(dit_transfer_start(transfer_.get(), &call));
    dit_call(dit_transfer_wait_stream(transfer_.get(), stream_.get()));
  }

  Wire wire_;
  Transfer transfer_;
  Memory from_, to_;
  Stream stream_;
  int device_;
};

int run(Job& job, int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const int device = take_device(job.rank());
  dit_attention_shape shape{};
  shape.struct_size = sizeof(shape);
  shape.batch = 1;
  shape.image_tokens = static_cast<std::int64_t>(arguments.number("tokens", 4608));
  shape.heads = shape.kv_heads = static_cast<std::int64_t>(arguments.number("heads", 24));
  shape.head_dim = static_cast<std::int64_t>(arguments.number("head-dim", 128));
  const std::string mode = arguments.text("mode", "residual int4");
  const double seconds = arguments.number("seconds", 2);
  const Session session(arguments.text("plugin", Job::device_plugin()));
  const Layout layout = make_layout(shape, job.size());
  std::vector<std::unique_ptr<Way>> ways;
  for (const Guard& guard : kGuards)
    ways.push_back(
        std::make_unique<Way>(session, layout, policy_of(mode, guard.value, nearest_level(session)), device));
  for (const Clock::time_point begin = Clock::now();
       Job::greatest(std::chrono::duration<double>(Clock::now() - begin).count()) < seconds;)
    for (const auto& way : ways) {
      way->single.push_back(way->seconds(1));
      way->in_series.push_back(way->seconds(kSeries));
    }
  if (job.rank() == 0) {
    std::printf("Q of %jd tokens, %jd heads of %jd, bf16, as %s; %d ranks; medians of %zu\n",
                static_cast<std::intmax_t>(shape.image_tokens), static_cast<std::intmax_t>(shape.heads),
                static_cast<std::intmax_t>(shape.head_dim), mode.c_str(), job.size(), ways[0]->single.size());
    for (std::size_t i = 0; i < ways.size(); ++i)
      std::printf("%-10s one by one %8.1f us, %d behind each other %8.1f us each\n", kGuards[i].name,
                  1e6 * summarize(ways[i]->single).median, kSeries,
                  1e6 * summarize(ways[i]->in_series).median);
  }
  return 0;
}

}  // namespace
}  // namespace tapa::bench

constexpr char kUsage[] =
    R"(usage: mpirun -n RANKS ulysses_guard [--plugin tapa] [--tokens 4608] [--heads 24] [--head-dim 128]
  [--mode "residual int4"] [--seconds S]

What a wire policy's guard costs on device memory: exchanges of Q under one policy, without a guard, with
one that never speaks and with one that always does, in turns in one run.
)";

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
  return tapa::bench::run_program("ulysses_guard", argc, argv,
                                  [&](tapa::bench::Job& job) { return tapa::bench::run(job, argc, argv); });
}
