// Transfers of device memory against the same transfers of host memory over MPI; the usage is at the end.
#include <chrono>
#include <cstdio>
#include <thread>

#include "check_parts.hpp"
#include "plain_flags.h"

namespace tapa::bench {
namespace {

class Check {
 public:
  Check(Job& job, const std::string& plugin, int device, std::uint64_t seed)
      : job_(job),
        device_(device),
        seed_(seed),
        host_(Job::host_plugin()),
        session_(plugin),
        source_(session_, device, false),
        plain_(session_, device, false),
        registered_(session_, device, true) {}

  [[nodiscard]] const Session& session() const { return session_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

  void run_all() {
    for (const Case& of : kCases) {
      const std::uint64_t before = wrong_;
      run(of, host_, session_, job_.size());
      say(of.name, wrong_ - before);
    }
  }
  void run_prepared(bool stores) {
    for (const Case& of : kCases) {
      const std::uint64_t wrong = check_prepared(job_, of, host_, session_, device_, stores);
      say(("norm, RoPE: " + std::string(of.name)).c_str(), wrong);
      wrong_ += wrong;
    }
  }

  /// A case on the ranks of two sessions that have the same ranks.
  void run(const Case& of, const Session& host, const Session& device, int ranks) {
    const Layout layout = make_layout(shape_of(of), ranks);
    for (const std::size_t element_bytes : {std::size_t{2}, std::size_t{1}, std::size_t{4}}) {
      if (element_bytes != 2 && of.image > 1000) continue;
      for (int kind = DIT_SCATTER_QUERY; kind <= DIT_GATHER_OUTPUT; ++kind) {
        for (int group = 0; group < of.groups; ++group) {
          const Transfer reference(host, layout, kind, element_bytes, DIT_MEMORY_HOST, group, of.groups);
          const Transfer tested(device, layout, kind, element_bytes, DIT_MEMORY_CUDA, group, of.groups);
          run_lies(of, kind, element_bytes, reference, tested);
        }
      }
    }
  }

  void say(const char* what, std::uint64_t wrong) const {
    const std::uint64_t all = Job::sum(wrong);
    if (job_.rank() == 0) std::printf("%-40s %s\n", what, all == 0 ? "ok" : "WRONG");
    std::fflush(stdout);
  }

 private:
  void run_lies(const Case& of, int kind, std::size_t element_bytes, const Transfer& reference,
                const Transfer& tested) {
    constexpr std::pair<Lies, Lies> kPairs[] = {{Lies::dense, Lies::dense},
                                                {Lies::slice, Lies::dense},
                                                {Lies::dense, Lies::slice},
                                                {Lies::heads_first, Lies::dense},
                                                {Lies::slice, Lies::heads_first}};
    for (const auto& [from, to] : kPairs) {
      const Placed source = place(reference.source_shape(), from, element_bytes);
      const Placed target = place(reference.target_shape(), to, element_bytes);
      for (const bool registered : {false, true}) {
        if (compare(reference, tested, source, target, registered)) continue;
        ++wrong_;
        std::fprintf(stderr, "rank %d: %s, %s, %zu bytes, source %d, target %d, %s: other bits\n",
                     job_.rank(), of.name, kKinds[kind], element_bytes, static_cast<int>(from),
                     static_cast<int>(to), registered ? "registered" : "not registered");
      }
    }
  }

  bool compare(const Transfer& reference, const Transfer& tested, const Placed& source, const Placed& target,
               bool registered) {
    std::vector<std::uint8_t> sent(source.bytes), expected(target.bytes, 0xA5), got(target.bytes);
    randomise(sent, ++seed_ * 64 + static_cast<std::uint64_t>(job_.rank()));
    reference.run(at(source, sent.data()), at(target, expected.data()));

    char* const from = source_.get(source.bytes);
    char* const to = (registered ? registered_ : plain_).get(target.bytes);
    cuda(cudaMemcpyAsync(from, sent.data(), sent.size(), cudaMemcpyHostToDevice, stream_.get()), "upload");
    cuda(cudaMemsetAsync(to, 0xA5, got.size(), stream_.get()), "cudaMemsetAsync");
    // A program may have another device current when it calls.
    if (seed_ % 3 == 0) cuda(cudaSetDevice((device_ + 1) % devices_), "cudaSetDevice");
    if (seed_ % 2 == 0) {
      tested.put(at(source, from), at(target, to), device_, stream_.get());
    } else {
      tested.run(at(source, from), at(target, to), device_, stream_.get());
    }
    cuda(cudaSetDevice(device_), "cudaSetDevice");
    cuda(cudaMemcpyAsync(got.data(), to, got.size(), cudaMemcpyDeviceToHost, stream_.get()), "download");
    stream_.wait();
    return got == expected;
  }

  Job& job_;
  int device_;
  int devices_ = device_count();
  std::uint64_t seed_;
  Session host_, session_;
  Arena source_, plain_, registered_;
  Stream stream_;
  std::uint64_t wrong_ = 0;
};

/// All four transfers of a layer, recorded and replayed with other numbers each time; V on a stream of its
/// own.
class RecordedLayer {
 public:
  RecordedLayer(Job& job, const Session& host, const Session& session, int device)
      : job_(job),
        device_(device),
        layout_(make_layout(shape_of(Case{"", 1, 64, 448, 8, 8, 64, 0, 1}), job.size())) {
    for (int kind = DIT_SCATTER_QUERY; kind <= DIT_GATHER_OUTPUT; ++kind) {
      reference_.emplace_back(host, layout_, kind, 2, DIT_MEMORY_HOST);
      tested_.emplace_back(session, layout_, kind, 2, DIT_MEMORY_CUDA);
      from_.push_back(std::make_unique<Memory>(tested_.back().source_bytes() + 16));
      to_.push_back(std::make_unique<Memory>(tested_.back().target_bytes() + 16));
    }
    cuda(cudaEventCreateWithFlags(&begin_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~RecordedLayer() { (void)cudaEventDestroy(begin_); }
  RecordedLayer(const RecordedLayer&) = delete;
  RecordedLayer& operator=(const RecordedLayer&) = delete;

  /// How many tensors had other bits.
  std::uint64_t run() {
    put();  // once before the capture: communicators, kernels
    stream_.wait();
    beside_.wait();
    const Graph graph(stream_, [this] { put(); });
    std::uint64_t wrong = 0;
    for (std::uint64_t round = 0; round < 30; ++round) {
      const std::vector<std::vector<std::uint8_t>> expected = give_numbers(round);
      graph.launch(stream_);
      stream_.wait();
      wrong += differing(expected);
    }
    return wrong;
  }

 private:
  void put() {
    cuda(cudaEventRecord(begin_, stream_.get()), "cudaEventRecord");
    cuda(cudaStreamWaitEvent(beside_.get(), begin_, 0), "cudaStreamWaitEvent");
    for (const std::size_t kind : {2U, 0U, 1U, 3U}) {
      const Transfer& transfer = tested_[kind];
      const Stream& on = kind == 2 ? beside_ : stream_;
      transfer.start(dense(from_[kind]->get(), transfer.source_bytes()),
                     dense(to_[kind]->get(), transfer.target_bytes()), device_, on.get());
      if (kind != 2) dit_call(dit_transfer_wait_stream(transfer.get(), stream_.get()));
    }
    dit_call(dit_transfer_wait_stream(tested_[2].get(), stream_.get()));
  }

  /// New sources; what must arrive.
  std::vector<std::vector<std::uint8_t>> give_numbers(std::uint64_t round) {
    std::vector<std::vector<std::uint8_t>> expected;
    for (std::size_t kind = 0; kind < tested_.size(); ++kind) {
      std::vector<std::uint8_t> sent(tested_[kind].source_bytes());
      randomise(sent, round * 1000 + kind * 100 + static_cast<std::uint64_t>(job_.rank()));
      expected.emplace_back(tested_[kind].target_bytes());
      reference_[kind].run(dense(sent.data(), sent.size()),
                           dense(expected[kind].data(), expected[kind].size()));
      cuda(cudaMemcpy(from_[kind]->get(), sent.data(), sent.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return expected;
  }

  [[nodiscard]] std::uint64_t differing(const std::vector<std::vector<std::uint8_t>>& expected) const {
    std::uint64_t wrong = 0;
    for (std::size_t kind = 0; kind < tested_.size(); ++kind) {
      std::vector<std::uint8_t> got(expected[kind].size());
      cuda(cudaMemcpy(got.data(), to_[kind]->get(), got.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
      wrong += got == expected[kind] ? 0 : 1;
    }
    return wrong;
  }

  Job& job_;
  int device_;
  Layout layout_;
  std::vector<std::unique_ptr<Memory>> from_, to_;
  std::vector<Transfer> reference_, tested_;
  Stream stream_, beside_;
  cudaEvent_t begin_ = nullptr;
};

/// The last rank comes after the time limit: the others name it, nothing hangs, and it too is told.
std::uint64_t check_lost(Job& job, const std::string& plugin, int device) {
  if (job.size() == 1) return 0;
  const int late = job.size() - 1;
  std::uint64_t wrong = 0;
  {
    const Session session(plugin, "", 1);
    const Layout layout = make_layout(shape_of(Case{"", 1, 0, 64, 8, 8, 64, 0, 1}), job.size());
    const Transfer transfer(session, layout, DIT_SCATTER_VALUE, 2, DIT_MEMORY_CUDA);
    const Memory from(transfer.source_bytes() + 16), to(transfer.target_bytes() + 16);
    const Stream stream;
    transfer.run(dense(from.get(), transfer.source_bytes()), dense(to.get(), transfer.target_bytes()), device,
                 stream.get());
    if (job.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    transfer.start(dense(from.get(), transfer.source_bytes()), dense(to.get(), transfer.target_bytes()),
                   device, stream.get());
    const dit_status status = dit_transfer_wait(transfer.get());
    const std::string words = dit_last_error();
    if (job.rank() != late) {
      const bool named = words.find("rank " + std::to_string(late)) != std::string::npos ||
                         words.find(", " + std::to_string(late)) != std::string::npos;
      if (status != DIT_ERROR_COMMUNICATION || !named) {
        ++wrong;
        std::fprintf(stderr, "rank %d: status %d, \"%s\"\n", job.rank(), static_cast<int>(status),
                     words.c_str());
      } else if (job.rank() == 0) {
        std::printf("  said: %s\n", words.c_str());
      }
    }
    Job::barrier();
  }
  return wrong;
}

int run(Job& job, int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const int device = take_device(job.rank());
  const std::string plugin = arguments.text("plugin", Job::device_plugin());
  const std::string nodes = arguments.text("nodes", "");
  label_node(job.rank(), nodes);
  if (job.rank() == 0)
    std::printf("%d ranks on %d GPUs, plugin %s\n", job.size(), device_count(), plugin.c_str());
  std::uint64_t wrong = 0;
  {
    Check check(job, plugin, device, static_cast<std::uint64_t>(arguments.number("seed", 1)));
    check.run_all();
    check.run_prepared(plugin == Job::device_plugin() && nodes.empty());  // stores need one node
    wrong += check.wrong();
    const Session host(Job::host_plugin());
    const std::uint64_t replayed = RecordedLayer(job, host, check.session(), device).run();
    check.say("graphs and two streams", replayed);
    wrong += replayed;
  }
  if (plugin == Job::device_plugin()) {
    const std::uint64_t lost = Job::sum(check_lost(job, plugin, device));
    if (job.rank() == 0 && job.size() > 1)
      std::printf("%-40s %s\n", "a rank that is late", lost == 0 ? "ok" : "WRONG");
    wrong += lost;
  }
  wrong = Job::sum(wrong);
  if (job.rank() == 0) std::printf("%s\n", wrong == 0 ? "all ok" : "SOMETHING IS WRONG");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tapa::bench

constexpr char kUsage[] =
    R"(usage: mpirun -n RANKS ulysses_check [--plugin tapa] [--seed N] [--nodes N+N...], or, without MPI,
  ulysses_check_forked [--ranks N] [--plugin bootstrap] [--seed N] [--nodes N+N...]

Transfers of device memory against the same transfers of host memory over MPI: equal bits, and nothing
touched between them.
--nodes: ranks of each of the nodes that this machine stands for.
)";

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
  return tapa::bench::run_program("ulysses_check", argc, argv,
                                  [&](tapa::bench::Job& job) { return tapa::bench::run(job, argc, argv); });
}
