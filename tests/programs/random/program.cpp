// Runs an MPI program that is written down as text, a line for each step: random_programs makes them. Every
// rank goes through all lines in their order; what a line needs beside its words is drawn from its number, so
// that other lines can be left out.
//
//   random_program FILE SECONDS
//
// A line is "NUMBER THREAD VERB WORD=VALUE ..."; the first one "program ranks=N threads=N seed=N". What must
// arrive is computed; at the end rank 0 prints one line: what was wrong, and a checksum of all that was
// received, which is the same whatever carries the data. After SECONDS every rank says in which line it is,
// and the job ends.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "exchange.h"

namespace {

constexpr int kMostThreads = 4;
constexpr int kTags = 5;
constexpr int kRingTag = 900;

struct Line {
  int number = 0;
  int thread = 0;  // -1: all, which wait for each other
  std::string verb;
  std::map<std::string, std::string> words;

  [[nodiscard]] const std::string& word(const std::string& name) const {
    static const std::string none;
    const auto found = words.find(name);
    return found == words.end() ? none : found->second;
  }
  [[nodiscard]] int value(const std::string& name, int standard = 0) const {
    const std::string& text = word(name);
    return text.empty() ? standard : std::stoi(text);
  }
  [[nodiscard]] std::vector<std::string> list(const std::string& name) const {
    std::vector<std::string> items;
    std::istringstream in(word(name));
    for (std::string item; std::getline(in, item, ',');) items.push_back(item);
    return items;
  }
  [[nodiscard]] std::vector<int> numbers(const std::string& name) const {
    std::vector<int> items;
    for (const std::string& item : list(name)) items.push_back(std::stoi(item));
    return items;
  }
};

/// A communicator, or what this rank has instead of one.
struct Comm {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm whole = MPI_COMM_NULL;  // of an intercommunicator: of both groups, for this program's own checks
  int rank = 0;
  int size = 0;
  bool inter = false;
  bool second = false;
  std::uint64_t name = 0;  // the same on its ranks only
};

/// What a request stands for, with the buffers that must live as long.
struct Pending {
  MPI_Request request = MPI_REQUEST_NULL;
  bool persistent = false;
  bool active = false;
  std::function<void()> finished;
  std::unique_ptr<Exchange> exchange;
  std::vector<std::uint64_t> sent, received;
  std::vector<MPI_Request> more;  // messages have many
  std::vector<MPI_Status> statuses;
};

struct Window {
  MPI_Win win = MPI_WIN_NULL;
  std::uint64_t* memory = nullptr;
  std::vector<std::uint64_t> own;
  Comm* comm = nullptr;
};

// ---------------------------------------------------------------- what the job has

std::uint64_t seed = 0;
int world_rank = 0;
int world_size = 1;
bool layouts = false;
std::array<std::atomic<int>, kMostThreads> at_line{};
std::atomic<std::uint64_t> checksum{0};
std::atomic<long long> wrong{0};
std::atomic<int> shown{0};
std::atomic<long long> copies{0};
std::atomic<long long> deletions{0};
std::mutex objects;  // guards the maps, not what is in them
std::map<std::string, Comm> comms;
std::map<std::string, Pending> requests;
std::map<std::string, Window> windows;
pthread_barrier_t everybody;

template <class T>
T& object(std::map<std::string, T>& all, const std::string& name) {
  const std::lock_guard lock(objects);
  return all[name];
}

template <class T>
void drop(std::map<std::string, T>& all, const std::string& name) {
  const std::lock_guard lock(objects);
  all.erase(name);
}

void tell(const Line& line, const std::string& what) {
  if (shown++ >= 8) return;
  std::fprintf(stderr, "random_program: rank %d line %d %s: %s\n", world_rank, line.number, line.verb.c_str(),
               what.c_str());
}

void expect(const Line& line, bool right, const char* what) {
  if (right) return;
  ++wrong;
  tell(line, what);
}

Random common_of(const Line& line) {
  return {mixed(seed, static_cast<std::uint64_t>(line.number))};
}

Random own_of(const Line& line) {
  return {mixed(mixed(seed, static_cast<std::uint64_t>(line.number)),
                static_cast<std::uint64_t>(world_rank + 1))};
}

// ---------------------------------------------------------------- communicators

/// Takes a new one into the list; its name comes from its ranks, so that pieces of one split have different
/// ones.
void keep_comm(const Line& line, MPI_Comm made, bool second = false, MPI_Comm whole = MPI_COMM_NULL) {
  Comm& c = object(comms, line.word("to"));
  c = Comm{};
  c.comm = made;
  if (made == MPI_COMM_NULL) return;
  int inter = 0;
  MPI_Comm_test_inter(made, &inter);
  c.inter = inter != 0;
  c.second = second;
  c.whole = whole;
  MPI_Comm_rank(made, &c.rank);
  MPI_Comm_size(made, &c.size);
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Comm_group(c.inter ? whole : made, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  const int first = 0;
  int there = 0;
  MPI_Group_translate_ranks(group, 1, &first, world, &there);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  c.name = mixed(mixed(seed, static_cast<std::uint64_t>(line.number)), static_cast<std::uint64_t>(there + 7));
}

/// The ranks of `numbers`, of the job, that are in `comm`, in that order.
MPI_Group group_of(MPI_Comm comm, const std::vector<int>& numbers) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group made = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &all);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  std::vector<int> there(numbers.size());
  MPI_Group_translate_ranks(world, static_cast<int>(numbers.size()), numbers.data(), all, there.data());
  std::erase(there, MPI_UNDEFINED);
  MPI_Group_incl(all, static_cast<int>(there.size()), there.data(), &made);
  MPI_Group_free(&all);
  MPI_Group_free(&world);
  return made;
}

