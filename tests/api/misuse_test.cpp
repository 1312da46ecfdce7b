// Misuse of the entry points and the exact error that each gives. On any number of ranks; every rank makes
// the same mistakes, so that none waits for another.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>

#include "checks.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

const char* const check = std::getenv("TAPA_CHECK");
const bool strict = check != nullptr && std::string(check) == "args";

int handler_calls = 0;
int handler_code = MPI_SUCCESS;

void remember(MPI_Comm*, int* code, ...) {
  ++handler_calls;
  handler_code = *code;
}

/// A call must fail with this class and this text, having called the error handler once (never for `code`
/// success).
void refused(int code, int error_class, const std::string& text) {
  int got = MPI_SUCCESS;
  MPI_Error_class(code, &got);
  expect(got == error_class, "\"" + text + "\": error class " + std::to_string(got) + ", expected " +
                                 std::to_string(error_class));
  expect_equal(TAPA_Last_error(), text, "message");
  expect(handler_calls == 1,
         "\"" + text + "\": error handler called " + std::to_string(handler_calls) + " times");
  expect(handler_code == code, "\"" + text + "\": error handler got another code");
  handler_calls = 0;
}

void uniform_calls(MPI_Comm comm) {
  std::vector<int> a(1000);
  std::vector<int> b(1000);
  const MPI_Datatype none = MPI_DATATYPE_NULL;
  refused(TAPA_Alltoall(nullptr, 1, MPI_INT, b.data(), 1, MPI_INT, comm), MPI_ERR_BUFFER,
          "TAPA_Alltoall: sendbuf is null, expected a buffer of sendcount = 1 elements");
  refused(TAPA_Alltoall(a.data(), 1, MPI_INT, nullptr, 1, MPI_INT, comm), MPI_ERR_BUFFER,
          "TAPA_Alltoall: recvbuf is null, expected a buffer of recvcount = 1 elements");
  refused(TAPA_Alltoall(a.data(), -1, MPI_INT, b.data(), 1, MPI_INT, comm), MPI_ERR_COUNT,
          "TAPA_Alltoall: sendcount is -1, expected 0 or more");
  refused(TAPA_Alltoall(a.data(), 1, MPI_INT, b.data(), -7, MPI_INT, comm), MPI_ERR_COUNT,
          "TAPA_Alltoall: recvcount is -7, expected 0 or more");
  refused(TAPA_Alltoall(a.data(), 1, none, b.data(), 1, MPI_INT, comm), MPI_ERR_TYPE,
          "TAPA_Alltoall: sendtype is MPI_DATATYPE_NULL, expected a datatype");
  refused(TAPA_Alltoall(a.data(), 1, MPI_INT, b.data(), 1, none, comm), MPI_ERR_TYPE,
          "TAPA_Alltoall: recvtype is MPI_DATATYPE_NULL, expected a datatype");
  refused(
      TAPA_Alltoall(a.data(), 2, MPI_INT, b.data(), 1, MPI_INT, comm), MPI_ERR_TRUNCATE,
      std::string("TAPA_Alltoall: sendcount and sendtype make 8 bytes per block, recvcount and recvtype 4, "
                  "expected ") +
          (strict ? "the same" : "no fewer"));
  refused(TAPA_Alltoall(a.data(), 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm), MPI_ERR_BUFFER,
          "TAPA_Alltoall: recvbuf is MPI_IN_PLACE, expected a buffer (MPI_IN_PLACE is for sendbuf)");
  refused(TAPA_Alltoall(MPI_IN_PLACE, 0, none, nullptr, 3, MPI_INT, comm), MPI_ERR_BUFFER,
          "TAPA_Alltoall: recvbuf is null, expected a buffer of recvcount = 3 elements");
  refused(TAPA_Alltoall_c(a.data(), -5000000000, MPI_INT, b.data(), 1, MPI_INT, comm), MPI_ERR_COUNT,
          "TAPA_Alltoall_c: sendcount is -5000000000, expected 0 or more");
  refused(TAPA_Alltoall_c(a.data(), 4611686018427387904, MPI_INT, b.data(), 1, MPI_INT, comm), MPI_ERR_COUNT,
          "TAPA_Alltoall_c: count 4611686018427387904 of a type of 4 bytes exceeds the address space");
}

