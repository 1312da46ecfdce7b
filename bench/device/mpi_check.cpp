// device_mpi_check: all-to-alls of MPI with buffers wherever CUDA puts them, as a plain MPI program, for the
// drop-in, and by libtapa's names (USE_TAPA); its usage is at the end.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "mpi_buffers.hpp"
#include "plain_flags.h"
#ifdef USE_TAPA
#include "tapa/tapa.h"
#define MPI_Alltoall TAPA_Alltoall
#define MPI_Alltoallv TAPA_Alltoallv
#define MPI_Alltoallw TAPA_Alltoallw
#define MPI_Ialltoall TAPA_Ialltoall
#define MPI_Ialltoallv TAPA_Ialltoallv
#endif

using namespace tapa::bench;

namespace {

int this_rank = 0;
int job_size = 1;
Devices all_devices;

std::uint8_t byte_of(std::uint64_t call, int from, int to, std::size_t at) {
  std::uint64_t value = call * 1000003 + static_cast<std::uint64_t>(from) * 8191 +
                        static_cast<std::uint64_t>(to) * 127 + at / 8;
  value ^= value >> 31;
  value *= 0x9e3779b97f4a7c15ULL;
  return static_cast<std::uint8_t>(value >> (56 - 8 * (at % 8)));
}

enum class Form { alltoall, v, w, in_place, strided, nonblocking, nonblocking_v };
constexpr int kForms = 7;
constexpr const char* kFormNames[] = {"alltoall",     "alltoallv", "alltoallw", "in place",
                                      "strided type", "ialltoall", "ialltoallv"};

/// One call, the same on all ranks but for where their buffers are.
struct Call {
  std::uint64_t number = 0;
  Form form = Form::alltoall;
  std::vector<int> bytes;  // [from * size + to]
  int shift = 0;           // of buffers from where their allocations begin
  bool kept = false;       // whether buffers in device memory are KeptBuffers
  [[nodiscard]] int of(int from, int to) const {
    return bytes[static_cast<std::size_t>(from * job_size + to)];
  }
  [[nodiscard]] bool uneven() const {
    return form == Form::v || form == Form::w || form == Form::nonblocking_v;
  }
};

struct Layout {
  std::vector<int> counts, displs;
  std::size_t bytes = 0;
};

/// Blocks with a gap between them where the form allows it; `spread`: each byte takes two.
Layout layout_of(const Call& call, bool send, std::size_t spread) {
  Layout l;
  for (int peer = 0; peer < job_size; ++peer) {
    const int bytes = send ? call.of(this_rank, peer) : call.of(peer, this_rank);
    l.counts.push_back(bytes);
    l.displs.push_back(static_cast<int>(l.bytes));
    l.bytes += static_cast<std::size_t>(bytes) * spread + (call.uneven() ? 24 : 0);
  }
  return l;
}

void make_call(const Call& call, char* send, char* recv, const Layout& s, const Layout& r) {
  const std::vector<MPI_Datatype> types(static_cast<std::size_t>(job_size), MPI_BYTE);
  const int each = call.of(0, 0);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Datatype every_second = MPI_DATATYPE_NULL;
  MPI_Datatype resized = MPI_DATATYPE_NULL;
  switch (call.form) {
    case Form::alltoall:
      MPI_Alltoall(send, each, MPI_BYTE, recv, each, MPI_BYTE, MPI_COMM_WORLD);
      break;
    case Form::v:
      MPI_Alltoallv(send, s.counts.data(), s.displs.data(), MPI_BYTE, recv, r.counts.data(), r.displs.data(),
                    MPI_BYTE, MPI_COMM_WORLD);
      break;
    case Form::w:
      MPI_Alltoallw(send, s.counts.data(), s.displs.data(), types.data(), recv, r.counts.data(),
                    r.displs.data(), types.data(), MPI_COMM_WORLD);
      break;
    case Form::in_place:
      MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, each, MPI_BYTE, MPI_COMM_WORLD);
      break;
    case Form::strided:
      MPI_Type_vector(each, 1, 2, MPI_BYTE, &every_second);
      MPI_Type_create_resized(every_second, 0, 2 * MPI_Aint{each}, &resized);
      MPI_Type_commit(&resized);
      MPI_Alltoall(send, each, MPI_BYTE, recv, 1, resized, MPI_COMM_WORLD);
      MPI_Type_free(&resized);
      MPI_Type_free(&every_second);
      break;
    case Form::nonblocking:
      MPI_Ialltoall(send, each, MPI_BYTE, recv, each, MPI_BYTE, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
    case Form::nonblocking_v:
      MPI_Ialltoallv(send, s.counts.data(), s.displs.data(), MPI_BYTE, recv, r.counts.data(), r.displs.data(),
                     MPI_BYTE, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
  }
}

/// Bytes of this rank that are wrong after the call.
std::size_t run(const Call& call, Kind send_kind, Kind recv_kind, KeptBuffers& kept, std::mt19937_64& own) {
  constexpr std::size_t guard = 64;
  const std::size_t spread = call.form == Form::strided ? 2 : 1;
  const Layout s = layout_of(call, true, 1);
  const Layout r = layout_of(call, false, spread);
  const auto shift = static_cast<std::size_t>(call.shift);
  const bool keep_send = call.kept && send_kind == Kind::device;
  const bool keep_recv = call.kept && recv_kind == Kind::device;
  const Buffer fresh_send(send_kind, keep_send ? 1 : s.bytes + shift + guard, all_devices);
  const Buffer fresh_recv(recv_kind, keep_recv ? 1 : r.bytes + shift + guard, all_devices);
  const auto which = 2 * (call.number / 8 % 2);
  char* const send = keep_send ? kept.get(which, s.bytes + shift + guard, own) : fresh_send.get();
  char* const recv = keep_recv ? kept.get(which + 1, r.bytes + shift + guard, own) : fresh_recv.get();
  std::vector<std::uint8_t> host(s.bytes);
  const bool in_place = call.form == Form::in_place;
  for (int to = 0; to < job_size; ++to) {
    for (int i = 0; i < call.of(this_rank, to); ++i)
      host[static_cast<std::size_t>(s.displs[static_cast<std::size_t>(to)] + i)] =
          byte_of(call.number, this_rank, to, static_cast<std::size_t>(i));
  }
  std::vector<std::uint8_t> expected(r.bytes + shift + guard, 0xa5);
  if (in_place) std::copy(host.begin(), host.end(), expected.begin() + call.shift);
  cuda(cudaMemcpy(recv, expected.data(), expected.size(), cudaMemcpyDefault), "cudaMemcpy");
  // As programs do it: short copies are on their way when they return, which is the library's to know.
  cuda(cudaMemcpy(send + shift, host.data(), host.size(), cudaMemcpyDefault), "cudaMemcpy");
  make_call(call, send + shift, recv + shift, s, r);
  for (int from = 0; from < job_size; ++from) {
    for (int i = 0; i < call.of(from, this_rank); ++i)
      expected[shift + static_cast<std::size_t>(r.displs[static_cast<std::size_t>(from)]) +
               static_cast<std::size_t>(i) * spread] =
          byte_of(call.number, from, this_rank, static_cast<std::size_t>(i));
  }
  std::vector<std::uint8_t> got(expected.size());
  cuda(cudaMemcpy(got.data(), recv, got.size(), cudaMemcpyDefault), "cudaMemcpy");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != expected[i];
  return wrong;
}

int length(std::mt19937_64& random, int most) {
  const double power = std::uniform_real_distribution<>(0, std::log2(static_cast<double>(most) + 1))(random);
  return random() % 8 == 0 ? 0 : static_cast<int>(std::exp2(power)) - 1;
}

/// The next call, and each rank's kinds of memory: drawn by all ranks alike.
Call draw(std::mt19937_64& random, int most, bool any, double kept, std::vector<Kind>& kinds) {
  Call call;
  call.kept = std::uniform_real_distribution<>()(random) < kept;
  call.number = random();
  call.form = static_cast<Form>(random() % kForms);
  call.shift = random() % 3 == 0 ? static_cast<int>(random() % 40) : 0;
  // Copies of single bytes take their time.
  const int each = length(random, call.form == Form::strided ? std::min(most, 2000) : most);
  for (int i = 0; i < job_size * job_size; ++i)
    call.bytes.push_back(call.uneven() ? length(random, most) : each);
  if (call.form == Form::strided && each == 0) call.form = Form::alltoall;
  const bool mixed = any && random() % 2 == 0;
  const auto one = static_cast<Kind>(any && random() % 3 == 0 ? random() % kKinds : 0);
  kinds.clear();
  for (int i = 0; i < 2 * job_size; ++i) kinds.push_back(mixed ? static_cast<Kind>(random() % kKinds) : one);
  return call;
}

/// Sends through MPI_COMM_SELF and communicators that come and go.
std::size_t other_communicators() {
  std::size_t wrong = 0;
  const Memory send(1 << 16);
  const Memory recv(1 << 16);
  std::vector<int> there(1 << 14, this_rank + 7);
  std::vector<int> back(1 << 14, -1);
  cuda(cudaMemcpy(send.get(), there.data(), send.bytes(), cudaMemcpyDefault), "cudaMemcpy");
  MPI_Alltoall(send.get(), 1 << 14, MPI_INT, recv.get(), 1 << 14, MPI_INT, MPI_COMM_SELF);
  cuda(cudaMemcpy(back.data(), recv.get(), recv.bytes(), cudaMemcpyDefault), "cudaMemcpy");
  wrong += back != there;
  for (int turn = 0; turn < 4; ++turn) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int call = 0; call < 3; ++call)
      MPI_Alltoall(send.get(), 100, MPI_INT, recv.get(), 100, MPI_INT, comm);
    cuda(cudaMemcpy(back.data(), recv.get(), recv.bytes(), cudaMemcpyDefault), "cudaMemcpy");
    for (int from = 0; from < job_size; ++from)
      wrong += back[static_cast<std::size_t>(100 * from)] != from + 7;
    MPI_Comm_free(&comm);
  }
  return wrong;
}