void make_from_group(const Line& line, const Comm& from) {
  MPI_Group group = group_of(from.comm, line.numbers("members"));
  MPI_Comm made = MPI_COMM_NULL;
  int mine = MPI_UNDEFINED;
  MPI_Group_rank(group, &mine);
  if (line.verb == "create") {
    MPI_Comm_create(from.comm, group, &made);
  } else if (mine != MPI_UNDEFINED) {
    MPI_Comm_create_group(from.comm, group, line.number % 1000, &made);
  }
  MPI_Group_free(&group);
  keep_comm(line, made);
}

void make_inter(const Line& line, const Comm& from) {
  const int color = line.numbers("colors")[static_cast<std::size_t>(world_rank)];
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_split(from.comm, color, from.rank, &local);
  std::vector<int> all(static_cast<std::size_t>(from.size));
  MPI_Allgather(&color, 1, MPI_INT, all.data(), 1, MPI_INT, from.comm);
  const auto other = std::find(all.begin(), all.end(), 1 - color);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm whole = MPI_COMM_NULL;
  if (other != all.end()) {
    MPI_Intercomm_create(local, 0, from.comm, static_cast<int>(other - all.begin()), line.number % 1000,
                         &made);
    MPI_Comm_dup(from.comm, &whole);
  }
  MPI_Comm_free(&local);
  keep_comm(line, made, color == 1, whole);
}

int copy_attribute(MPI_Comm, int, void*, void* in, void* out, int* flag) {
  ++copies;
  *static_cast<void**>(out) = in;
  *flag = 1;
  return MPI_SUCCESS;
}

int delete_attribute(MPI_Comm, int, void*, void*) {
  ++deletions;
  return MPI_SUCCESS;
}

bool step_communicators(const Line& line) {
  if (line.verb == "free") {
    Comm& c = object(comms, line.word("comm"));
    if (c.whole != MPI_COMM_NULL) MPI_Comm_free(&c.whole);
    if (c.comm != MPI_COMM_NULL)
      line.word("how") == "disconnect" ? MPI_Comm_disconnect(&c.comm) : MPI_Comm_free(&c.comm);
    drop(comms, line.word("comm"));
    return true;
  }
  const auto at = static_cast<std::size_t>(world_rank);
  const Comm& from = object(comms, line.word("from"));
  if (from.comm == MPI_COMM_NULL) return line.words.contains("from");
  MPI_Comm made = MPI_COMM_NULL;
  if (line.verb == "dup") {
    MPI_Comm_dup(from.comm, &made);
    MPI_Comm whole = MPI_COMM_NULL;
    if (from.inter) MPI_Comm_dup(from.whole, &whole);
    keep_comm(line, made, from.second, whole);
  } else if (line.verb == "idup") {
    Comm& to = object(comms, line.word("to"));
    Pending& p = object(requests, line.word("req"));
    MPI_Comm_idup(from.comm, &to.comm, &p.request);
    p.active = true;
    p.finished = [&to, line] { keep_comm(line, to.comm); };
  } else if (line.verb == "split") {
    const int color = line.numbers("colors")[at];
    MPI_Comm_split(from.comm, color < 0 ? MPI_UNDEFINED : color, line.numbers("keys")[at], &made);
    keep_comm(line, made);
  } else if (line.verb == "split_shared") {
    MPI_Comm_split_type(from.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
    keep_comm(line, made);
  } else if (line.verb == "create" || line.verb == "create_group") {
    make_from_group(line, from);
  } else if (line.verb == "inter") {
    make_inter(line, from);
  } else if (line.verb == "merge") {
    MPI_Intercomm_merge(from.comm, from.second ? 1 : 0, &made);
    keep_comm(line, made);
  } else if (line.verb == "ring") {
    const int periodic = 1;
    MPI_Cart_create(from.comm, 1, &from.size, &periodic, 0, &made);
    keep_comm(line, made);
  } else if (line.verb == "attribute") {
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, nullptr);
    MPI_Comm_set_attr(from.comm, key, nullptr);
    MPI_Comm_free_keyval(&key);
  } else if (line.verb == "errors_return") {
    MPI_Comm_set_errhandler(from.comm, MPI_ERRORS_RETURN);
  } else {
    return false;
  }
  return true;
}

