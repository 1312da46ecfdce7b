// What MPI's all-to-all allows beside plain calls: MPI_BOTTOM, structs, types of no size, negative lower
// bounds, large counts, tiny communicators, duplicates, splits, intercommunicators, communicators that go
// away, handles that come again for something else.
#include <mpi.h>

#include <numeric>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

void check_call(int code, const std::string& what) {
  expect(code == MPI_SUCCESS, what + " failed: " + TAPA_Last_error());
}

/// A plain exchange that must be right; used wherever a communicator is made in some way.
void exchange(MPI_Comm comm, const std::string& what) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  std::vector<std::int32_t> out(at(3 * size));
  std::vector<std::int32_t> in(at(3 * size), kGuard);
  for (int k = 0; k < 3 * size; ++k) out[at(k)] = value(rank, k / 3, k % 3);
  check_call(TAPA_Alltoall(out.data(), 3, MPI_INT32_T, in.data(), 3, MPI_INT32_T, comm), what);
  for (int k = 0; k < 3 * size; ++k) {
    if (in[at(k)] != value(k / 3, rank, k % 3)) return fail(what + ": wrong data");
  }
}

/// Both buffers are MPI_BOTTOM; the types hold absolute addresses.
void bottom(MPI_Comm comm) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  std::vector<std::int32_t> out(at(size));
  std::vector<std::int32_t> in(at(size), kGuard);
  for (int p = 0; p < size; ++p) out[at(p)] = value(rank, p, 0);
  std::vector<MPI_Datatype> sendtypes(at(size));
  std::vector<MPI_Datatype> recvtypes(at(size));
  const auto absolute = [](void* address) {
    MPI_Aint place = 0;
    int one = 1;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Get_address(address, &place);
    MPI_Type_create_hindexed(1, &one, &place, MPI_INT32_T, &type);
    MPI_Type_commit(&type);
    return type;
  };
  for (int p = 0; p < size; ++p) {
    sendtypes[at(p)] = absolute(&out[at(p)]);
    recvtypes[at(p)] = absolute(&in[at(p)]);
  }
  const std::vector<int> ones(at(size), 1);
  const std::vector<int> zeros(at(size), 0);
  check_call(TAPA_Alltoallw(MPI_BOTTOM, ones.data(), zeros.data(), sendtypes.data(), MPI_BOTTOM, ones.data(),
                            zeros.data(), recvtypes.data(), comm),
             "MPI_BOTTOM");
  for (int p = 0; p < size; ++p) expect(in[at(p)] == value(p, rank, 0), "MPI_BOTTOM: wrong data");
  for (int p = 0; p < size; ++p) {
    MPI_Type_free(&sendtypes[at(p)]);
    MPI_Type_free(&recvtypes[at(p)]);
  }
}

struct Particle {
  double mass;
  char tag;
  std::int32_t id;
};

/// A struct with padding, from an array of structs to separate bytes: different layouts of one signature.
void structs(MPI_Comm comm) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  int lengths[3] = {1, 1, 1};
  MPI_Aint offsets[3] = {offsetof(Particle, mass), offsetof(Particle, tag), offsetof(Particle, id)};
  MPI_Datatype types[3] = {MPI_DOUBLE, MPI_CHAR, MPI_INT32_T};
  MPI_Datatype loose = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(3, lengths, offsets, types, &loose);
  MPI_Datatype padded = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(loose, 0, sizeof(Particle), &padded);
  MPI_Aint tight_offsets[3] = {0, 8, 9};
  MPI_Datatype tight = MPI_DATATYPE_NULL;  // 13 bytes, no padding
  MPI_Type_create_struct(3, lengths, tight_offsets, types, &loose);
  MPI_Type_create_resized(loose, 0, 13, &tight);
  MPI_Type_commit(&padded);
  MPI_Type_commit(&tight);
  std::vector<Particle> out(at(2 * size));
  for (int k = 0; k < 2 * size; ++k)
    out[at(k)] = {rank + 0.5, static_cast<char>('a' + k), value(rank, k / 2, k % 2)};
  std::vector<char> in(at(2 * size * 13 + 1), '?');
  check_call(TAPA_Alltoall(out.data(), 2, padded, in.data(), 2, tight, comm), "structs");
  for (int k = 0; k < 2 * size; ++k) {
    double mass = 0;
    std::int32_t id = 0;
    std::memcpy(&mass, &in[at(13 * k)], 8);
    std::memcpy(&id, &in[at(13 * k + 9)], 4);
    const int sender = k / 2;
    expect(mass == sender + 0.5 && in[at(13 * k + 8)] == static_cast<char>('a' + 2 * rank + k % 2) &&
               id == value(sender, rank, k % 2),
           "structs: wrong data");
  }
  expect(in.back() == '?', "structs: guard overwritten");
  MPI_Type_free(&padded);
  MPI_Type_free(&tight);
}