int check(const Arguments& arguments) {
  std::mt19937_64 random(static_cast<std::uint64_t>(arguments.number("seed", 1)));
  const int calls = static_cast<int>(arguments.number("calls", 300));
  const int most = static_cast<int>(arguments.number("bytes", 3 << 20));
  const bool any = arguments.text("kinds", "any") == "any";
  const double kept_share = arguments.number("kept", 0.5);
  std::mt19937_64 own(static_cast<std::uint64_t>(this_rank) + 99);
  KeptBuffers kept;
  unsigned long long all[2] = {other_communicators(), 0};
  for (int i = 0; i < calls; ++i) {
    std::vector<Kind> kinds;
    const Call call = draw(random, most, any, kept_share, kinds);
    const Kind send = kinds[static_cast<std::size_t>(this_rank)];
    const Kind recv = kinds[static_cast<std::size_t>(job_size + this_rank)];
    const std::size_t wrong = run(call, send, recv, kept, own);
    if (wrong != 0 && all[1]++ < 4) {
      std::printf("rank %d call %d %s, %d bytes from rank 0, %s to %s: %zu bytes wrong\n", this_rank, i,
                  kFormNames[static_cast<int>(call.form)], call.of(0, this_rank),
                  kKindNames[static_cast<int>(send)], kKindNames[static_cast<int>(recv)], wrong);
    }
    all[0] += wrong;
  }
  MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (this_rank == 0)
    std::printf("%d ranks, %d calls, %s memory: %llu calls with %llu wrong bytes\n", job_size, calls,
                any ? "any" : "device", all[1], all[0]);
  return all[0] == 0 ? 0 : 1;
}