// ---------------------------------------------------------------- all-to-alls

Wish wish_of(const Line& line) {
  Wish w{};
  const std::string& form = line.word("form");
  const std::string& length = line.word("length");
  const std::string& mode = line.word("mode");
  w.kind = form == "w" ? TYPED : form == "v" ? RAGGED : UNIFORM;
  w.length = length == "long" ? LONG : length == "medium" ? MEDIUM : SMALL;
  w.mode = mode == "persistent" ? PERSISTENT : mode == "nonblocking" ? NONBLOCKING : BLOCKING;
  w.in_place = line.value("in_place");
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

void alltoall(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  line.word("mode") == "blocking" ? blocking(line, c) : begin(line, c);
}

/// Calls that MPI refuses before it talks to anybody; what it says becomes part of the checksum.
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

/// Short-lived communicators, whose handles come again.
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

// ---------------------------------------------------------------- other collectives

std::uint64_t value_of(const Line& line, const Comm& c, int rank) {
  return mixed(c.name + static_cast<std::uint64_t>(line.number), static_cast<std::uint64_t>(rank)) >> 40;
}

void collective(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  Random common = common_of(line);
  const int root = below(&common, c.size);
  const std::string& kind = line.word("kind");
  std::uint64_t mine = value_of(line, c, c.rank);
  std::uint64_t sum = 0;
  std::uint64_t before = 0;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(c.size));
  std::vector<std::uint64_t> right(all.size());
  for (int r = 0; r < c.size; ++r) {
    right[static_cast<std::size_t>(r)] = value_of(line, c, r);
    sum += value_of(line, c, r);
    if (r <= c.rank) before += value_of(line, c, r);
  }
  std::uint64_t got = mine;
  std::uint64_t wanted = sum;
  if (kind == "barrier") {
    MPI_Barrier(c.comm);
    wanted = mine;
  } else if (kind == "bcast") {
    MPI_Bcast(&got, 1, MPI_UINT64_T, root, c.comm);
    wanted = right[static_cast<std::size_t>(root)];
  } else if (kind == "allreduce") {
    MPI_Allreduce(&mine, &got, 1, MPI_UINT64_T, MPI_SUM, c.comm);
  } else if (kind == "reduce") {
    MPI_Reduce(&mine, &got, 1, MPI_UINT64_T, MPI_SUM, root, c.comm);
    if (c.rank != root) wanted = got;
  } else if (kind == "scan") {
    MPI_Scan(&mine, &got, 1, MPI_UINT64_T, MPI_SUM, c.comm);
    wanted = before;
  } else if (kind == "gather") {
    MPI_Gather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, root, c.comm);
    expect(line, c.rank != root || all == right, "gathered wrong");
    wanted = got;
  } else if (kind == "scatter") {
    MPI_Scatter(right.data(), 1, MPI_UINT64_T, &got, 1, MPI_UINT64_T, root, c.comm);
    wanted = mine;
  } else if (kind == "allgather") {
    MPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, c.comm);
    expect(line, all == right, "allgathered wrong");
    wanted = got;
  } else if (kind == "reduce_scatter") {
    MPI_Reduce_scatter_block(right.data(), &got, 1, MPI_UINT64_T, MPI_MAX, c.comm);
    wanted = mine;
  } else if (kind == "neighbor") {
    // Of a ring: both neighbors get the same; of two or one ranks both are the same one.
    std::array<std::uint64_t, 2> sent{mine, mine};
    std::array<std::uint64_t, 2> from{};
    MPI_Neighbor_alltoall(sent.data(), 1, MPI_UINT64_T, from.data(), 1, MPI_UINT64_T, c.comm);
    expect(line,
           from[0] == value_of(line, c, (c.rank + c.size - 1) % c.size) &&
               from[1] == value_of(line, c, (c.rank + 1) % c.size),
           "neighbors sent something else");
    wanted = got;
  }
  expect(line, got == wanted, "the collective's result is wrong");
  checksum += wanted;
}