/// Types without data, and blocks without elements. `mpis`: calls are MPI's, and MPICH takes two null buffers
/// for one.
void nothing(MPI_Comm comm, bool mpis) {
  MPI_Datatype empty = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  std::int32_t guard = kGuard;
  check_call(TAPA_Alltoall(&guard, 5, empty, &guard, 7, empty, comm), "type of no size");
  check_call(TAPA_Alltoall(nullptr, 0, MPI_INT, nullptr, 0, MPI_INT, comm), "no elements, null buffers");
  const std::vector<int> zeros(at(size_of(comm)), 0);
  std::int32_t other = kGuard;
  check_call(TAPA_Alltoallv(&guard, zeros.data(), zeros.data(), MPI_INT, &other, zeros.data(), zeros.data(),
                            MPI_INT, comm),
             "alltoallv of nothing");
  if (!mpis) {
    check_call(TAPA_Alltoallv(nullptr, zeros.data(), zeros.data(), MPI_INT, nullptr, zeros.data(),
                              zeros.data(), MPI_INT, comm),
               "alltoallv of nothing, null buffers");
  }
  expect(guard == kGuard, "type of no size: guard overwritten");
  MPI_Type_free(&empty);
}

/// The last rank has nothing to send or to receive; often enough that MPI's own call is probed too.
void one_has_nothing(MPI_Comm comm) {
  constexpr int kCalls = 60;
  constexpr int kInts = 50;
  const int size = size_of(comm);
  const int rank = rank_of(comm);
  const bool last = rank == size - 1;
  std::vector<int> counts(at(size), last ? 0 : kInts);
  counts[at(size - 1)] = 0;
  std::vector<int> displs(at(size));
  for (int p = 0; p < size; ++p) displs[at(p)] = p * kInts;
  std::vector<std::int32_t> out(at(size * kInts), rank);
  for (int call = 0; call < kCalls; ++call) {
    std::vector<std::int32_t> in(at(size * kInts), kGuard);
    check_call(TAPA_Alltoallv(out.data(), counts.data(), displs.data(), MPI_INT32_T, in.data(), counts.data(),
                              displs.data(), MPI_INT32_T, comm),
               "one rank has nothing");
    for (int p = 0; p < size; ++p)
      expect(in[at(p * kInts)] == (counts[at(p)] > 0 ? p : kGuard), "one rank has nothing: wrong data");
  }
}

/// Elements that run backwards in memory: negative extent and lower bound.
void backwards(MPI_Comm comm) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  MPI_Datatype back = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT32_T, 0, -4, &back);
  MPI_Type_commit(&back);
  std::vector<std::int32_t> out(at(2 * size));
  std::vector<std::int32_t> in(at(2 * size), kGuard);
  for (int k = 0; k < 2 * size; ++k) out[at(2 * size - 1 - k)] = value(rank, k / 2, k % 2);
  check_call(TAPA_Alltoall(&out.back(), 2, back, in.data(), 2, MPI_INT32_T, comm), "negative extent");
  for (int k = 0; k < 2 * size; ++k)
    expect(in[at(k)] == value(k / 2, rank, k % 2), "negative extent: wrong data");
  MPI_Type_free(&back);
}

/// Sends the same number many times: elements on top of each other.
void overlapping(MPI_Comm comm) {
  const int size = size_of(comm);
  MPI_Datatype still = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT32_T, 0, 0, &still);
  MPI_Type_commit(&still);
  std::int32_t one = rank_of(comm);
  std::vector<std::int32_t> in(at(4 * size), kGuard);
  check_call(TAPA_Alltoall(&one, 4, still, in.data(), 4, MPI_INT32_T, comm), "extent 0");
  for (int k = 0; k < 4 * size; ++k) expect(in[at(k)] == k / 4, "extent 0: wrong data");
  MPI_Type_free(&still);
}

/// 3 numbers, all or every other of a row.
MPI_Datatype three(bool gaps) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(3, 1, gaps ? 2 : 1, MPI_INT32_T, &type);
  MPI_Datatype resized = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(type, 0, gaps ? 24 : 12, &resized);
  MPI_Type_commit(&resized);
  MPI_Type_free(&type);
  return resized;
}

/// Calls that differ in their buffers alone, and such that only look alike: MPI gives the handle of a freed
/// type or communicator to the next one.
void same_handles(MPI_Comm comm) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  for (int cycle = 0; cycle < 6; ++cycle) {
    const int step = 1 + cycle % 2;
    MPI_Datatype type = three(step == 2);
    for (int call = 0; call < 3; ++call) {
      std::vector<std::int32_t> out(at(3 * size));
      std::vector<std::int32_t> in(at(3 * size * step), kGuard);
      for (int k = 0; k < 3 * size; ++k) out[at(k)] = value(rank, k / 3, k % 3 + call);
      check_call(TAPA_Alltoall(out.data(), 3, MPI_INT32_T, in.data(), 1, type, comm), "same handle");
      for (int k = 0; k < 3 * size * step; ++k) {
        const int number = k / step;
        const bool gap = k % step != 0;
        expect(in[at(k)] == (gap ? kGuard : value(number / 3, rank, number % 3 + call)),
               "same handle, other type: wrong data");
      }
    }
    MPI_Type_free(&type);
    MPI_Comm turned = MPI_COMM_NULL;  // with the ranks in their order and in the reverse one
    MPI_Comm_split(comm, 0, cycle % 2 == 0 ? rank : -rank, &turned);
    exchange(turned, "same handle, other communicator");
    exchange(turned, "same call again");
    MPI_Comm_free(&turned);
  }
}