/// Says how many calls the device engine has carried out: those of the report's rows that name it, which
/// MPI_Finalize prints.
class EngineCalls {
 public:
  /// Before MPI_Init.
  EngineCalls() : report_(std::tmpfile()), stderr_(dup(STDERR_FILENO)) { setenv("TAPA_REPORT", "1", 1); }
  EngineCalls(const EngineCalls&) = delete;
  EngineCalls& operator=(const EngineCalls&) = delete;
  ~EngineCalls() {
    close(stderr_);
    if (report_ != nullptr) std::fclose(report_);
  }
  long count_in_finalize() {
    if (report_ != nullptr) dup2(fileno(report_), STDERR_FILENO);
    MPI_Finalize();
    dup2(stderr_, STDERR_FILENO);
    return report_ != nullptr ? count() : 0;
  }

 private:
  long count() {
    long calls = 0;
    char line[1024];
    std::rewind(report_);
    while (std::fgets(line, sizeof line, report_) != nullptr) {
      std::fputs(line, stderr);
      if (std::strstr(line, "  device\n") != nullptr) calls += calls_of(line);
    }
    return calls;
  }
  /// Of a row: function, bytes, calls, ...
  static long calls_of(const char* row) {
    long calls = 0;
    return std::sscanf(row, "%*s %*s %ld", &calls) == 1 ? calls : 0;
  }

