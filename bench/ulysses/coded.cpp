// Transfers of device memory under wire policies against the same transfers of host memory over MPI: whole
// runs, step by step, with equal bits. mpirun -n RANKS ulysses_coded [--plugin tapa] [--seed N]
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "gpu.hpp"
#include "ranks.hpp"

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
constexpr const char* kVMajor = "v-major:warmup=1,refresh=4,ratio=0.6,format=residual-int4";

struct Policy {
  const char* name;
  const char* text;
};
constexpr Policy kPolicies[] = {{"exact", "exact"},         {"bf16", "bf16"},    {"fp8", "fp8"},
                                {"int8", "int8"},           {"fine", "fine"},    {"good", "good"},
                                {"balanced", "balanced"},   {"fast", "fast"},    {"draft", "draft"},
                                {"displaced", "displaced"}, {"rows", kRows},     {"skips", kSkips},
                                {"paper", "paper"},         {"v-major", kVMajor}};

class Wire : public Owner<dit_wire, dit_wire_free> {
 public:
  Wire(const Session& session, const Layout& layout, const std::string& policy, const Case& of) {
    dit_wire_options options{};
    options.struct_size = sizeof(options);
    options.policy = policy.c_str();
    options.layers = kLayers;
    options.steps = of.steps;
    options.branches = 1;
    options.groups = 1;
    options.element_type = of.element;
    dit_call(dit_wire_create(session.get(), layout.get(), &options, place()));
  }
  [[nodiscard]] std::string text() const {
    std::size_t length = 0;
    dit_call(dit_wire_text(get(), nullptr, 0, &length));
    std::string text(length + 1, '\0');
    dit_call(dit_wire_text(get(), text.data(), text.size(), nullptr));
    text.resize(length);
    return text;
  }
};

/// The preset for all links: a node has none that leave it.
std::string on_all_links(std::string policy, const std::string& level) {
  const std::string mode = "\"mode\"";
  for (std::size_t at = policy.find(mode); at != std::string::npos; at = policy.find(mode, at)) {
    const std::string with = "\"level\": \"" + level + "\", ";
    policy.insert(at, with);
    at += with.size() + mode.size();
  }
  return policy;
}

std::string nearest_level(const Session& session) {
  const dit_exchange_plugin* plugin = nullptr;
  dit_context* context = nullptr;
  dit_call(dit_session_plugin(session.get(), &plugin, &context));
  return plugin->level_name(context, 0);
}

std::size_t element_bytes(int element) {
  return element == DIT_ELEMENT_FP32 ? 4 : 2;
}

/// From -2 to 2, near 0 more often than far from it.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  float next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto part = [&](int shift) { return static_cast<float>(state_ >> shift & 0xffffU) * 0x1p-16F; };
    return part(48) + part(32) + part(24) + part(40) - 2.0F;
  }

 private:
  std::uint64_t state_;
};

/// Numbers that move a little from step to step.
std::vector<std::uint8_t> numbers(std::size_t bytes, int element, std::uint32_t seed, int step) {
  Noise still(seed), moves(seed * std::uint64_t{31} + static_cast<std::uint64_t>(step) + 1);
  std::vector<std::uint8_t> memory(bytes);
  const std::size_t each = element_bytes(element);
  for (std::size_t at = 0; at + each <= bytes; at += each) {
    const float value = still.next() + 0.2F * moves.next();
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    if (element == DIT_ELEMENT_FP32) {
      std::memcpy(memory.data() + at, &value, 4);
    } else if (element == DIT_ELEMENT_BF16) {
      const auto half = static_cast<std::uint16_t>(bits >> 16U);
      std::memcpy(memory.data() + at, &half, 2);
    } else {  // fp16 of 2^-14 or more
      const std::uint32_t exponent = bits >> 23U & 255U;
      const auto half = static_cast<std::uint16_t>(
          (bits >> 16U & 0x8000U) | (exponent < 113 ? 0U : (exponent - 112) << 10U | (bits >> 13U & 0x3ffU)));
      std::memcpy(memory.data() + at, &half, 2);
    }
  }
  return memory;
}

/// One run on both.
class Run {
 public:
  Run(const Job& job, const Session& host, const Session& device, const Case& of, const std::string& policy)
      : job_(job), of_(of), layout_(make_layout(shape_of(of), job.size())) {
    const std::string text = Wire(device, layout_, policy, of).text();
    on_host_ = std::make_unique<Wire>(host, layout_, on_all_links(text, nearest_level(host)), of);
    on_device_ = std::make_unique<Wire>(device, layout_, on_all_links(text, nearest_level(device)), of);
    for (int kind = 0; kind < kKinds; ++kind) {
      reference_.emplace_back(host, layout_, kind, element_bytes(of.element), DIT_MEMORY_HOST, 0, 1,
                              on_host_->get());
      tested_.emplace_back(device, layout_, kind, element_bytes(of.element), DIT_MEMORY_CUDA, 0, 1,
                           on_device_->get());
      from_.push_back(std::make_unique<Memory>(tested_.back().source_bytes() + 16));
      to_.push_back(std::make_unique<Memory>(tested_.back().target_bytes() + 16));
    }
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
    return wrong;
  }

 private:
  bool is_equal(int device, std::uint32_t seed, int step, int layer, std::size_t kind) {
    const Transfer& reference = reference_[kind];
    const Transfer& tested = tested_[kind];
    const auto own =
        static_cast<std::uint32_t>(job_.rank() * 64 + layer * 8) + static_cast<std::uint32_t>(kind);
    std::vector<std::uint8_t> sent = numbers(reference.source_bytes(), of_.element, seed * 1024 + own, step);
    std::vector<std::uint8_t> expected(reference.target_bytes(), 0xA5), got(expected.size());
    dit_transfer_call call{};
    call.struct_size = sizeof(call);
    call.layer = layer;
    call.step = step;
    call.source = dense(sent.data(), sent.size());
    call.target = dense(expected.data(), expected.size());
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

int run(Job& job, int argc, char** argv) {
  const Arguments arguments(argc, argv);
  int devices = 0;
  cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  const int device = job.rank() % devices;
  cuda(cudaSetDevice(device), "cudaSetDevice");
  const auto seed = static_cast<std::uint32_t>(arguments.number("seed", 1));
  std::uint64_t wrong = 0;
  {
    const Session host(Job::host_plugin()), tested(arguments.text("plugin", Job::device_plugin()));
    for (const Case& of : kCases) {
      for (const Policy& policy : kPolicies) {
        const std::uint64_t here = Job::sum(Run(job, host, tested, of, policy.text).go(device, seed));
        if (job.rank() == 0)
          std::printf("%-26s %-10s %s\n", of.name, policy.name, here == 0 ? "ok" : "WRONG");
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

int main(int argc, char** argv) {
  return tapa::bench::run_program("ulysses_coded", argc, argv,
                                  [&](tapa::bench::Job& job) { return tapa::bench::run(job, argc, argv); });
}