/// What MPI lets pass is refused only where TAPA_CHECK asks for that.
void lenient_calls(MPI_Comm comm) {
  const int ranks = size_of(comm);
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<int> a(n);
  std::vector<int> b(2 * n, -1);
  for (int peer = 0; peer < ranks; ++peer) a[static_cast<std::size_t>(peer)] = value(rank_of(comm), peer, 0);
  const int shorter = TAPA_Alltoall(a.data(), 1, MPI_INT, b.data(), 2, MPI_INT, comm);
  if (strict) {
    refused(
        shorter, MPI_ERR_TRUNCATE,
        "TAPA_Alltoall: sendcount and sendtype make 4 bytes per block, recvcount and recvtype 8, expected "
        "the same");
    refused(TAPA_Alltoall(a.data(), 1, MPI_INT, a.data(), 1, MPI_INT, comm), MPI_ERR_BUFFER,
            "TAPA_Alltoall: sendbuf and recvbuf are the same, expected MPI_IN_PLACE as sendbuf for that");
    return;
  }
  expect(shorter == MPI_SUCCESS, "shorter blocks pass");
  expect(TAPA_Alltoall(a.data(), 1, MPI_INT, a.data(), 1, MPI_INT, comm) == MPI_SUCCESS,
         "equal buffers pass");
  for (int peer = 0; peer < ranks; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    expect(b[2 * p] == value(peer, rank_of(comm), 0) && b[2 * p + 1] == -1, "shorter blocks arrive");
    expect(a[p] == value(peer, rank_of(comm), 0), "what equal buffers held arrives");
  }
}

/// A block that is longer than its receiver expects is that rank's error alone.
void longer_block(MPI_Comm comm) {
  const auto n = static_cast<std::size_t>(size_of(comm));
  if (n < 2) return;
  std::vector<int> a(2 * n), b(2 * n);
  std::vector<int> sendcounts(n, 1), recvcounts(n, 1), displs(n);
  for (std::size_t peer = 0; peer < n; ++peer) displs[peer] = static_cast<int>(2 * peer);
  if (rank_of(comm) == 1) sendcounts[0] = 2;
  const int code = TAPA_Alltoallv(a.data(), sendcounts.data(), displs.data(), MPI_INT, b.data(),
                                  recvcounts.data(), displs.data(), MPI_INT, comm);
  if (rank_of(comm) == 0) {
    refused(code, MPI_ERR_TRUNCATE, "TAPA_Alltoallv: message from rank 1 has 8 bytes, expected at most 4");
  } else {
    expect(code == MPI_SUCCESS, "who sent or received what was expected");
  }
}

/// Right calls before do not make wrong ones right that differ in a buffer alone.
void after_right_calls(MPI_Comm comm) {
  std::vector<int> a(1000);
  std::vector<int> b(1000);
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &copy);
  TAPA_Comm_set(copy, "plan", "memory");  // alone: MPI
  for (int call = 0; call < 3; ++call)
    expect(TAPA_Alltoall(a.data(), 1, MPI_INT, b.data(), 1, MPI_INT, copy) == MPI_SUCCESS, "right call");
  refused(TAPA_Alltoall(nullptr, 1, MPI_INT, b.data(), 1, MPI_INT, copy), MPI_ERR_BUFFER,
          "TAPA_Alltoall: sendbuf is null, expected a buffer of sendcount = 1 elements");
  refused(TAPA_Alltoall(a.data(), 1, MPI_INT, nullptr, 1, MPI_INT, copy), MPI_ERR_BUFFER,
          "TAPA_Alltoall: recvbuf is null, expected a buffer of recvcount = 1 elements");
  refused(TAPA_Alltoall(a.data(), 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, copy), MPI_ERR_BUFFER,
          "TAPA_Alltoall: recvbuf is MPI_IN_PLACE, expected a buffer (MPI_IN_PLACE is for sendbuf)");
  if (size_of(comm) > 1) lenient_calls(copy);
  MPI_Comm_free(&copy);
}