  std::FILE* report_;
  int stderr_;
};

bool has_gpu() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

/// Calls with host buffers, after which the communicator is set up.
void begin_on_host() {
  std::vector<int> send(static_cast<std::size_t>(job_size), this_rank);
  std::vector<int> recv(static_cast<std::size_t>(job_size));
  for (int i = 0; i < 3; ++i) MPI_Alltoall(send.data(), 1, MPI_INT, recv.data(), 1, MPI_INT, MPI_COMM_WORLD);
}

}  // namespace

constexpr char kUsage[] =
    R"(usage: mpirun -n RANKS device_mpi_check [--calls N] [--seed S] [--bytes MOST] [--kinds device|any] [--kept SHARE]
  [--late 0|1] [--reset 0|1|2] [--nodes N+N...] [--threads single|multiple] [--way any|engine]

All-to-alls of MPI with buffers wherever CUDA puts them, random and checked: as a plain MPI program, for the
drop-in, and by libtapa's names (device_mpi_check_linked). Each rank may have its buffers in another kind of
memory in each call. Exit status 1 when a byte is wrong.
--kept: share of the buffers in device memory that are used again and again, and now and then freed and made
anew by some rank. --late: the communicator is set up before a GPU is used. --reset: the devices of so many
ranks are reset before MPI_Finalize.
--nodes: ranks of each of the nodes that this machine stands for. --threads: what MPI is asked for; wires over
MPI need multiple, the default with --nodes. --way engine: says how many calls the device engine has carried out,
and exit status 1 when it was none. Exit status 77: there is no GPU. Which wire joins the nodes TAPA_LOG=info says, and TAPA_GPU_WIRE chooses.
)";

namespace {

constexpr int kSkipped = 77;

int run_program(const Arguments& arguments) {
  if (arguments.number("late", 0) > 0) begin_on_host();
  if (!has_gpu()) {
    if (this_rank == 0) std::printf("device_mpi_check: skipped, no GPU here\n");
    return kSkipped;
  }
  cuda(cudaGetDeviceCount(&all_devices.count), "cudaGetDeviceCount");
  all_devices.own = this_rank % all_devices.count;
  cuda(cudaSetDevice(all_devices.own), "cudaSetDevice");
  cuda(cudaFree(nullptr), "cudaFree");
  const int code = check(arguments);
  if (this_rank < static_cast<int>(arguments.number("reset", 0))) cuda(cudaDeviceReset(), "cudaDeviceReset");
  return code;
}

/// Ends MPI; whether the device engine carried out what it should.
bool ends_well(std::optional<EngineCalls>& engine_calls) {
  if (!engine_calls) {
    MPI_Finalize();
    return true;
  }
  const long calls = engine_calls->count_in_finalize();
  if (this_rank != 0) return true;
  std::printf("%ld calls by the device engine\n", calls);
  return calls > 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
  try {
    const Arguments arguments(argc, argv);
    const std::string nodes = arguments.text("nodes", "");
    std::optional<EngineCalls> engine_calls;
    if (arguments.text("way", "any") == "engine") engine_calls.emplace();
    const bool multiple = arguments.text("threads", nodes.empty() ? "single" : "multiple") == "multiple";
    int level = 0;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &this_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job_size);
    int code = 2;
    try {
      label_node(this_rank, nodes);
      code = run_program(arguments);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", this_rank, error.what());
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return ends_well(engine_calls) || code == kSkipped ? code : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_mpi_check: %s\n", error.what());
    return 2;
  }
}
