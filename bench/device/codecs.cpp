// device_codecs: the wire formats on a GPU: all bits against the processor's codec, then how fast they are;
// its usage is at the end.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "codec_cases.hpp"
#include "gpu.hpp"
#include "json_file.hpp"
#include "plain_flags.h"
#include "wire/device/code_kernels.hpp"

namespace {

using dit::CaseData;
using dit::CodecCase;
using dit::CodeJob;
using dit::CodeJobs;
using dit::CodeWork;
using dit::LaneFormat;
using tapa::bench::Arguments;
using tapa::bench::cuda;
using tapa::bench::Memory;
using tapa::bench::Stream;

CodeJobs one_job(const CodeJob& job) {
  CodeJobs jobs;
  jobs.count = 1;
  jobs.segments = job.segments;
  jobs.job[0] = job;
  return jobs;
}

/// Memory that grows.
class Arena {
 public:
  char* hold(std::size_t bytes) {
    if (memory_ == nullptr || memory_->bytes() < bytes)
      memory_ = std::make_unique<Memory>(std::max<std::size_t>(bytes, 1));
    return memory_->get();
  }

 private:
  std::unique_ptr<Memory> memory_;
};

class DeviceRunner final : public dit::CaseRunner {
 public:
  void run(bool encode, LaneFormat format, CodeJob job, CaseData& data) override {
    char* const tensor = to_device(0, data.tensor);
    char* const code = to_device(1, data.code);
    char* const rows = to_device(2, data.rows);
    char* const value = to_device(3, data.value);
    char* const digits = to_device(4, data.digits);
    char* const change = to_device(5, data.change);
    dit::point_to(
        job, data,
        {reinterpret_cast<std::byte*>(tensor), reinterpret_cast<std::uint8_t*>(code) + data.code_shift,
         reinterpret_cast<std::uint32_t*>(rows), reinterpret_cast<std::uint16_t*>(value),
         reinterpret_cast<std::uint8_t*>(digits), reinterpret_cast<std::uint8_t*>(change)});
    cuda(dit::launch_codec(encode ? CodeWork::encode : CodeWork::decode, format, !data.value.empty(),
                           one_job(job), stream_.get()),
         "launch_codec");
    from_device(tensor, data.tensor);
    from_device(code, data.code);
    from_device(value, data.value);
    from_device(digits, data.digits);
    from_device(change, data.change);
    stream_.wait();
  }

 private:
  template <typename T>
  char* to_device(int arena, const std::vector<T>& from) {
    char* const to = arenas_[arena].hold(from.size() * sizeof(T));
    cuda(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, stream_.get()),
         "copy");
    return to;
  }
  template <typename T>
  void from_device(const char* from, std::vector<T>& to) {
    cuda(cudaMemcpyAsync(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost, stream_.get()),
         "copy");
  }

  Stream stream_;
  Arena arenas_[6];
};

/// Of tensors as models have them, for each format.
std::vector<CodecCase> large_cases() {
  std::vector<CodecCase> cases;
  for (int format = 0; format < dit::kWireFormats; ++format) {
    CodecCase one;
    one.format = static_cast<dit::WireFormat>(format);
    one.element = dit::WireElement::bf16;
    one.memory = dit::CaseMemory::momentum;
    one.rows = 2304;
    one.heads = 12;
    one.head_dim = 128;
    cases.push_back(one);
    one.tensor = dit::CaseTensor::heads_apart;
    one.samples = 2;
    one.memory = dit::CaseMemory::none;
    one.element = dit::WireElement::fp32;
    cases.push_back(one);
  }
  return cases;
}