void ragged_calls(MPI_Comm comm) {
  const auto n = static_cast<std::size_t>(size_of(comm));
  std::vector<int> a(1000);
  std::vector<int> b(1000);
  const std::vector<int> ones(n, 1);
  std::vector<int> zeros(n, 0);
  std::vector<int> wrong = ones;
  wrong.back() = -3;
  const std::string last = std::to_string(n - 1);
  const int* o = ones.data();
  const int* z = zeros.data();
  refused(TAPA_Alltoallv(a.data(), nullptr, z, MPI_INT, b.data(), o, z, MPI_INT, comm), MPI_ERR_ARG,
          "TAPA_Alltoallv: sendcounts is null, expected an array");
  refused(TAPA_Alltoallv(a.data(), o, nullptr, MPI_INT, b.data(), o, z, MPI_INT, comm), MPI_ERR_ARG,
          "TAPA_Alltoallv: sdispls is null, expected an array");
  refused(TAPA_Alltoallv(a.data(), o, z, MPI_INT, b.data(), nullptr, z, MPI_INT, comm), MPI_ERR_ARG,
          "TAPA_Alltoallv: recvcounts is null, expected an array");
  refused(TAPA_Alltoallv(a.data(), o, z, MPI_INT, b.data(), o, nullptr, MPI_INT, comm), MPI_ERR_ARG,
          "TAPA_Alltoallv: rdispls is null, expected an array");
  refused(TAPA_Alltoallv(a.data(), wrong.data(), z, MPI_INT, b.data(), o, z, MPI_INT, comm), MPI_ERR_COUNT,
          "TAPA_Alltoallv: sendcounts[" + last + "] is -3, expected 0 or more");
  refused(TAPA_Alltoallv(a.data(), o, z, MPI_INT, b.data(), wrong.data(), z, MPI_INT, comm), MPI_ERR_COUNT,
          "TAPA_Alltoallv: recvcounts[" + last + "] is -3, expected 0 or more");
  refused(TAPA_Alltoallv(nullptr, o, z, MPI_INT, b.data(), o, z, MPI_INT, comm), MPI_ERR_BUFFER,
          "TAPA_Alltoallv: sendbuf is null, expected a buffer of sendcounts[0] = 1 elements");
  refused(TAPA_Alltoallv(a.data(), o, z, MPI_DATATYPE_NULL, b.data(), o, z, MPI_INT, comm), MPI_ERR_TYPE,
          "TAPA_Alltoallv: sendtype is MPI_DATATYPE_NULL, expected a datatype");

  const std::vector<MPI_Datatype> types(n, MPI_INT);
  std::vector<MPI_Datatype> bad = types;
  bad.back() = MPI_DATATYPE_NULL;
  refused(TAPA_Alltoallw(a.data(), o, z, nullptr, b.data(), o, z, types.data(), comm), MPI_ERR_ARG,
          "TAPA_Alltoallw: sendtypes is null, expected an array");
  refused(TAPA_Alltoallw(a.data(), o, z, types.data(), b.data(), o, z, nullptr, comm), MPI_ERR_ARG,
          "TAPA_Alltoallw: recvtypes is null, expected an array");
  refused(TAPA_Alltoallw(a.data(), o, z, bad.data(), b.data(), o, z, types.data(), comm), MPI_ERR_TYPE,
          "TAPA_Alltoallw: sendtypes[" + last + "] is MPI_DATATYPE_NULL, expected a datatype");
  refused(TAPA_Alltoallw(a.data(), o, z, types.data(), b.data(), o, z, bad.data(), comm), MPI_ERR_TYPE,
          "TAPA_Alltoallw: recvtypes[" + last + "] is MPI_DATATYPE_NULL, expected a datatype");
  const std::vector<MPI_Count> large(n, -1);
  const std::vector<MPI_Aint> displs(n, 0);
  refused(TAPA_Alltoallv_c(a.data(), large.data(), displs.data(), MPI_INT, b.data(), large.data(),
                           displs.data(), MPI_INT, comm),
          MPI_ERR_COUNT, "TAPA_Alltoallv_c: recvcounts[0] is -1, expected 0 or more");
}

