/* Small legal programs that a library behind MPI's back can break. Each mode prints what it found, the same
 * with and without the drop-in. Exit status 1 when something is wrong.
 *
 *   legal MODE [NUMBER [NAME=VALUE]]    the variable is set on rank 0 only */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "persistent.h"

enum { kElements = 16, kMostRanks = 16, kMost = 512 };

static int rank, size, number;

typedef struct {
  int send[kMostRanks * kElements], recv[kMostRanks * kElements];
  int round;
} Buffers;

static void fill(Buffers* b, int round) {
  b->round = round;
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < kElements; ++i)
      b->send[p * kElements + i] = ((round * 64 + rank) * 64 + p) * kElements + i;
  }
  memset(b->recv, 0xff, sizeof b->recv);
}
static int wrong(const Buffers* b) {
  int n = 0;
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < kElements; ++i) {
      n += b->recv[p * kElements + i] != ((b->round * 64 + p) * 64 + rank) * kElements + i;
    }
  }
  return n;
}

static void start(Buffers* b, MPI_Comm comm, MPI_Request* request) {
  MPI_Ialltoall(b->send, kElements, MPI_INT, b->recv, kElements, MPI_INT, comm, request);
}
static int blocking(Buffers* b, int round, MPI_Comm comm) {
  fill(b, round);
  MPI_Alltoall(b->send, kElements, MPI_INT, b->recv, kElements, MPI_INT, comm);
  return wrong(b);
}

