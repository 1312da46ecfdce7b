// Transfers of device memory under wire policies against those of host memory; the usage is at the end.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "gpu.hpp"
#include "plain_flags.h"
#include "wires.hpp"

namespace tapa::bench {
namespace {

constexpr int kLayers = 2;
constexpr int kKinds = 4;

struct Case {
  const char* name;
  std::int64_t batch, text, image, heads, kv_heads, dim;
  unsigned flags;
  int element;
  int steps;
};

constexpr Case kCases[] = {
    {"FLUX, small", 1, 32, 96, 24, 24, 128, 0, DIT_ELEMENT_BF16, 8},
    {"uneven tokens and heads", 1, 0, 37, 5, 5, 64, 0, DIT_ELEMENT_FP32, 8},
    {"batch, joint text behind", 3, 7, 22, 6, 6, 32, DIT_LAYOUT_IMAGE_FIRST, DIT_ELEMENT_FP16, 8},
    {"grouped queries", 1, 5, 40, 12, 4, 40, 0, DIT_ELEMENT_BF16, 8},
    {"fewer heads than ranks", 2, 6, 33, 2, 1, 16, 0, DIT_ELEMENT_FP32, 8},
    {"long", 1, 64, 448, 24, 24, 128, 0, DIT_ELEMENT_BF16, 6},
};
constexpr const char* kRows = R"({"format": "dit-wire-policy", "version": 1, "name": "rows", "momentum": 0.5,
  "most_age": 3, "rules": [{"mode": "rows 0.4 residual int8"}, {"mode": "rows 0.7 fp8", "tensors": ["v", "o"]}]})";
constexpr const char* kSkips =
    R"({"format": "dit-wire-policy", "version": 1, "name": "skips", "momentum": 0.5,
  "rules": [{"mode": "residual int2"}, {"mode": "skip", "steps": [2, 3]}, {"mode": "late bf16", "steps": [4, 5]}]})";
/// A guard speaks of some exchanges: where steps are skipped or all is coded in few bits; or of all.
constexpr const char* kGuard =
    R"({"format": "dit-wire-policy", "version": 1, "name": "guard", "momentum": 0.5, "guard": 0.2, "most_age": 3,
  "rules": [{"mode": "residual int4"}, {"mode": "rows 0.4 residual int8", "steps": [1, 3], "tensors": ["q", "o"]},
            {"mode": "skip", "steps": [3, 4]}, {"mode": "late residual int2", "steps": [5, 6], "tensors": ["k"]}]})";
constexpr const char* kGuardAlways =
    R"({"format": "dit-wire-policy", "version": 1, "name": "guard-always", "guard": 1e-6,
  "rules": [{"mode": "rows 0.5 residual int2"}]})";
constexpr const char* kVMajor = "v-major:warmup=1,refresh=4,ratio=0.6,format=residual-int4";

struct Policy {
  const char* name;
  const char* text;
  bool has_guard = false;
};
constexpr Policy kPolicies[] = {{"exact", "exact"},       {"bf16", "bf16"},
                                {"fp8", "fp8"},           {"int8", "int8"},
                                {"fine", "fine"},         {"good", "good"},
                                {"balanced", "balanced"}, {"fast", "fast"},
                                {"draft", "draft"},       {"displaced", "displaced"},
                                {"rows", kRows},          {"skips", kSkips},
                                {"paper", "paper"},       {"v-major", kVMajor},
                                {"guard", kGuard, true},  {"guard-always", kGuardAlways, true}};

/// One run on both.
class Run {
 public:
  Run(const Job& job, const Session& host, const Session& device, const Case& of, const std::string& policy)
      : job_(job), of_(of), layout_(make_layout(shape_of(of), job.size())) {
    const std::string text = Wire(device, layout_, policy, kLayers, of.steps, of.element).text();
    on_host_ = std::make_unique<Wire>(host, layout_, on_all_links(text, nearest_level(host)), kLayers,
                                      of.steps, of.element);
    on_device_ = std::make_unique<Wire>(device, layout_, on_all_links(text, nearest_level(device)), kLayers,
                                        of.steps, of.element);
    for (int kind = 0; kind < kKinds; ++kind) {
      reference_.emplace_back(host, layout_, kind, element_bytes(of.element), DIT_MEMORY_HOST, 0, 1,
                              on_host_->get());
      tested_.emplace_back(device, layout_, kind, element_bytes(of.element), DIT_MEMORY_CUDA, 0, 1,
                           on_device_->get());
      from_.push_back(std::make_unique<Memory>(tested_.back().source_bytes() + 16));
      to_.push_back(std::make_unique<Memory>(tested_.back().target_bytes() + 16));
    }
  }

  /// Exchanges that the guard has sent in bf16, of all tensors.
  [[nodiscard]] std::uint64_t guarded() const { return guarded_by(tested_); }