void begin_collective(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  Pending& p = object(requests, line.word("req"));
  p.active = true;
  p.sent = {value_of(line, c, c.rank)};
  p.received = {0};
  std::uint64_t largest = 0;
  for (int r = 0; r < c.size; ++r) largest = std::max(largest, value_of(line, c, r));
  if (line.word("kind") == "barrier") {
    MPI_Ibarrier(c.comm, &p.request);
  } else if (line.word("kind") == "bcast") {
    largest = value_of(line, c, 0);
    p.received = p.sent;
    MPI_Ibcast(p.received.data(), 1, MPI_UINT64_T, 0, c.comm, &p.request);
  } else {
    MPI_Iallreduce(p.sent.data(), p.received.data(), 1, MPI_UINT64_T, MPI_MAX, c.comm, &p.request);
  }
  if (line.word("kind") == "barrier") return;
  p.finished = [line, &p, largest] {
    expect(line, p.received[0] == largest, "the nonblocking collective's result is wrong");
  };
}

// ---------------------------------------------------------------- messages

/// Each rank sends some messages to others, and takes as many from anybody, with any tag: perhaps those of a
/// later line.
void messages(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  const int n = line.value("count");
  Pending& p = object(requests, line.word("req"));
  p.active = true;
  p.sent.resize(static_cast<std::size_t>(3 * n));
  p.received.resize(p.sent.size());
  p.more.resize(static_cast<std::size_t>(2 * n));
  p.statuses.resize(p.more.size());
  Random common = common_of(line);
  for (int i = 0; i < n; ++i)
    MPI_Irecv(&p.received[static_cast<std::size_t>(3 * i)], 3, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG,
              c.comm, &p.more[static_cast<std::size_t>(i)]);
  for (int i = 0; i < n; ++i) {
    const int to = (c.rank + below(&common, c.size)) % c.size;
    const int tag = below(&common, kTags);
    std::uint64_t* const m = &p.sent[static_cast<std::size_t>(3 * i)];
    m[1] = static_cast<std::uint64_t>((i * kTags + tag) * 1024 + to);
    m[0] = mixed(c.name, m[1]);
    m[2] = static_cast<std::uint64_t>(c.rank);
    MPI_Isend(m, 3, MPI_UINT64_T, to, tag, c.comm, &p.more[static_cast<std::size_t>(n + i)]);
  }
  p.finished = [line, &p, &c, n] {
    for (int i = 0; i < n; ++i) {
      const std::uint64_t* const m = &p.received[static_cast<std::size_t>(3 * i)];
      const MPI_Status& s = p.statuses[static_cast<std::size_t>(i)];
      expect(line,
             m[0] == mixed(c.name, m[1]) && m[1] % 1024 == static_cast<std::uint64_t>(c.rank) &&
                 m[2] == static_cast<std::uint64_t>(s.MPI_SOURCE) &&
                 m[1] / 1024 % kTags == static_cast<std::uint64_t>(s.MPI_TAG),
             "another message than was sent");
      checksum += m[0];
    }
  };
}

/// Around a ring, received by what a probe has found.
void ring_of_messages(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  const std::uint64_t mine = value_of(line, c, c.rank);
  std::uint64_t got = 0;
  const int from = (c.rank + c.size - 1) % c.size;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(&mine, 1, MPI_UINT64_T, (c.rank + 1) % c.size, kRingTag, c.comm, &request);
  MPI_Status status;
  if (line.value("matched") != 0) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c.comm, &message, &status);
    MPI_Mrecv(&got, 1, MPI_UINT64_T, &message, MPI_STATUS_IGNORE);
  } else {
    MPI_Probe(from, kRingTag, c.comm, &status);
    MPI_Recv(&got, 1, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, c.comm, MPI_STATUS_IGNORE);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(line, status.MPI_SOURCE == from && status.MPI_TAG == kRingTag && got == value_of(line, c, from),
         "another message than the neighbor's");
}