void large_count_forms(MPI_Comm comm) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  std::vector<std::int32_t> out;
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < 5; ++i) out.push_back(value(rank, p, i));
  }
  std::vector<std::int32_t> in(out.size(), kGuard);
  const auto right = [&](const std::string& what) {
    for (int k = 0; k < 5 * size; ++k) expect(in[at(k)] == value(k / 5, rank, k % 5), what + ": wrong data");
    std::fill(in.begin(), in.end(), kGuard);
  };
  check_call(TAPA_Alltoall_c(out.data(), 5, MPI_INT32_T, in.data(), 5, MPI_INT32_T, comm), "TAPA_Alltoall_c");
  right("TAPA_Alltoall_c");
  const std::vector<MPI_Count> counts(at(size), 5);
  std::vector<MPI_Aint> displs;
  std::vector<MPI_Aint> bytes;
  for (int p = 0; p < size; ++p) {
    displs.push_back(5 * p);
    bytes.push_back(20 * p);
  }
  check_call(TAPA_Alltoallv_c(out.data(), counts.data(), displs.data(), MPI_INT32_T, in.data(), counts.data(),
                              displs.data(), MPI_INT32_T, comm),
             "TAPA_Alltoallv_c");
  right("TAPA_Alltoallv_c");
  const std::vector<MPI_Datatype> types(at(size), MPI_INT32_T);
  check_call(TAPA_Alltoallw_c(out.data(), counts.data(), bytes.data(), types.data(), in.data(), counts.data(),
                              bytes.data(), types.data(), comm),
             "TAPA_Alltoallw_c");
  right("TAPA_Alltoallw_c");
}

void communicators(MPI_Comm comm) {
  exchange(MPI_COMM_SELF, "MPI_COMM_SELF");
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &copy);
  exchange(copy, "duplicate");
  expect(TAPA_Comm_set(copy, "check", "off") == MPI_SUCCESS, "option of the duplicate");
  char text[16] = {};
  TAPA_Comm_get(comm, "check", text, sizeof text, nullptr);
  expect_equal(text, "mpi", "option of the original");
  MPI_Comm second = MPI_COMM_NULL;
  MPI_Comm_dup(copy, &second);
  MPI_Comm_free(&copy);
  exchange(second, "duplicate of a freed duplicate");
  MPI_Comm_free(&second);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank_of(comm) % 2, -rank_of(comm), &half);
  exchange(half, "split in reverse order");
  MPI_Comm_free(&half);
  exchange(comm, "original after all that");
}

/// Handed to MPI: even ranks with odd ranks.
void intercommunicator(MPI_Comm comm) {
  const int rank = rank_of(comm);
  if (size_of(comm) < 2) return;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank % 2, rank, &half);
  MPI_Comm inter = MPI_COMM_NULL;
  MPI_Intercomm_create(half, 0, comm, 1 - rank % 2, 0, &inter);
  int remote = 0;
  MPI_Comm_remote_size(inter, &remote);
  std::vector<int> out(at(remote), rank);
  std::vector<int> in(at(remote), -1);
  check_call(TAPA_Alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, inter), "intercommunicator");
  for (int p = 0; p < remote; ++p) expect(in[at(p)] == 2 * p + 1 - rank % 2, "intercommunicator: wrong data");
  const std::vector<MPI_Count> counts(at(remote), 1);
  std::vector<MPI_Aint> displs(at(remote));
  std::iota(displs.begin(), displs.end(), MPI_Aint{0});
  std::fill(in.begin(), in.end(), -1);
  check_call(TAPA_Alltoallv_c(out.data(), counts.data(), displs.data(), MPI_INT, in.data(), counts.data(),
                              displs.data(), MPI_INT, inter),
             "intercommunicator, large counts");
  for (int p = 0; p < remote; ++p)
    expect(in[at(p)] == 2 * p + 1 - rank % 2, "intercommunicator, _c: wrong data");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

}  // namespace

// Arguments: plans to force.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  const MPI_Comm world = MPI_COMM_WORLD;
  for (int i = 1; i < argc; ++i) {
    check_call(TAPA_Comm_set(world, "plan", argv[i]), std::string("plan ") + argv[i]);
    exchange(world, argv[i]);
    bottom(world);
    structs(world);
    nothing(world, size_of(world) == 1 || argv[i] == std::string("mpi"));
    one_has_nothing(world);
    backwards(world);
    overlapping(world);
    same_handles(world);
    large_count_forms(world);
  }
  communicators(world);
  intercommunicator(world);
  return finish("semantics_test");
}
