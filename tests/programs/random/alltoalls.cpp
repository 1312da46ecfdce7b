// All-to-alls, right and wrong ones.
#include <cstdio>
#include <cstdlib>

#include "steps.hpp"

namespace random_program {

namespace {

Wish wish_of(const Line& line) {
  Wish w{};
  const std::string& form = line.word("form");
  const std::string& length = line.word("length");
  const std::string& mode = line.word("mode");
  w.kind = form == "w" ? TYPED : form == "v" ? RAGGED : UNIFORM;
  w.length = length == "long" ? LONG : length == "medium" ? MEDIUM : length == "border" ? BORDER : SMALL;
  w.mode = mode == "persistent" ? PERSISTENT : mode == "nonblocking" ? NONBLOCKING : BLOCKING;
  w.in_place = line.value("in_place");
  w.along = line.value("along");
  w.plain = line.value("plain");
  w.layouts = layouts ? 1 : 0;
  return w;
}

std::unique_ptr<Exchange> exchange_of(const Line& line, const Comm& c) {
  const Wish wish = wish_of(line);
  Random own = own_of(line);
  return std::make_unique<Exchange>(
      make_exchange(&wish, c.comm, c.name, c.second ? 1 : 0, common_of(line), &own));
}

void check_exchange(const Line& line, const Exchange& e) {
  const long long bytes = wrong_bytes(&e);
  checksum += checksum_of(&e);
  if (bytes == 0) return;
  wrong += bytes;
  tell(line, std::to_string(bytes) + " bytes wrong in round " + std::to_string(e.round));
}

void blocking(const Line& line, const Comm& c) {
  const auto e = exchange_of(line, c);
  const int repeats = line.value("repeat", 1);
  for (int i = 0; i < repeats; ++i) {
    const bool looked_at = i < 3 || i % 64 == 0 || repeats - i < 3;
    if (looked_at) fill_exchange(e.get(), static_cast<std::uint64_t>(i + 1));
    const int code = call_blocking(e.get());
    expect(line, code == MPI_SUCCESS, "all-to-all failed");
    if (looked_at) check_exchange(line, *e);
  }
  free_exchange(e.get());
}

/// Begins a nonblocking call, or makes a persistent one.
void begin(const Line& line, const Comm& c) {
  Pending& p = object(requests, line.word("req"));
  p.persistent = line.word("mode") == "persistent";
  p.exchange = exchange_of(line, c);
  Exchange* const e = p.exchange.get();
  const auto freed = std::make_shared<bool>(false);
  p.finished = [line, e] { check_exchange(line, *e); };
  if (p.persistent) {
    if (has_persistent() == 0) return;
    expect(line, call_init(e, &p.request) == MPI_SUCCESS, "the persistent all-to-all failed");
    return;
  }
  fill_exchange(e, 1);
  expect(line, call_nonblocking(e, &p.request) == MPI_SUCCESS, "the nonblocking all-to-all failed");
  p.active = true;
  Random own = own_of(line);
  if (once_in(&own, 2)) free_types(e);
}

}  // namespace

void alltoall(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  line.word("mode") == "blocking" ? blocking(line, c) : begin(line, c);
}

void bad(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  std::vector<int> buffer(static_cast<std::size_t>(4 * c.size));
  std::vector<int> zeros(static_cast<std::size_t>(c.size));
  std::vector<MPI_Datatype> types(static_cast<std::size_t>(c.size), MPI_INT);
  int* const to = buffer.data() + 2 * c.size;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  const std::string& kind = line.word("kind");
  if (kind == "count") code = MPI_Alltoall(buffer.data(), -1, MPI_INT, to, 1, MPI_INT, c.comm);
  if (kind == "recvcount") code = MPI_Alltoall(buffer.data(), 1, MPI_INT, to, -1, MPI_INT, c.comm);
  if (kind == "type") code = MPI_Alltoall(buffer.data(), 1, MPI_DATATYPE_NULL, to, 1, MPI_INT, c.comm);
  if (kind == "recvtype") code = MPI_Alltoall(buffer.data(), 1, MPI_INT, to, 1, MPI_DATATYPE_NULL, c.comm);
  if (kind == "icount") code = MPI_Ialltoall(buffer.data(), -1, MPI_INT, to, 1, MPI_INT, c.comm, &request);
  if (kind == "itype")
    code = MPI_Ialltoall(buffer.data(), 1, MPI_INT, to, 1, MPI_DATATYPE_NULL, c.comm, &request);
  if (kind == "vtype")
    code = MPI_Alltoallv(buffer.data(), zeros.data(), zeros.data(), MPI_INT, to, zeros.data(), zeros.data(),
                         MPI_DATATYPE_NULL, c.comm);
  if (kind == "vnull")
    code = MPI_Alltoallv(buffer.data(), nullptr, zeros.data(), MPI_INT, to, zeros.data(), zeros.data(),
                         MPI_INT, c.comm);
  if (kind == "wnull")
    code = MPI_Alltoallw(buffer.data(), zeros.data(), zeros.data(), types.data(), to, zeros.data(),
                         zeros.data(), nullptr, c.comm);
  int number = 0;
  MPI_Error_class(code, &number);
  expect(line, code != MPI_SUCCESS, "a wrong call succeeded");
  if (std::getenv("RANDOM_PROGRAM_ERRORS") != nullptr)
    std::fprintf(stderr, "random_program: rank %d line %d bad %s: class %d\n", world_rank, line.number,
                 kind.c_str(), number);
  checksum += mixed(static_cast<std::uint64_t>(line.number), static_cast<std::uint64_t>(number));
}

void churn(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  for (int i = 0; i < line.value("times"); ++i) {
    Comm made = c;
    if (i % 2 == 0) {
      MPI_Comm_dup(c.comm, &made.comm);
    } else {
      MPI_Comm_split(c.comm, c.rank % 2, c.rank, &made.comm);
      made.name = mixed(c.name, static_cast<std::uint64_t>(c.rank % 2 + 3));
    }
    blocking(line, made);
    MPI_Comm_free(&made.comm);
  }
}

}  // namespace random_program