void look_for_messages(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  for (int i = 0; i < 4; ++i) {
    MPI_Status status;
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c.comm, &flag, &status);
    const bool ours = status.MPI_TAG >= 0 && (status.MPI_TAG < kTags || status.MPI_TAG == kRingTag);
    if (flag != 0)
      expect(line, ours && status.MPI_SOURCE < c.size, "a message that the program did not send");
  }
}

// ---------------------------------------------------------------- one-sided

void make_window(const Line& line) {
  Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL || c.size == 1)
    return;  // Open MPI 4.1 has no windows of one rank without shared memory
  Window& w = object(windows, line.word("win"));
  w.comm = &c;
  const auto bytes = static_cast<MPI_Aint>(static_cast<std::size_t>(c.size + 1) * sizeof(std::uint64_t));
  if (line.word("kind") == "create") {
    w.own.resize(static_cast<std::size_t>(c.size + 1));
    w.memory = w.own.data();
    MPI_Win_create(w.memory, bytes, sizeof(std::uint64_t), MPI_INFO_NULL, c.comm, &w.win);
  } else if (line.word("kind") == "shared") {
    MPI_Win_allocate_shared(bytes, sizeof(std::uint64_t), MPI_INFO_NULL, c.comm,
                            static_cast<void*>(&w.memory), &w.win);
  } else {
    MPI_Win_allocate(bytes, sizeof(std::uint64_t), MPI_INFO_NULL, c.comm, static_cast<void*>(&w.memory),
                     &w.win);
  }
}

/// Each rank puts a word into its place at every other rank, and adds one to the last place.
void epoch(const Line& line) {
  const Window& w = object(windows, line.word("win"));
  if (w.win == MPI_WIN_NULL) return;
  const Comm& c = *w.comm;
  const bool fence = line.word("kind") == "fence";
  std::vector<std::uint64_t> words(static_cast<std::size_t>(c.size));
  const std::uint64_t one = 1;
  for (int r = 0; r <= c.size; ++r) w.memory[r] = 0;
  fence ? MPI_Win_fence(0, w.win) : MPI_Barrier(c.comm);
  if (!fence) MPI_Win_lock_all(0, w.win);
  for (int r = 0; r < c.size; ++r) {
    words[static_cast<std::size_t>(r)] = mixed(value_of(line, c, r), static_cast<std::uint64_t>(c.rank));
    MPI_Put(&words[static_cast<std::size_t>(r)], 1, MPI_UINT64_T, r, c.rank, 1, MPI_UINT64_T, w.win);
    MPI_Accumulate(&one, 1, MPI_UINT64_T, r, c.size, 1, MPI_UINT64_T, MPI_SUM, w.win);
  }
  if (!fence) MPI_Win_unlock_all(w.win);
  fence ? MPI_Win_fence(0, w.win) : MPI_Barrier(c.comm);
  if (!fence) MPI_Win_lock(MPI_LOCK_SHARED, c.rank, 0, w.win);
  bool right = w.memory[c.size] == static_cast<std::uint64_t>(c.size);
  for (int r = 0; r < c.size; ++r)
    right = right && w.memory[r] == mixed(value_of(line, c, c.rank), static_cast<std::uint64_t>(r));
  if (!fence) MPI_Win_unlock(c.rank, w.win);
  expect(line, right, "the window holds something else");
  MPI_Barrier(c.comm);
}

void free_window(const Line& line) {
  Window& w = object(windows, line.word("win"));
  if (w.win != MPI_WIN_NULL) MPI_Win_free(&w.win);
  drop(windows, line.word("win"));
}

// ---------------------------------------------------------------- requests

void end_one(const std::string& name, Pending& p) {
  if (!p.more.empty()) MPI_Waitall(static_cast<int>(p.more.size()), p.more.data(), p.statuses.data());
  p.active = false;
  if (p.finished) p.finished();
  if (p.persistent) return;
  if (p.exchange) free_exchange(p.exchange.get());
  drop(requests, name);
}