/* A communicator's first all-to-all is a nonblocking one, and ranks do not come to MPI equally often. */
static int allreduce(void) {
  static Buffers b;
  int bad = 0;
  for (int round = 0; round < 20; ++round) {
    MPI_Comm comm;
    MPI_Request requests[2];
    int mine = rank == size - 1 ? 10001 : rank, largest = -1, flag;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    fill(&b, round);
    start(&b, comm, &requests[0]);
    for (int i = 0; i < (rank * 7 + round) % 5; ++i) {
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    }
    MPI_Iallreduce(&mine, &largest, 1, MPI_INT, MPI_MAX, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    bad += wrong(&b) + (largest != 10001);
    MPI_Comm_free(&comm);
  }
  return bad;
}

static int three(void) {
  static Buffers b[3];
  MPI_Request requests[4];
  int bad = 0;
  for (int i = 0; i < 3; ++i) {
    fill(&b[i], i);
    start(&b[i], MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 3; ++i) bad += wrong(&b[i]);
  return bad;
}

/* A nonblocking call does not wait for the others, so that its order to calls on other communicators is free.
 */
static int crossed(int dup) {
  static Buffers b[2];
  int bad = 0;
  for (int round = 0; round < 5; ++round) {
    MPI_Comm comms[2], third = MPI_COMM_NULL;
    MPI_Request request;
    for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    fill(&b[0], round);
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == rank % 2) {
        start(&b[0], comms[0], &request);
      } else if (dup) {
        MPI_Comm_dup(comms[1], &third);
      } else {
        bad += blocking(&b[1], round + 100, comms[1]);
      }
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bad += wrong(&b[0]);
    if (dup) MPI_Comm_free(&third);
    for (int i = 0; i < 2; ++i) MPI_Comm_free(&comms[i]);
  }
  return bad;
}

/* A communicator that is freed lives until its calls are done. */
static int freed(int used) {
  static Buffers b, other;
  int bad = 0;
  for (int round = 0; round < 20; ++round) {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (used) bad += blocking(&other, round + 100, comm);
    fill(&b, round);
    start(&b, comm, &request);
    MPI_Comm_free(&comm);
    if (round % 2 == 1) bad += blocking(&other, round + 200, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bad += wrong(&b);
  }
  return bad;
}

/* The same while this thread waits for a message, and while a rank has not made the call yet. Needs 3 ranks
 * and MPI_THREAD_MULTIPLE: there MPI cannot wait inside its own waiting. */
static int freed_waiting(void) {
  static int send[kMostRanks], recv[kMostRanks], counts[kMostRanks], displs[kMostRanks];
  int bad = 0, word = 0;
  for (int p = 0; p < size; ++p) {
    displs[p] = p, send[p] = 100 * rank + p;
    counts[p] = rank < 2 && p < 2;
  }
  for (int round = 0; round < 3; ++round) {
    MPI_Comm comm;
    MPI_Request request;
    memset(recv, 0, sizeof recv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Alltoallv(send, counts, displs, MPI_INT, recv, counts, displs, MPI_INT, comm);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2) {
      usleep(200000);
      MPI_Send(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    }
    MPI_Ialltoallv(send, counts, displs, MPI_INT, recv, counts, displs, MPI_INT, comm, &request);
    MPI_Comm_free(&comm);
    if (rank == 0) MPI_Recv(&word, 1, MPI_INT, 2, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int p = 0; p < size; ++p) bad += counts[p] != 0 && recv[p] != 100 * p + rank;
  }
  return bad;
}

static int copied = 0, deleted = 0;
static int copy(MPI_Comm comm, int key, void* extra, void* value, void* out, int* flag) {
  (void)comm, (void)key, (void)extra;
  ++copied;
  *(void**)out = value;
  *flag = 1;
  return MPI_SUCCESS;
}
static int forget(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  ++deleted;
  return MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int key, void* extra, void* value, void* out, int* flag) {
  return copy(MPI_COMM_NULL, type == MPI_DATATYPE_NULL ? 0 : key, extra, value, out, flag);
}
static int forget_type(MPI_Datatype type, int key, void* value, void* extra) {
  return forget(MPI_COMM_NULL, type == MPI_DATATYPE_NULL ? 0 : key, value, extra);
}

/* A persistent call, where this MPI has them. */
static int persistent_once(Buffers* b, int round, MPI_Comm comm) {
  fill(b, round);
#ifdef Alltoall_init
  MPI_Request request;
  Alltoall_init(b->send, kElements, MPI_INT, b->recv, kElements, MPI_INT, comm, MPI_INFO_NULL, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  return wrong(b);
#else
  (void)comm;
  return 0;
#endif
}

/* The user's attributes are copied when the user duplicates a communicator, and at no other time. */
static int attributes(void) {
  static Buffers b;
  MPI_Comm comm, second;
  MPI_Request request;
  int key, bad = 0;
  MPI_Comm_create_keyval(copy, forget, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, &b);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, &b);
  bad += blocking(&b, 1, MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 0; i < 3; ++i) bad += blocking(&b, 2, comm);
  fill(&b, 3);
  start(&b, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_dup(comm, &second);
  fill(&b, 4);
  start(&b, second, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  bad += wrong(&b) + blocking(&b, 5, second) + persistent_once(&b, 6, MPI_COMM_WORLD);
  MPI_Comm_free(&second);
  MPI_Comm_free(&comm);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
  MPI_Comm_delete_attr(MPI_COMM_SELF, key);
  MPI_Comm_free_keyval(&key);
  if (rank == 0) printf("attributes: copied %d times, deleted %d times\n", copied, deleted);
  return bad + (copied != 2) + (deleted != 4);
}

/* Those of a datatype likewise: a call only uses it, also after it was freed. */
static int type_attributes(void) {
  enum { kGap = 2 };
  static int send[kGap * kMostRanks * kElements], recv[kGap * kMostRanks * kElements];
  static Buffers b;
  MPI_Datatype type;
  MPI_Request request;
  int key, bad = 0;
  for (int i = 0; i < 3; ++i) bad += blocking(&b, i, MPI_COMM_WORLD);
  MPI_Type_create_keyval(copy_type, forget_type, &key, NULL);
  for (int round = 0; round < 3; ++round) {
    MPI_Datatype vector;
    MPI_Type_vector(kElements, 1, kGap, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, kGap * kElements * (MPI_Aint)sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&vector);
    MPI_Type_set_attr(type, key, &b);
    for (int i = 0; i < size * kElements; ++i) send[kGap * i] = 1000 * rank + i, recv[kGap * i] = -1;
    MPI_Ialltoall(send, 1, type, recv, 1, type, MPI_COMM_WORLD, &request);
    MPI_Type_free(&type);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < size * kElements; ++i)
      bad += recv[kGap * i] != 1000 * (i / kElements) + rank * kElements + i % kElements;
  }
  MPI_Type_free_keyval(&key);
  if (rank == 0) printf("type attributes: copied %d times, deleted %d times\n", copied, deleted);
  return bad + (copied != 0) + (deleted != 3);
}

/* What a program hangs on MPI_COMM_SELF is deleted first in MPI_Finalize, where MPI still works. */
static int at_end(MPI_Comm self, int key, void* value, void* extra) {
  static Buffers b;
  MPI_Comm comm;
  MPI_Request request;
  int bad = 0;
  (void)self, (void)key, (void)value, (void)extra;
  for (int round = 0; round < 5; ++round) bad += blocking(&b, round, MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int round = 0; round < 5; ++round) bad += blocking(&b, round, comm);
  fill(&b, 7);
  start(&b, comm, &request);
  MPI_Comm_free(&comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  bad += wrong(&b);
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("in MPI_Finalize: %d wrong\n", bad);
  if (bad != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  return MPI_SUCCESS;
}

/* `late`: set when all-to-alls were made already. */
static int finalize(int late) {
  static Buffers b;
  int key, bad = 0;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == late) {
      MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    } else {
      for (int round = 0; round < 5; ++round) bad += blocking(&b, round, MPI_COMM_WORLD);
    }
  }
  MPI_Comm_free_keyval(&key);
  return bad;
}

#ifdef Alltoall_init
static MPI_Request kept;
static Buffers of_kept;

static int start_at_end(MPI_Comm self, int key, void* value, void* extra) {
  int bad = 0;
  (void)self, (void)key, (void)value, (void)extra;
  for (int round = 0; round < 3; ++round) {
    fill(&of_kept, round);
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    bad += wrong(&of_kept);
  }
  MPI_Request_free(&kept);
  if (bad != 0) fprintf(stderr, "rank %d: %d wrong at the end\n", rank, bad);
  if (bad != 0) MPI_Abort(MPI_COMM_WORLD, 3);
  return MPI_SUCCESS;
}
#endif

/* A persistent request that is started when MPI_Finalize has begun, from what was hung up before it was made.
 */
static int finalize_persistent(void) {
  int bad = 0;
#ifdef Alltoall_init
  static Buffers b;
  int key;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, start_at_end, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  MPI_Comm_free_keyval(&key);
  for (int round = 0; round < 5; ++round) bad += blocking(&b, round, MPI_COMM_WORLD);
  Alltoall_init(of_kept.send, kElements, MPI_INT, of_kept.recv, kElements, MPI_INT, MPI_COMM_WORLD,
                MPI_INFO_NULL, &kept);
#endif
  return bad;
}

/* A rank that waits in an all-to-all gets on with its other messages, which the others may need first.
 * `behind`: it waits behind a nonblocking call. */
static int progress(int behind) {
  enum { kLong = 1 << 20 };
  static Buffers b[2];
  static char message[kLong];
  int bad = 0;
  for (int i = 0; i < 3; ++i) bad += blocking(&b[0], i, MPI_COMM_WORLD);
  for (int round = 0; round < 5; ++round) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    memset(message, rank == 0 ? round + 1 : 0, sizeof message);
    if (rank != 0) MPI_Recv(message, kLong, MPI_BYTE, rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    fill(&b[1], round);
    if (behind) start(&b[1], MPI_COMM_WORLD, &requests[0]);
    if (rank != size - 1) MPI_Isend(message, kLong, MPI_BYTE, rank + 1, 5, MPI_COMM_WORLD, &requests[1]);
    bad += blocking(&b[0], round, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    bad += (behind ? wrong(&b[1]) : 0) + (message[kLong - 1] != round + 1);
  }
  return bad;
}

/* Wait and nothing else; then again, when blocking calls have been made. */
static int wait_only(void) {
  static Buffers b;
  int bad = 0;
  for (int round = 0; round < 10; ++round) {
    MPI_Request request;
    if (round > 5) bad += blocking(&b, round + 100, MPI_COMM_WORLD);
    fill(&b, round);
    start(&b, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bad += wrong(&b);
  }
  return bad;
}

/* Persistent requests may be started in any order, which may differ between the ranks (MPI 4.0, 6.13):
 * `number` are made and freed between the first and the second half of some that live. */
static int persistent(int living) {
#ifdef Alltoall_init
  static Buffers b[kMost];
  MPI_Request requests[kMost];
  int bad = 0;
  for (int i = 0; i < living; ++i) {
    if (i == living - 1) {
      for (int k = 0; k < number; ++k) {
        MPI_Request other;
        static Buffers spare;
        Alltoall_init(spare.send, kElements, MPI_INT, spare.recv, kElements, MPI_INT, MPI_COMM_WORLD,
                      MPI_INFO_NULL, &other);
        MPI_Request_free(&other);
      }
    }
    Alltoall_init(b[i].send, kElements, MPI_INT, b[i].recv, kElements, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                  &requests[i]);
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < living; ++i) fill(&b[i], round * living + i);
    for (int i = 0; i < living; ++i) {
      const int next = (rank + round) % 2 == 0 ? i : living - 1 - i;
      int done;
      MPI_Start(&requests[next]);
      MPI_Request_get_status(requests[next], &done, MPI_STATUS_IGNORE); /* let MPI get on with it */
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
    }
    MPI_Waitall(living, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < living; ++i) bad += wrong(&b[i]);
  }
  for (int i = 0; i < living; ++i) MPI_Request_free(&requests[i]);
  return bad;
#else
  (void)living;
  return 0;
#endif
}

/* One number for each pair. */
static int short_blocks(MPI_Comm comm, int round) {
  int send[kMostRanks], recv[kMostRanks], me, ranks, bad = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  for (int p = 0; p < ranks; ++p) send[p] = (round * 64 + me) * 64 + p;
  MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_INT, comm);
  for (int p = 0; p < ranks; ++p) bad += recv[p] != (round * 64 + p) * 64 + me;
  return bad;
}

/* An all-to-all of each form that may set a communicator up. */
static int some_forms(MPI_Comm comm, int round) {
  static Buffers b;
  MPI_Request request;
  int bad = blocking(&b, round, comm);
  fill(&b, round + 1);
  start(&b, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return bad + wrong(&b) + persistent_once(&b, round + 2, comm);
}

/* Of a communicator that is duplicated meanwhile; blocking calls, as Open MPI 4.1 mixes others up with the
 * duplication. `used`: it was used before that. */
static int duplicated(int used) {
  int bad = 0;
  for (int round = 0; round < 20; ++round) {
    MPI_Comm comm, second;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (used) bad += some_forms(comm, round);
    MPI_Comm_idup(comm, &second, &request);
    for (int i = 0; i < 3; ++i) bad += short_blocks(comm, round + i);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bad += some_forms(second, round) + some_forms(comm, round);
    MPI_Comm_free(&second);
    MPI_Comm_free(&comm);
  }
  return bad;
}

/* Of one, while another communicator is duplicated: some ranks begin that only when the all-to-alls are done.
 * `apart`: one of these ranks makes none, and waits for a message. With a number the communicator is used
 * before that. */
static int duplicated_late(int apart) {
  int bad = 0, word = 0;
  for (int round = 0; round < 20; ++round) {
    const int late = apart ? rank == size - 1 : (rank + round) % 2 == 1;
    MPI_Comm comm, second;
    MPI_Request request;
    MPI_Comm_split(MPI_COMM_WORLD, apart && late, rank, &comm);
    if (number > 0) bad += short_blocks(comm, round);
    if (!late) MPI_Comm_idup(MPI_COMM_WORLD, &second, &request);
    if (!apart) bad += some_forms(comm, round);
    if (apart && !late) bad += short_blocks(comm, round);
    if (apart && rank == 0) MPI_Send(&word, 1, MPI_INT, size - 1, 3, MPI_COMM_WORLD);
    if (apart && late) MPI_Recv(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (late) MPI_Comm_idup(MPI_COMM_WORLD, &second, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bad += some_forms(second, round);
    MPI_Comm_free(&second);
    MPI_Comm_free(&comm);
  }
  return bad;
}

/* Mappings of this process. */
static int mappings(void) {
  FILE* file = fopen("/proc/self/maps", "r");
  int lines = 0;
  if (file == NULL) return 0;
  for (int c = fgetc(file); c != EOF; c = fgetc(file)) lines += c == '\n';
  fclose(file);
  return lines;
}

static int communicators(int alive) {
  enum { kMostGrowth = 100 };
  static Buffers b;
  MPI_Comm* const comms = calloc((size_t)number + 8, sizeof(MPI_Comm));
  int before = 0, bad = 0;
  for (int i = 0; i < number + 8; ++i) {
    MPI_Comm* comm = &comms[i];
    if (i == 8) before = mappings(); /* what the first ones need is not counted */
    MPI_Comm_dup(MPI_COMM_WORLD, comm);
    for (int k = 0; k < (alive ? 4 : 1); ++k) bad += blocking(&b, i * 8 + k, *comm);
    if (!alive) MPI_Comm_free(comm);
  }
  const int growth = mappings() - before;
  const int limit = alive ? kMostGrowth : 10;
  if (growth > limit) {
    fprintf(stderr, "legal: rank %d: %d communicators: %d mappings more\n", rank, number, growth);
    ++bad;
  }
  for (int i = 0; alive && i < number + 8; ++i) MPI_Comm_free(&comms[i]);
  free(comms);
  return bad;
}

enum { kEdge = 48, kCube = kEdge * kEdge * kEdge };

/* Part `part` of `parts` of a cube along an axis. */
static MPI_Datatype slab(int axis, int part, int parts, int order) {
  int sizes[3] = {kEdge, kEdge, kEdge}, subsizes[3] = {kEdge, kEdge, kEdge}, starts[3] = {0, 0, 0};
  MPI_Datatype type;
  subsizes[axis] = kEdge / parts;
  starts[axis] = part * (kEdge / parts);
  MPI_Type_create_subarray(3, sizes, subsizes, starts, order, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

/* Where element i of that part lies in the cube. */
static int slab_index(int axis, int part, int parts, int order, int i) {
  int sizes[3] = {kEdge, kEdge, kEdge}, at[3], index = 0;
  sizes[axis] = kEdge / parts;
  for (int k = 2; k >= 0; --k) {
    const int d = order == MPI_ORDER_C ? k : 2 - k;
    at[d] = i % sizes[d];
    i /= sizes[d];
  }
  at[axis] += part * sizes[axis];
  for (int k = 0; k < 3; ++k) index = index * kEdge + at[order == MPI_ORDER_C ? k : 2 - k];
  return index;
}

/* Cubes are cut along one axis and put together along another, as transposes of an FFT are. */
static int transpose(MPI_Comm comm, int from, int to, int order, int calls) {
  MPI_Datatype sent[kMostRanks], received[kMostRanks];
  int counts[kMostRanks], displs[kMostRanks], me, ranks, bad = 0;
  int* send = malloc(kCube * sizeof(int));
  int* recv = malloc(kCube * sizeof(int));
  int* right = malloc(kCube * sizeof(int));
  if (send == NULL || recv == NULL || right == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  for (int p = 0; p < ranks; ++p) {
    for (int i = 0; i < kCube / ranks; ++i)
      right[slab_index(to, p, ranks, order, i)] = p * kCube + slab_index(from, me, ranks, order, i);
    sent[p] = slab(from, p, ranks, order);
    received[p] = slab(to, p, ranks, order);
    counts[p] = 1;
    displs[p] = 0;
  }
  for (int call = 0; call < calls; ++call) {
    for (int i = 0; i < kCube; ++i) send[i] = (call * ranks + me) * kCube + i;
    memset(recv, 0xff, kCube * sizeof(int));
    MPI_Alltoallw(send, counts, displs, sent, recv, counts, displs, received, comm);
    for (int i = 0; i < kCube; ++i) bad += recv[i] != call * ranks * kCube + right[i];
  }
  for (int p = 0; p < ranks; ++p) {
    MPI_Type_free(&sent[p]);
    MPI_Type_free(&received[p]);
  }
  free(recv);
  free(send);
  free(right);
  return bad;
}

static int subarrays(void) {
  int bad = 0;
  for (int i = 0; i < 18; ++i) {
    const int order = i < 9 ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    bad += transpose(MPI_COMM_WORLD, i / 3 % 3, i % 3, order, 12);
    bad += transpose(MPI_COMM_SELF, i / 3 % 3, i % 3, order, 2);
  }
  return bad;
}

/* A long block with gaps, many times, so that a library tries what is fastest: Open MPI 4.1 gets a rank's own
 * block wrong, from 64 KiB on and with any of its all-to-alls. Where counts may differ a short one is before
 * each, which says nothing of it. */
static int gaps(void) {
  enum { kRows = 3, kRow = 5951, kStep = 5952, kCalls = 60, kBlock = kRows * kStep };
  MPI_Datatype dense, row, other, types[kMostRanks], others[kMostRanks];
  int counts[kMostRanks], displs[kMostRanks], bytes[kMostRanks], bad = 0;
  int* send = calloc((size_t)size * kBlock, sizeof(int));
  int* recv = calloc((size_t)size * kBlock, sizeof(int));
  if (send == NULL || recv == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Type_contiguous(kRow, MPI_INT, &dense);
  MPI_Type_create_resized(dense, 0, kStep * (MPI_Aint)sizeof(int), &row);
  MPI_Type_commit(&row);
  MPI_Type_create_resized(dense, 0, kStep * (MPI_Aint)sizeof(int), &other);
  MPI_Type_commit(&other);
  for (int p = 0; p < size; ++p) {
    displs[p] = p * kRows;
    bytes[p] = p * kBlock * (int)sizeof(int);
    types[p] = row;
    others[p] = other;
  }
  for (int call = 0; call < 3 * kCalls; ++call) {
    const int rows = call < kCalls || call % 2 != 0 ? kRows : 1;
    for (int p = 0; p < size; ++p) {
      counts[p] = rows;
      for (int i = 0; i < kBlock; ++i) send[p * kBlock + i] = (call * 16 + rank) * 16 + p + i;
    }
    memset(recv, 0xff, (size_t)size * kBlock * sizeof(int));
    switch (call / kCalls) {
      case 0:
        MPI_Alltoall(send, kRows, row, recv, kRows, other, MPI_COMM_WORLD);
        break;
      case 1:
        MPI_Alltoallv(send, counts, displs, row, recv, counts, displs, other, MPI_COMM_WORLD);
        break;
      default:
        MPI_Alltoallw(send, counts, bytes, types, recv, counts, bytes, others, MPI_COMM_WORLD);
        break;
    }
    for (int p = 0; p < size; ++p) {
      for (int i = 0; i < kBlock; ++i) {
        const int sent = i < rows * kStep && i % kStep != kRow;
        bad += recv[p * kBlock + i] != (sent ? (call * 16 + p) * 16 + rank + i : -1);
      }
    }
  }
  MPI_Type_free(&other);
  MPI_Type_free(&row);
  MPI_Type_free(&dense);
  free(recv);
  free(send);
  return bad;
}

/* One group of an intercommunicator sends, the other only receives. */
static int one_way(void) {
  static Buffers b;
  MPI_Comm half, inter;
  int remote, bad = 0;
  const int sender = rank % 2 == 0;
  if (size < 2) return 0;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 11, &inter);
  MPI_Comm_remote_size(inter, &remote);
  for (int i = 0; i < remote; ++i) b.send[i] = 100 * rank + i;
  MPI_Alltoall(b.send, sender, MPI_INT, b.recv, !sender, MPI_INT, inter);
  if (!sender) {
    for (int i = 0; i < remote; ++i) bad += b.recv[i] != 200 * i + rank / 2;
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
  return bad;
}

/* One rank alone: Open MPI 4.1 takes MPI_Alltoallw's displacements for elements there. */
static int alone(void) {
  int from[8] = {0, 0, 0, 0, 0, 1, 2, 3}, to[8] = {0}, bad = 0;
  const int count = 3, at = 5 * (int)sizeof(int), there = (int)sizeof(int);
  const MPI_Datatype type = MPI_INT;
  MPI_Alltoallw(from, &count, &at, &type, to, &count, &there, &type, MPI_COMM_SELF);
  for (int i = 0; i < 8; ++i) bad += to[i] != (i >= 1 && i <= 3 ? i : 0);
  return bad;
}

static int run(const char* mode) {
  if (strcmp(mode, "alone") == 0) return alone();
  if (strcmp(mode, "allreduce") == 0) return allreduce();
  if (strcmp(mode, "three") == 0) return three();
  if (strcmp(mode, "crossed") == 0) return crossed(0);
  if (strcmp(mode, "crossed-dup") == 0) return crossed(1);
  if (strcmp(mode, "freed") == 0) return freed(0);
  if (strcmp(mode, "freed-used") == 0) return freed(1);
  if (strcmp(mode, "freed-waiting") == 0) return freed_waiting();
  if (strcmp(mode, "attributes") == 0) return attributes();
  if (strcmp(mode, "type-attributes") == 0) return type_attributes();
  if (strcmp(mode, "finalize") == 0) return finalize(0);
  if (strcmp(mode, "finalize-late") == 0) return finalize(1);
  if (strcmp(mode, "finalize-persistent") == 0) return finalize_persistent();
  if (strcmp(mode, "progress") == 0) return progress(0);
  if (strcmp(mode, "progress-behind") == 0) return progress(1);
  if (strcmp(mode, "wait") == 0) return wait_only();
  if (strcmp(mode, "duplicated") == 0) return duplicated(0);
  if (strcmp(mode, "duplicated-used") == 0) return duplicated(1);
  if (strcmp(mode, "duplicated-late") == 0) return duplicated_late(0);
  if (strcmp(mode, "duplicated-apart") == 0) return duplicated_late(1);
  if (strcmp(mode, "persistent") == 0) return persistent(40);
  if (strcmp(mode, "communicators") == 0) return communicators(0);
  if (strcmp(mode, "alive") == 0) return communicators(1);
  if (strcmp(mode, "gaps") == 0) return gaps();
  if (strcmp(mode, "subarrays") == 0) return subarrays();
  if (strcmp(mode, "one-way") == 0) return one_way();
  if (rank == 0) fprintf(stderr, "legal: unknown mode %s\n", mode);
  return 1;
}

/* The rank as launchers tell it. */
static int is_first(void) {
  const char* const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
  for (int i = 0; i < 2; ++i) {
    if (getenv(names[i]) != NULL) return atoi(getenv(names[i])) == 0;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 3 && is_first()) putenv(argv[3]);
  int provided;
  const int threads = argc > 1 && strcmp(argv[1], "freed-waiting") == 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  number = argc > 2 ? atoi(argv[2]) : 0;
  if (argc < 2 || size > kMostRanks || number > 100000) MPI_Abort(MPI_COMM_WORLD, 2);
  int bad = run(argv[1]);
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%s: %d wrong\n", argv[1], bad);
  MPI_Finalize();
  return bad != 0;
}