/// How many were wrong.
int check(int level, std::size_t every, int threads) {
  std::vector<CodecCase> cases = dit::codec_cases(level > 1);
  for (const CodecCase& one : large_cases()) cases.push_back(one);
  std::atomic<std::size_t> next{0};
  std::atomic<int> wrong{0};
  std::mutex printing;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < threads; ++worker) {
    workers.emplace_back([&] {
      try {
        DeviceRunner runner;
        for (std::size_t i = every * next++; i < cases.size(); i = every * next++) {
          const std::string words = dit::check_case(cases[i], runner);
          if (words.empty()) continue;
          const std::lock_guard<std::mutex> lock(printing);
          if (++wrong <= 20) std::printf("WRONG: %s\n", words.c_str());
        }
      } catch (const std::exception& error) {
        const std::lock_guard<std::mutex> lock(printing);
        std::printf("FAILED: %s\n", error.what());
        ++wrong;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::printf("bits: %zu blocks encoded and decoded, %d wrong\n", (cases.size() + every - 1) / every,
              wrong.load());
  return wrong;
}

constexpr int kSets = 4;  // that take turns
constexpr std::int64_t kHeads = 12, kAllHeads = 24, kHeadDim = 128;

/// Microseconds of one call, the best of several rows of calls.
double time_of(const Stream& stream, double seconds, const std::function<void(int)>& call) {
  cudaEvent_t begin = nullptr, end = nullptr;
  cuda(cudaEventCreate(&begin), "cudaEventCreate");
  cuda(cudaEventCreate(&end), "cudaEventCreate");
  constexpr int kCalls = 3 * kSets;
  for (int i = 0; i < kSets; ++i) call(i);
  double best = 0;
  for (double spent = 0; spent < seconds * 1e6;) {
    cuda(cudaEventRecord(begin, stream.get()), "cudaEventRecord");
    for (int i = 0; i < kCalls; ++i) call(i % kSets);
    cuda(cudaEventRecord(end, stream.get()), "cudaEventRecord");
    cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    const double each = static_cast<double>(milliseconds) * 1e3 / kCalls;
    best = best == 0 ? each : std::min(best, each);
    spent += each * kCalls;
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return best;
}

/// A block's tensor, code and memory, kSets times.
class Timed {
 public:
  Timed(std::int64_t rows, dit::WireElement element, dit::WireFormat format, bool remembers)
      : format_(dit::lane_format(format, element)), remembers_(remembers) {
    const dit::TensorShape shape{1, rows, kAllHeads, kHeadDim};
    const dit::PeerBlock block{kHeads * kHeadDim, {{kHeads * kHeadDim, rows, kAllHeads * kHeadDim}}};
    const auto numbers = static_cast<std::size_t>(block.elements());
    const std::size_t code = dit::Codec(format, element).encoded_bytes(rows, block.row_elements);
    const auto all = static_cast<std::size_t>(shape.elements());
    std::vector<float> values(1 << 20);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = normal(i);
    std::vector<std::byte> part(values.size() * bytes_of(element));
    dit::store_elements(values, element, part);
    for (int set = 0; set < kSets; ++set) {
      Memory& tensor = hold(all * bytes_of(element));
      for (std::size_t at = 0; at < tensor.bytes(); at += part.size()) {
        cuda(cudaMemcpy(tensor.get() + at, part.data(), std::min(part.size(), tensor.bytes() - at),
                        cudaMemcpyHostToDevice),
             "copy");
      }
      CodeJob job = dit::job_of(format, element,
                                dit::place_of(block, element, reinterpret_cast<std::byte*>(tensor.get()),
                                              shape, dense_strides(shape)),
                                rows, reinterpret_cast<std::uint8_t*>(hold(code).get()));
      if (remembers) {
        auto* const value = reinterpret_cast<std::uint16_t*>(hold(2 * numbers).get());
        auto* const digits = reinterpret_cast<std::uint8_t*>(hold(numbers).get());
        auto* const change = reinterpret_cast<std::uint8_t*>(hold(numbers).get());
        dit::give_memory(job, {value, digits, change}, 0.7F, true);
      }
      jobs_.push_back(one_job(job));
    }
    sums_ = reinterpret_cast<dit::BlockLoss*>(
        hold((numbers / dit::kWireSegment + 1) * sizeof(dit::BlockLoss)).get());
    bytes_ = static_cast<double>(numbers * bytes_of(element) + code + (remembers ? 8 * numbers : 0));
  }

  [[nodiscard]] double bytes() const { return bytes_; }
  void run(CodeWork direction, int set, const Stream& stream) const {
    cuda(
        dit::launch_codec(direction, format_, remembers_, jobs_[static_cast<std::size_t>(set)], stream.get()),
        "launch_codec");
  }
  /// What a guard looks at, told to memory of the host's.
  void sum(int set, dit::BlockLoss* told, const Stream& stream) const {
    dit::LossJobs losses{jobs_[static_cast<std::size_t>(set)], sums_, told};
    CodeJob& job = losses.jobs.job[0];
    job.memory.change = nullptr;
    job.segments = losses.jobs.segments =
        dit::segments_of(LaneFormat::fp32, job.numbers, job.place.row.value);
    cuda(dit::launch_losses(losses, stream.get()), "launch_losses");
  }

 private:
  static float normal(std::size_t i) {
    float sum = 0;
    std::uint64_t state = i * 0x9e3779b97f4a7c15U + 1;
    for (int k = 0; k < 6; ++k) {
      state ^= state >> 29;
      state *= 0xbf58476d1ce4e5b9U;
      sum += static_cast<float>(state >> 40) * 0x1p-24F - 0.5F;
    }
    return sum;
  }
  Memory& hold(std::size_t bytes) {
    memory_.push_back(std::make_unique<Memory>(bytes));
    cuda(cudaMemset(memory_.back()->get(), 0, bytes), "cudaMemset");
    return *memory_.back();
  }

  LaneFormat format_;
  bool remembers_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<CodeJobs> jobs_;
  dit::BlockLoss* sums_ = nullptr;  // of segments
  double bytes_ = 0;
};

struct Row {
  std::string name;
  double microseconds, gigabytes, share;
};

double copy_rate(std::int64_t rows, double seconds, const Stream& stream) {
  const auto bytes = static_cast<std::size_t>(rows * kHeads * kHeadDim * 2);
  const Memory from(kSets * bytes), to(kSets * bytes);
  const double each = time_of(stream, seconds, [&](int set) {
    const std::size_t at = static_cast<std::size_t>(set) * bytes;
    cuda(cudaMemcpyAsync(to.get() + at, from.get() + at, bytes, cudaMemcpyDeviceToDevice, stream.get()),
         "copy");
  });
  return 2.0 * static_cast<double>(bytes) / each * 1e-3;
}

std::vector<Row> measure(std::int64_t rows, double seconds, double copy) {
  constexpr const char* kElements[] = {"fp32", "bf16", "fp16"};
  const Stream stream;
  std::vector<Row> table;
  std::printf("%-30s %9s %7s %6s  %9s %7s %6s\n", "format, element", "encode us", "GB/s", "copy", "decode us",
              "GB/s", "copy");
  for (const bool remembers : {false, true}) {
    for (const int element : {1, 2, 0}) {
      for (int format = 0; format < dit::kWireFormats; ++format) {
        const Timed timed(rows, static_cast<dit::WireElement>(element), static_cast<dit::WireFormat>(format),
                          remembers);
        const std::string name = std::string(to_string(static_cast<dit::WireFormat>(format))) + " of " +
                                 kElements[element] + (remembers ? ", residual, momentum" : "");
        std::printf("%-30s", name.c_str());
        for (const CodeWork direction : {CodeWork::encode, CodeWork::decode}) {
          const double each = time_of(stream, seconds, [&](int set) { timed.run(direction, set, stream); });
          const double rate = timed.bytes() / each * 1e-3;
          table.push_back(
              {(direction == CodeWork::encode ? "encode " : "decode ") + name, each, rate, rate / copy});
          std::printf(" %9.1f %7.0f %5.0f%% ", each, rate, 100 * rate / copy);
        }
        std::printf("\n");
      }
    }
  }
  return table;
}

/// What a policy's guard adds to an encoding: what is remembered is kept aside, squares are summed, and the
/// host waits.
void measure_guard(std::int64_t rows, double seconds, double copy, std::vector<Row>& table) {
  const Stream stream;
  const Timed timed(rows, dit::WireElement::bf16, dit::WireFormat::int4, true);
  const double numbers = static_cast<double>(rows * kHeads * kHeadDim);
  const Memory from(static_cast<std::size_t>(4 * numbers)), to(from.bytes());
  void* pinned = nullptr;
  cuda(cudaHostAlloc(&pinned, sizeof(dit::BlockLoss), cudaHostAllocMapped), "cudaHostAlloc");
  const std::shared_ptr<void> owner(pinned, [](void* freed) { (void)cudaFreeHost(freed); });
  auto* const told = static_cast<dit::BlockLoss*>(pinned);
  const auto say = [&](const char* name, double bytes, const std::function<void(int)>& call) {
    const double each = time_of(stream, seconds, call);
    const double rate = bytes / each * 1e-3;
    table.push_back({name, each, rate, rate / copy});
    std::printf("%-46s %9.1f us", name, each);
    if (bytes > 0) std::printf(" %7.0f GB/s %5.0f%%", rate, 100 * rate / copy);
    std::printf("\n");
  };
  std::printf("guard, bf16 numbers, residual int4, momentum:\n");
  say("kept aside", 8 * numbers, [&](int /*set*/) {
    cuda(cudaMemcpyAsync(to.get(), from.get(), to.bytes(), cudaMemcpyDeviceToDevice, stream.get()), "copy");
  });
  say("sums", 5 * numbers, [&](int set) { timed.sum(set, told, stream); });
  say("encode and wait", 0, [&](int set) {
    timed.run(CodeWork::encode, set, stream);
    stream.wait();
  });
  say("kept aside, encode, sums and wait", 0, [&](int set) {
    cuda(cudaMemcpyAsync(to.get(), from.get(), to.bytes(), cudaMemcpyDeviceToDevice, stream.get()), "copy");
    timed.run(CodeWork::encode, set, stream);
    timed.sum(set, told, stream);
    stream.wait();
  });
}

void write_json(const std::string& file, double copy, const std::vector<Row>& table) {
  tapa::bench::write_json_file(file, [&](std::FILE* out) {
    std::fprintf(out, "{\"copy_gb_per_s\": %.1f, \"codecs\": [", copy);
    for (std::size_t i = 0; i < table.size(); ++i) {
      std::fprintf(out, "%s\n  {\"what\": \"%s\", \"us\": %.2f, \"gb_per_s\": %.1f, \"of_copy\": %.3f}",
                   i > 0 ? "," : "", table[i].name.c_str(), table[i].microseconds, table[i].gigabytes,
                   table[i].share);
    }
    std::fprintf(out, "\n]}\n");
  });
}

int run(const Arguments& arguments) {
  cuda(dit::load_codecs(), "load_codecs");
  cuda(dit::load_loss_kernels(), "load_loss_kernels");
  const int level = static_cast<int>(arguments.number("check", 1));
  const auto every = static_cast<std::size_t>(std::max(arguments.number("every", 1), 1.0));
  const int wrong = level > 0 ? check(level, every, static_cast<int>(arguments.number("threads", 4))) : 0;
  const auto rows = static_cast<std::int64_t>(arguments.number("rows", 16896));
  const double seconds = arguments.number("seconds", 0.02);
  if (seconds > 0) {
    const double copy = copy_rate(rows, seconds, Stream());
    std::printf("copy of %.1f MiB by cudaMemcpyAsync: %.0f GB/s read and written\n",
                static_cast<double>(rows * kHeads * kHeadDim * 2) / 1048576.0, copy);
    std::vector<Row> table = measure(rows, seconds, copy);
    measure_guard(rows, seconds, copy, table);
    const std::string json = arguments.text("json", "");
    if (!json.empty()) write_json(json, copy, table);
  }
  return wrong > 0 ? 1 : 0;
}

}  // namespace

constexpr char kUsage[] =
    R"(usage: device_codecs [--check 0|1|2] [--every N] [--threads N] [--rows N] [--seconds S] [--json FILE]

The wire formats on a GPU: all bits against the processor's codec, then how fast they are.
--check 1: some thousand blocks of awkward shapes; 2: all of them; --every: of these each Nth. The times
are of a block of 12 of 24 heads of 128 numbers and --rows rows (16896), out of a tensor and into one, in
turn with others so that no cache holds them; bytes are those that must be read and written, and their
share is of what cudaMemcpyAsync moves in the same run.
)";

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
  try {
    return run(Arguments(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_codecs: %s\n", error.what());
    return 2;
  }
}