/// Completes requests, by one of MPI's ways: each rank by its own.
void wait_for(const Line& line) {
  std::vector<std::string> names;
  std::vector<MPI_Request> list;
  for (const std::string& name : line.list("reqs")) {
    Pending& p = object(requests, name);
    if (!p.active) continue;
    names.push_back(name);
    list.push_back(p.request);
  }
  Random own = own_of(line);
  const int n = static_cast<int>(list.size());
  std::vector<int> done(list.size());
  const int way = below(&own, 6);
  int left = n;
  int flag = 0;
  if (way == 0) {
    MPI_Waitall(n, list.data(), MPI_STATUSES_IGNORE);
  } else if (way == 1) {
    while (flag == 0) MPI_Testall(n, list.data(), &flag, MPI_STATUSES_IGNORE);
  } else if (way == 2) {
    for (int some = 0; left > 0; left -= some) {
      MPI_Waitsome(n, list.data(), &some, done.data(), MPI_STATUSES_IGNORE);
      if (some == MPI_UNDEFINED) break;
    }
  } else if (way == 3) {
    for (int which = 0; which != MPI_UNDEFINED;) MPI_Waitany(n, list.data(), &which, MPI_STATUS_IGNORE);
  } else if (way == 4) {
    for (MPI_Request& r : list) {
      for (flag = 0; flag == 0;) MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
    }
  } else {
    for (MPI_Request& r : list) MPI_Wait(&r, MPI_STATUS_IGNORE);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    Pending& p = object(requests, names[i]);
    expect(line, p.persistent || list[i] == MPI_REQUEST_NULL,
           "a request is still there after the wait for it");
    p.request = list[i];
    end_one(names[i], p);
  }
}

/// Persistent requests, each rank in an order of its own.
void start(const Line& line) {
  std::vector<std::string> names = line.list("reqs");
  Random own = own_of(line);
  for (std::size_t i = names.size(); i > 1; --i)
    std::swap(names[i - 1], names[static_cast<std::size_t>(below(&own, static_cast<int>(i)))]);
  std::vector<MPI_Request> list;
  std::vector<Pending*> started;
  for (const std::string& name : names) {
    Pending& p = object(requests, name);
    if (p.request == MPI_REQUEST_NULL) continue;
    fill_exchange(p.exchange.get(), static_cast<std::uint64_t>(line.number));
    p.active = true;
    list.push_back(p.request);
    started.push_back(&p);
  }
  if (list.empty()) return;
  if (once_in(&own, 2)) {
    MPI_Startall(static_cast<int>(list.size()), list.data());
  } else {
    for (MPI_Request& r : list) MPI_Start(&r);
  }
  for (std::size_t i = 0; i < list.size(); ++i) started[i]->request = list[i];
}

void free_request(const Line& line) {
  Pending& p = object(requests, line.word("req"));
  if (p.request != MPI_REQUEST_NULL) MPI_Request_free(&p.request);
  if (p.exchange) free_exchange(p.exchange.get());
  drop(requests, line.word("req"));
}

// ---------------------------------------------------------------- a program

void step(const Line& line) {
  const std::string& v = line.verb;
  if (v == "alltoall") return alltoall(line);
  if (v == "bad") return bad(line);
  if (v == "churn") return churn(line);
  if (v == "collective") return collective(line);
  if (v == "icollective") return begin_collective(line);
  if (v == "messages") return messages(line);
  if (v == "ring_of_messages") return ring_of_messages(line);
  if (v == "iprobe") return look_for_messages(line);
  if (v == "window") return make_window(line);
  if (v == "epoch") return epoch(line);
  if (v == "free_window") return free_window(line);
  if (v == "wait") return wait_for(line);
  if (v == "start") return start(line);
  if (v == "free_request") return free_request(line);
  if (v == "late") {
    const auto late = line.numbers("ranks");
    if (std::find(late.begin(), late.end(), world_rank) != late.end())
      ::usleep(static_cast<useconds_t>(line.value("us")));
    return;
  }
  if (v == "give") return;  // the list is common to all threads
  if (v == "meet") {
    pthread_barrier_wait(&everybody);
    return;
  }
  if (step_communicators(line)) return;
  std::fprintf(stderr, "random_program: line %d: unknown verb %s\n", line.number, v.c_str());
  MPI_Abort(MPI_COMM_WORLD, 2);
}