void state_calls(MPI_Comm comm) {
  char text[64];
  int length = 0;
  refused(TAPA_Comm_set(comm, nullptr, "1"), MPI_ERR_ARG, "TAPA_Comm_set: key is null");
  refused(TAPA_Comm_set(comm, "check", nullptr), MPI_ERR_ARG, "TAPA_Comm_set: value is null");
  refused(TAPA_Comm_set(comm, "chek", "1"), MPI_ERR_ARG,
          "TAPA_Comm_set: unknown option \"chek\", did you mean check?");
  refused(TAPA_Comm_set(comm, "check", "maybe"), MPI_ERR_ARG,
          "TAPA_Comm_set: option \"check\" is \"maybe\", expected off|mpi|args|counts|data");
  refused(TAPA_Comm_set(comm, "timeout", "soon"), MPI_ERR_ARG,
          "TAPA_Comm_set: option \"timeout\" is \"soon\", expected a number of seconds, 0 or more");
  refused(TAPA_Comm_get(comm, nullptr, text, 64, &length), MPI_ERR_ARG, "TAPA_Comm_get: key is null");
  refused(TAPA_Comm_get(comm, "check", nullptr, 64, &length), MPI_ERR_ARG, "TAPA_Comm_get: value is null");
  refused(TAPA_Comm_get(comm, "check", text, 0, &length), MPI_ERR_ARG,
          "TAPA_Comm_get: size is 0, expected 1 or more");
  refused(TAPA_Comm_get(comm, "nonsense-key", text, 64, &length), MPI_ERR_ARG,
          "TAPA_Comm_get: unknown option \"nonsense-key\"");
  refused(TAPA_Comm_plan(comm, 8, nullptr, 64, &length), MPI_ERR_ARG, "TAPA_Comm_plan: value is null");
  refused(TAPA_Comm_level(comm, -1, nullptr, nullptr, 0), MPI_ERR_RANK,
          "TAPA_Comm_level: peer is -1, expected 0 to " + std::to_string(size_of(comm) - 1));
  refused(TAPA_Comm_level(comm, size_of(comm), nullptr, nullptr, 0), MPI_ERR_RANK,
          "TAPA_Comm_level: peer is " + std::to_string(size_of(comm)) + ", expected 0 to " +
              std::to_string(size_of(comm) - 1));
  int count = 0;
  int nic_level = -1;
  expect(TAPA_Comm_levels(comm, &count, &nic_level, text, 64, &length) == MPI_SUCCESS, "levels");
  const std::string names(text);
  expect_equal(std::to_string(std::count(names.begin(), names.end(), ',') + 1), std::to_string(count),
               "as many names as levels");
  expect_equal(names.substr(names.rfind(',') + 1), "world", "the slowest level");
  expect_equal(std::to_string(nic_level), std::to_string(count), "no level crosses NICs in one node");
  expect_equal(std::to_string(length), std::to_string(names.size()), "length of the levels' names");
  refused(TAPA_Comm_levels(comm, &count, &nic_level, text, 0, &length), MPI_ERR_ARG,
          "TAPA_Comm_levels: size is 0, expected 1 or more");
}

/// A plan that does not fit the topology is an error when that was asked for; not for one rank, which is
/// MPI's.
void fallback(MPI_Comm comm) {
  if (size_of(comm) == 1) return;
  std::vector<int> a(static_cast<std::size_t>(size_of(comm)), 1);
  std::vector<int> b(a.size(), 0);
  char check[32];
  TAPA_Comm_get(comm, "check", check, sizeof check, nullptr);
  expect(TAPA_Comm_set(comm, "check", (std::string(check) + ",plan").c_str()) == MPI_SUCCESS,
         "setting check");
  expect(TAPA_Comm_set(comm, "plan", "tapa:split=galaxy") == MPI_SUCCESS, "setting plan");
  const int code = TAPA_Alltoall(a.data(), 1, MPI_INT, b.data(), 1, MPI_INT, comm);
  expect(code == MPI_ERR_ARG, "a plan that does not fit is refused");
  expect(std::string(TAPA_Last_error())
             .starts_with("TAPA_Alltoall: plan tapa:split=galaxy cannot be carried out: "),
         std::string("message of a plan that does not fit: ") + TAPA_Last_error());
  handler_calls = 0;
  expect(TAPA_Comm_set(comm, "check", check) == MPI_SUCCESS, "setting check");
  expect(TAPA_Alltoall(a.data(), 1, MPI_INT, b.data(), 1, MPI_INT, comm) == MPI_SUCCESS, "fallback");
  expect(b == a, "data of the fallback");
  expect(TAPA_Comm_set(comm, "plan", "auto") == MPI_SUCCESS, "setting plan");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(remember, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  if (strict) TAPA_Comm_setup(MPI_COMM_WORLD);  // until then arguments are checked as by default
  uniform_calls(MPI_COMM_WORLD);
  after_right_calls(MPI_COMM_WORLD);
  if (size_of(MPI_COMM_WORLD) > 1) lenient_calls(MPI_COMM_WORLD);  // alone it may be MPI's
  longer_block(MPI_COMM_WORLD);
  ragged_calls(MPI_COMM_WORLD);
  state_calls(MPI_COMM_WORLD);
  fallback(MPI_COMM_WORLD);
  int a = 0;
  int b = 0;
  refused(TAPA_Alltoall(&a, 1, MPI_INT, &b, 1, MPI_INT, MPI_COMM_NULL), MPI_ERR_COMM,
          "TAPA_Alltoall: comm is MPI_COMM_NULL, expected a communicator");
  refused(TAPA_Comm_setup(MPI_COMM_NULL), MPI_ERR_COMM,
          "TAPA_Comm_setup: comm is MPI_COMM_NULL, expected a communicator");
  expect(TAPA_Comm_setup(MPI_COMM_WORLD) == MPI_SUCCESS, "setup after all that");
  expect_equal(TAPA_Last_error(), "", "no error after success");
  MPI_Errhandler_free(&handler);
  return finish("misuse_test");
}
