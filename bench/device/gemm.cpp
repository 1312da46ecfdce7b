// device_gemm: what exchanges cost the matrix products beside them; its usage is at the end.
#include <cublas_v2.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>

#include "plain_flags.h"
#include "rivals.hpp"
#include "write_file.hpp"

namespace tapa::bench {
namespace {

constexpr int kProducts = 8;  ///< of a sample

void cublas(cublasStatus_t code, const char* what) {
  if (code != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasGetStatusString(code));
}

/// C = A * B of square bf16 matrices, on a stream of its own.
class Product {
 public:
  explicit Product(int side) : side_(side), a_(bytes()), b_(bytes()), c_(bytes()) {
    for (const Memory* memory : {&a_, &b_}) cuda(cudaMemset(memory->get(), 0x3c, bytes()), "cudaMemset");
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    cublas(cublasCreate(&handle_), "cublasCreate");
    cublas(cublasSetStream(handle_, stream_.get()), "cublasSetStream");
  }
  ~Product() { (void)cublasDestroy(handle_); }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void put() const {
    const float one = 1;
    const float none = 0;
    cublas(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, side_, side_, side_, &one, a_.get(), CUDA_R_16BF,
                        side_, b_.get(), CUDA_R_16BF, side_, &none, c_.get(), CUDA_R_16BF, side_,
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
           "cublasGemmEx");
  }
  [[nodiscard]] const Stream& stream() const { return stream_; }

 private:
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(side_) * static_cast<std::size_t>(side_) * 2;
  }
  int side_;
  Memory a_, b_, c_;
  Stream stream_;
  cublasHandle_t handle_ = nullptr;
};

/// A stream whose kernels go first.
class UrgentStream {
 public:
  UrgentStream() {
    int least = 0, greatest = 0;
    cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
         "cudaStreamCreateWithPriority");
  }
  ~UrgentStream() { (void)cudaStreamDestroy(stream_); }
  UrgentStream(const UrgentStream&) = delete;
  UrgentStream& operator=(const UrgentStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class Interference {
 public:
  Interference(Ranks& ranks, int side) : ranks_(ranks), product_(side) {}

  /// Milliseconds of a product of the slower rank, beside so many exchanges each; `way` null: alone.
  double sample(const Way* way, std::size_t block, int exchanges) {
    ranks_.barrier();
    const cudaStream_t stream = product_.stream().get();
    cuda(cudaEventRecord(begin_.get(), stream), "cudaEventRecord");
    cuda(cudaStreamWaitEvent(beside_.get(), begin_.get(), 0), "cudaStreamWaitEvent");
    for (int product = 0; product < kProducts; ++product) {
      for (int exchange = 0; way != nullptr && exchange < exchanges; ++exchange)
        way->call(block, beside_.get());
      product_.put();
    }
    cuda(cudaEventRecord(end_.get(), stream), "cudaEventRecord");
    product_.stream().wait();
    cuda(cudaStreamSynchronize(beside_.get()), "cudaStreamSynchronize");
    float milliseconds = 0;
    cuda(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    const std::vector<float> all = ranks_.gather(milliseconds);
    return *std::max_element(all.begin(), all.end()) / kProducts;
  }

 private:
  Ranks& ranks_;
  Product product_;
  UrgentStream beside_;
  Event begin_, end_;
};

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<int> numbers_in(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) numbers.push_back(std::stoi(item));
  return numbers;
}

struct Row {
  int exchanges;
  std::string way;
  double milliseconds, slower;
};

/// Alone and beside each way, in turns.
void compare(Ranks& ranks, Interference& interference, const Rivals& rivals, const Settings& settings,
             std::size_t block, int exchanges, std::vector<Row>& rows) {
  std::vector<std::vector<double>> times(rivals.ways().size() + 1);
  const auto began = std::chrono::steady_clock::now();
  for (int round = -2;; ++round) {
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (ranks.first_says(passed > settings.seconds && round >= 5)) break;
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Way* const way = i == 0 ? nullptr : &rivals.ways()[i - 1];
      const double milliseconds = interference.sample(way, block, exchanges);
      if (round >= 0) times[i].push_back(milliseconds);
    }
  }
  const double alone = median_of(times[0]);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double beside = median_of(times[i]);
    rows.push_back({exchanges, i == 0 ? "alone" : rivals.ways()[i - 1].name, beside, beside / alone - 1});
  }
}

void report(const std::vector<Row>& rows, const Settings& settings, int side, std::size_t size) {
  std::printf(
      "products of %d x %d bf16 beside exchanges of %zu bytes a rank\nexchanges  way             ms  "
      "slower\n",
      side, side, size);
  std::ostringstream json;
  json << "[\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    std::printf("%9d  %-13s %6.3f %6.1f %%\n", row.exchanges, row.way.c_str(), row.milliseconds,
                100 * row.slower);
    json << " {\"side\": " << side << ", \"bytes\": " << size << ", \"exchanges\": " << row.exchanges
         << ", \"way\": \"" << row.way << "\", \"milliseconds\": " << row.milliseconds
         << ", \"slower\": " << row.slower << '}' << (i + 1 < rows.size() ? ",\n" : "\n");
  }
  json << "]\n";
  if (!settings.json.empty()) write_file("--json", settings.json, json.str());
}

int run(Ranks& ranks, const Arguments& arguments) {
  take_device(ranks.rank());
  Settings settings{};
  const auto size = static_cast<std::size_t>(arguments.number("size", 64 << 20));
  const int side = static_cast<int>(arguments.number("side", 8192));
  settings.sizes = {size};
  settings.ways = {"tapa", "tapa-kernel", "nccl", "nccl-zero-cta"};
  settings.row = 4096;
  settings.nccl = arguments.text("nccl", "libnccl.so.2");
  settings.seconds = arguments.number("seconds", 3);
  settings.json = arguments.text("json", "");
  const Rivals rivals(ranks, settings);
  Interference interference(ranks, side);
  std::vector<Row> rows;
  for (const int exchanges : numbers_in(arguments.text("exchanges", "1,4")))
    compare(ranks, interference, rivals, settings, size / static_cast<std::size_t>(ranks.size()), exchanges,
            rows);
  if (ranks.rank() == 0) report(rows, settings, side, size);
  return 0;
}

}  // namespace
}  // namespace tapa::bench

constexpr char kUsage[] =
    R"(usage: device_gemm [--ranks 2] [--size BYTES] [--side 8192] [--exchanges 1,4] [--nccl LIBRARY] [--seconds S]
  [--json FILE]

What exchanges cost the matrix products beside them: products of 8192 x 8192 bf16 numbers on one stream,
exchanges of 64 MiB a rank on another one of high priority; libtapa and NCCL in turns in one run, the same
number of exchanges for each.
)";

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
  try {
    const tapa::bench::Arguments arguments(argc, argv);
    return tapa::bench::run_ranks(
        static_cast<int>(arguments.number("ranks", 2)),
        [&](tapa::bench::Ranks& ranks) { return tapa::bench::run(ranks, arguments); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_gemm: %s\n", error.what());
  }
  return 1;
}