/// Lines that belong together are gone through in an order of each rank's own.
void run_lines(const std::vector<Line>& lines, int thread) {
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t end = i + 1;
    const std::string& mark = lines[i].word("shuffle");
    while (!mark.empty() && end < lines.size() && lines[end].word("shuffle") == mark) ++end;
    std::vector<const Line*> order;
    for (; i < end; ++i) order.push_back(&lines[i]);
    Random own = own_of(*order[0]);
    for (std::size_t k = order.size(); k > 1; --k)
      std::swap(order[k - 1], order[static_cast<std::size_t>(below(&own, static_cast<int>(k)))]);
    for (const Line* line : order) {
      at_line[static_cast<std::size_t>(thread)] = line->number;
      step(*line);
    }
  }
  at_line[static_cast<std::size_t>(thread)] = -1;
}

void too_long(int) {
  char text[160];
  int length = std::snprintf(text, sizeof text, "random_program: rank %d hangs in line", world_rank);
  for (const auto& line : at_line) {
    if (line.load() != 0)
      length +=
          std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), " %d", line.load());
  }
  text[length++] = '\n';
  if (::write(2, text, static_cast<std::size_t>(length)) < 0) ::_exit(4);
  ::sleep(1);  // for the others to say the same
  ::_exit(3);
}

Line read_line(const std::string& text) {
  Line line;
  std::istringstream in(text);
  in >> line.number >> line.thread >> line.verb;
  for (std::string word; in >> word;) {
    const std::size_t equals = word.find('=');
    line.words[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return line;
}

struct Program {
  Line header;
  std::vector<std::vector<Line>> threads;
};

Program read_program(const char* path) {
  std::ifstream in(path);
  Program program;
  std::string text;
  std::getline(in, text);
  program.header = read_line("0 0 " + text);
  program.threads.resize(
      static_cast<std::size_t>(std::clamp(program.header.value("threads", 1), 1, kMostThreads)));
  while (std::getline(in, text)) {
    if (text.empty() || text[0] == '#') continue;
    Line line = read_line(text);
    for (int t = 0; t < static_cast<int>(program.threads.size()); ++t) {
      if (line.thread < 0 || line.thread == t) program.threads[static_cast<std::size_t>(t)].push_back(line);
    }
  }
  return program;
}

void run(const Program& program) {
  const auto threads = static_cast<unsigned>(program.threads.size());
  pthread_barrier_init(&everybody, nullptr, threads);
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t)
    others.emplace_back(run_lines, std::cref(program.threads[t]), static_cast<int>(t));
  run_lines(program.threads[0], 0);
  for (std::thread& other : others) other.join();
}

/// The sums over all ranks; where a program leaves objects behind, that is part of the test.
bool report(std::size_t lines) {
  std::array<long long, 4> mine{wrong.load(), copies.load(), deletions.load(), 0};
  std::array<long long, 4> all{};
  std::uint64_t sum = checksum.load();
  std::uint64_t sums = 0;
  MPI_Allreduce(mine.data(), all.data(), 4, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(&sum, &sums, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (world_rank == 0) {
    std::printf(
        "random_program: %zu lines, wrong %lld, checksum %016llx, attributes copied %lld deleted %lld\n",
        lines, all[0], static_cast<unsigned long long>(sums), all[1], all[2]);
    std::fflush(stdout);
  }
  return all[0] != 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: random_program FILE SECONDS\n");
    return 2;
  }
  const Program program = read_program(argv[1]);
  if (program.header.verb != "program") {
    std::fprintf(stderr, "random_program: %s is no program\n", argv[1]);
    return 2;
  }
  const bool threads = program.threads.size() > 1;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  if (threads && provided < MPI_THREAD_MULTIPLE) {
    std::puts("skipped: this MPI has no MPI_THREAD_MULTIPLE");
    MPI_Finalize();
    return 77;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (world_size != program.header.value("ranks")) {
    std::fprintf(stderr, "random_program: %d ranks, the program is for %d\n", world_size,
                 program.header.value("ranks"));
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  seed = std::stoull(program.header.word("seed"));
  layouts = program.header.value("layouts") != 0;
  std::signal(SIGALRM, too_long);
  ::alarm(static_cast<unsigned>(std::stoi(argv[2])));
  Line first;
  first.number = 1;
  first.words["to"] = "world";
  keep_comm(first, MPI_COMM_WORLD);
  first.number = 2;
  first.words["to"] = "self";
  keep_comm(first, MPI_COMM_SELF);
  run(program);
  const bool failed = report(program.threads[0].size());
  MPI_Finalize();
  return failed ? 1 : 0;
}