  /// Whether a start under a guard is refused in a captured stream, and nothing is left of it.
  [[nodiscard]] bool refuses_capture(int device) const {
    cudaGraph_t graph = nullptr;
    const Transfer& tested = tested_.front();
    const dit_transfer_call call =
        Transfer::call_of(dense(from_.front()->get(), tested.source_bytes()),
                          dense(to_.front()->get(), tested.target_bytes()), device, stream_.get());
    cuda(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    const dit_status status = dit_transfer_start(tested.get(), &call);
    cuda(cudaStreamEndCapture(stream_.get(), &graph), "cudaStreamEndCapture");
    std::size_t nodes = 0;
    cuda(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
    cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return status == DIT_ERROR_UNSUPPORTED && nodes == 0;
  }

  /// Transfers with other bits.
  std::uint64_t go(int device, std::uint32_t seed) {
    std::uint64_t wrong = 0;
    for (int step = 0; step < of_.steps; ++step) {
      for (int layer = 0; layer < kLayers; ++layer) {
        for (const std::size_t kind : {2U, 0U, 1U, 3U}) {  // V first: it chooses rows
          wrong += is_equal(device, seed, step, layer, kind) ? 0 : 1;
        }
      }
    }
    return guarded_by(tested_) == guarded_by(reference_) ? wrong : wrong + 1;
  }

 private:
  static std::uint64_t guarded_by(const std::vector<Transfer>& transfers) {
    std::uint64_t all = 0;
    for (const Transfer& transfer : transfers) {
      std::uint64_t guarded = 0;
      dit_call(dit_transfer_guarded(transfer.get(), &guarded));
      all += guarded;
    }
    return all;
  }

  bool is_equal(int device, std::uint32_t seed, int step, int layer, std::size_t kind) {
    const Transfer& reference = reference_[kind];
    const Transfer& tested = tested_[kind];
    const auto own =
        static_cast<std::uint32_t>(job_.rank() * 64 + layer * 8) + static_cast<std::uint32_t>(kind);
    std::vector<std::uint8_t> sent = numbers(reference.source_bytes(), of_.element, seed * 1024 + own, step);
    std::vector<std::uint8_t> expected(reference.target_bytes(), 0xA5), got(expected.size());
    dit_transfer_call call = Transfer::call_of(dense(sent.data(), sent.size()),
                                               dense(expected.data(), expected.size()), 0, nullptr);
    call.layer = layer;
    call.step = step;
    dit_call(dit_transfer_start(reference.get(), &call));
    dit_call(dit_transfer_wait(reference.get()));

    char* const from = from_[kind]->get();
    char* const to = to_[kind]->get();
    cuda(cudaMemcpyAsync(from, sent.data(), sent.size(), cudaMemcpyHostToDevice, stream_.get()), "upload");
    cuda(cudaMemsetAsync(to, 0xA5, got.size(), stream_.get()), "cudaMemsetAsync");
    call.source = dense(from, sent.size());
    call.target = dense(to, got.size());
    call.device = device;
    call.stream = stream_.get();
    dit_call(dit_transfer_start(tested.get(), &call));
    dit_call(step % 2 == 0 ? dit_transfer_wait_stream(tested.get(), stream_.get())
                           : dit_transfer_wait(tested.get()));
    cuda(cudaMemcpyAsync(got.data(), to, got.size(), cudaMemcpyDeviceToHost, stream_.get()), "download");
    stream_.wait();
    if (got == expected) return true;
    const auto at = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
    std::fprintf(stderr, "rank %d: %s, step %d, layer %d, tensor %zu: byte %td of %zu differs\n", job_.rank(),
                 of_.name, step, layer, kind, at, got.size());
    return false;
  }

  const Job& job_;
  const Case& of_;
  Layout layout_;
  std::unique_ptr<Wire> on_host_, on_device_;
  std::vector<std::unique_ptr<Memory>> from_, to_;
  std::vector<Transfer> reference_, tested_;
  Stream stream_;
};

/// Whether a list of names with commas between them has a name, or has none at all.
bool is_listed(const std::string& list, const std::string& name) {
  return list.empty() || ("," + list + ",").find("," + name + ",") != std::string::npos;
}

int run(Job& job, int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const int device = take_device(job.rank());
  const auto seed = static_cast<std::uint32_t>(arguments.number("seed", 1));
  const std::string policies = arguments.text("policies", ""), cases = arguments.text("cases", "");
  std::uint64_t wrong = 0;
  {
    const Session host(Job::host_plugin()), tested(arguments.text("plugin", Job::device_plugin()));
    for (const Case& of : kCases) {
      if (!is_listed(cases, std::to_string(&of - kCases))) continue;
      for (const Policy& policy : kPolicies) {
        if (!is_listed(policies, policy.name)) continue;
        Run both(job, host, tested, of, policy.text);
        const bool captured = policy.has_guard && !both.refuses_capture(device);
        const std::uint64_t here = Job::sum(both.go(device, seed) + (captured ? 1 : 0));
        if (job.rank() == 0) std::printf("%-26s %-12s %s", of.name, policy.name, here == 0 ? "ok" : "WRONG");
        if (job.rank() == 0 && policy.has_guard)
          std::printf(", %ju of %d exchanges sent in bf16 by the guard",
                      static_cast<std::uintmax_t>(both.guarded()), of.steps * kLayers * kKinds);
        if (job.rank() == 0) std::printf("\n");
        std::fflush(stdout);
        wrong += here;
      }
    }
  }
  if (job.rank() == 0) std::printf("%s\n", wrong == 0 ? "all ok" : "SOMETHING IS WRONG");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tapa::bench

constexpr char kUsage[] =
    R"(usage: mpirun -n RANKS ulysses_coded [--plugin tapa] [--seed N] [--policies NAME,NAME...] [--cases N,N...]

Transfers of device memory under wire policies against the same transfers of host memory over MPI: whole
runs, step by step, with equal bits.
)";

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
  return tapa::bench::run_program("ulysses_coded", argc, argv,
                                  [&](tapa::bench::Job& job) { return tapa::bench::run(job, argc, argv); });
}
