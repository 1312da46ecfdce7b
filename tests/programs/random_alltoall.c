/* All-to-alls at random, but the same in every run: derived types that differ between the two ends, negative
 * extents, MPI_IN_PLACE, MPI_BOTTOM, empty blocks, blocking, nonblocking and persistent calls outstanding at
 * once and started in different orders where that is legal, communicators made and freed, point-to-point
 * messages with wildcards and other collective calls in between. What must arrive is computed from (call,
 * sender, receiver, element), without MPI; gaps and send buffers must stay as they are.
 *
 *   random_alltoall ITERATIONS SEED [--threads] [--layouts]
 *
 * --threads: two threads with communicators of their own. --layouts: long blocks of blocking calls have
 * derived types, too, which Open MPI 4.1 gets wrong. Prints one line: wrong elements, and a checksum over all
 * that was received, the same whatever carries the data. Exit status 1 when data is wrong.
 *
 * Open MPI 4.1.4 itself is wrong with 16 ranks and more: small blocks whose layouts differ at the two ends.
 */
#include <mpi.h>
#ifdef HAVE_MPIX_PERSISTENT
#include <mpi-ext.h>
#define Alltoall_init MPIX_Alltoall_init
#define Alltoallv_init MPIX_Alltoallv_init
#define Alltoallw_init MPIX_Alltoallw_init
#elif defined(HAVE_MPI_PERSISTENT)
#define Alltoall_init MPI_Alltoall_init
#define Alltoallv_init MPI_Alltoallv_init
#define Alltoallw_init MPI_Alltoallw_init
#endif
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "random_layout.h"

enum {
  kMostComms = 7,
  kMostOps = 14,
  kGuard = 64,
  kLongBlock = 65536,
  kMostMessages = 3,
  kTags = 5,
  kShown = 8
};

typedef enum { UNIFORM, RAGGED, TYPED } Kind;

typedef struct {
  MPI_Comm comm;
  int rank, size;
  uint64_t name; /* the same on its ranks only */
  int fixed;     /* never freed */
  /* Messages with wildcards that are under way. */
  int messages;
  MPI_Request requests[2 * kMostMessages];
  uint64_t sent[kMostMessages][3], received[kMostMessages][3];
} Place;

/* What all ranks know about one call. */
typedef struct {
  Kind kind;
  Signature signature;
  uint64_t name;
  int granule, most, in_place;
  int dense; /* no gaps within blocks: long ones with gaps are wrong in Open MPI, also between equal types */
  int backwards; /* extents may be negative, whatever the counts: Open MPI's nonblocking calls then lose
                    blocks */
  int empties;   /* how many types without elements are given for an empty block */
} Call;

/* One end of a call: n blocks in an arena. */
typedef struct {
  int n, layouts; /* one, or one for each block */
  Layout* layout;
  MPI_Datatype* types;
  int *counts, *displs;
  long* base; /* of each block, in bytes, from the origin */
  unsigned char* arena;
  size_t bytes;
  long origin;
  void* buffer;
} Side;

typedef enum { NOTHING, ALLTOALL, LARGEST, BARRIER } What;

/* One call with its buffers; nonblocking or persistent ones stay for a while. */
typedef struct {
  What what;
  Place* place; /* NULL: its communicator is gone */
  Call call;
  int rank, size;
  Side send, recv;
  MPI_Request request;
  int active, persistent;
  uint64_t value[2]; /* ALLTOALL: round; LARGEST: mine, all */
} Op;

typedef struct {
  Random common, own; /* the same on all ranks; of this rank */
  int thread, rank, iterations, layouts, shown;
  Place places[kMostComms];
  int nplaces;
  Op ops[kMostOps];
  uint64_t calls, checksum;
  long long wrong;
} Team;

/* ------------------------------------------------------------------ what a call carries */

/* Units of the block s -> d. */
static int units(const Call* call, int s, int d) {
  if (call->kind == UNIFORM) return call->granule * call->most;
  if (call->in_place && s > d) return units(call, d, s);
  const uint64_t h = mixed(call->name, (uint64_t)(s * 4099 + d));
  if (h % 4 == 0) return 0;
  return call->granule * (int)((h >> 8) % (uint64_t)(call->most + 1));
}

static void element(const Call* call, uint64_t round, int s, int d, int index, int size, unsigned char* to) {
  const uint64_t block = mixed(call->name + round, (uint64_t)(s * 4099 + d));
  uint64_t bytes[2];
  bytes[0] = mixed(block, (uint64_t)index);
  bytes[1] = ~bytes[0];
  memcpy(to, bytes, (size_t)size);
}

static unsigned char gap(size_t i) {
  return (unsigned char)(i * 37 + 11);
}

/* The arena as it must be when block p holds what `mine` says: sent by this rank to p, or by p to it. */
static void render(const Op* op, const Side* side, int outgoing, unsigned char* to) {
  const Signature* s = &op->call.signature;
  const uint64_t round = op->value[0];
  for (size_t i = 0; i < side->bytes; ++i) to[i] = gap(i);
  for (int p = 0; p < side->n; ++p) {
    const Layout* l = &side->layout[side->layouts == 1 ? 0 : p];
    const int from = outgoing ? op->rank : p;
    const int dest = outgoing ? p : op->rank;
    int index = 0;
    for (int c = 0; c < side->counts[p]; ++c) {
      unsigned char* item = to + side->origin + side->base[p] + c * l->extent;
      for (int e = 0; e < l->elements; ++e, ++index) {
        element(&op->call, round, from, dest, index, s->sizes[e % s->parts], item + l->at[e]);
      }
    }
  }
}

/* Adds what was received to the checksum, in the order of the elements. */
static void add_to_checksum(Team* team, const Op* op) {
  const Side* side = &op->recv;
  const Signature* s = &op->call.signature;
  for (int p = 0; p < side->n; ++p) {
    const Layout* l = &side->layout[side->layouts == 1 ? 0 : p];
    uint64_t sum = mixed(op->call.name + op->value[0], (uint64_t)(p * 4099 + op->rank));
    for (int c = 0; c < side->counts[p]; ++c) {
      const unsigned char* item = side->arena + side->origin + side->base[p] + c * l->extent;
      for (int e = 0; e < l->elements; ++e) {
        uint64_t bytes = 0;
        const int size = s->sizes[e % s->parts];
        memcpy(&bytes, item + l->at[e], size > 8 ? 8 : (size_t)size);
        sum = sum * 0x100000001B3U + bytes;
      }
    }
    team->checksum += sum;
  }
}

/* ------------------------------------------------------------------ buffers */

static void lay_out(Side* side, Random* random, const Call* call) {
  long cursor = 0, low = 0, high = 0;
  int* order = room((size_t)side->n, sizeof(int));
  for (int p = 0; p < side->n; ++p) order[p] = p;
  for (int p = side->n - 1; p > 0 && call->kind != UNIFORM; --p) {
    const int q = below(random, p + 1);
    const int kept = order[p];
    order[p] = order[q];
    order[q] = kept;
  }
  for (int i = 0; i < side->n; ++i) {
    const int p = order[i];
    const Layout* l = &side->layout[side->layouts == 1 ? 0 : p];
    const long span = side->counts[p] > 0 ? (side->counts[p] - 1) * l->extent : 0;
    const long first = l->low + (span < 0 ? span : 0);
    const long last = l->high + (span > 0 ? span : 0);
    if (call->kind == UNIFORM) {
      side->base[p] = p * side->counts[p] * l->extent;
    } else if (call->kind == RAGGED) {
      const long extent = labs(l->extent);
      const long gaps = below(random, 3) * (extent < 4096 ? 1 : 0);
      const long need = cursor - first; /* the least base */
      const long steps = (need > 0 ? (need + extent - 1) / extent : -(-need / extent)) + gaps;
      side->base[p] = steps * extent;
      side->displs[p] = (int)(l->extent < 0 ? -steps : steps);
    } else if (side->n > 1) { /* alone: Open MPI 4.1 takes these bytes for elements */
      const long need = cursor - first;
      side->base[p] = (need > 0 ? (need + 7) / 8 * 8 : -(-need / 8 * 8)) + 8L * below(random, 3);
      side->displs[p] = (int)side->base[p];
    }
    if (side->counts[p] == 0 || l->elements == 0) continue;
    if (call->kind != UNIFORM) cursor = side->base[p] + last;
    if (side->base[p] + first < low) low = side->base[p] + first;
    if (side->base[p] + last > high) high = side->base[p] + last;
  }
  free(order);
  side->origin = (-low + kGuard + 15) / 16 * 16;
  side->bytes = (size_t)(side->origin + high + kGuard);
  side->arena = room(side->bytes, 1);
  side->buffer = side->arena + side->origin;
}

static Side make_side(Team* team, const Call* call, int rank, int n, int outgoing) {
  Random* random = &team->own;
  Side side;
  memset(&side, 0, sizeof side);
  side.n = n;
  side.layouts = call->kind == TYPED ? n : 1;
  side.layout = room((size_t)side.layouts, sizeof(Layout));
  side.types = room((size_t)n, sizeof(MPI_Datatype));
  side.counts = room((size_t)n, sizeof(int));
  side.displs = room((size_t)n, sizeof(int));
  side.base = room((size_t)n, sizeof(long));
  const int transposed = call->kind == UNIFORM && !call->dense && once_in(random, 5);
  for (int p = 0; p < n; ++p) {
    const int all = outgoing ? units(call, rank, p) : units(call, p, rank);
    Layout* l = &side.layout[side.layouts == 1 ? 0 : p];
    if (p == 0 || side.layouts > 1) {
      int part = call->kind == TYPED ? all : call->granule;
      if (call->kind == UNIFORM && once_in(random, 2)) part = all;
      for (int d = 3; d > 1; --d) {
        if (part % d == 0 && once_in(random, 3)) part /= d;
      }
      const int slots = transposed && part > 0 ? all / part * n : 0;
      const int backwards = call->backwards || (part == all && call->kind != RAGGED && !call->in_place);
      *l = call->dense ? dense_layout(&call->signature, part)
                       : random_layout(random, &call->signature, part, slots, backwards);
    }
    side.types[p] = l->type;
    side.counts[p] = l->units > 0 ? all / l->units : call->empties;
  }
  lay_out(&side, &team->own, call);
  return side;
}

/* The same blocks, given as MPI_BOTTOM and types with addresses. */
static void use_bottom(Side* side) {
  for (int i = 0; i < side->layouts; ++i) move_to_address(&side->layout[i], side->buffer);
  for (int p = 0; p < side->n; ++p) side->types[p] = side->layout[side->layouts == 1 ? 0 : p].type;
  side->buffer = MPI_BOTTOM;
}

static void free_side(Side* side) {
  for (int i = 0; i < side->layouts; ++i) free_layout(&side->layout[i]);
  free(side->layout);
  free(side->types);
  free(side->counts);
  free(side->displs);
  free(side->base);
  free(side->arena);
  memset(side, 0, sizeof *side);
}

/* ------------------------------------------------------------------ calls */

static Call random_call(Team* team, const Place* place, int blocking) {
  Random* random = &team->common;
  Call call;
  memset(&call, 0, sizeof call);
  call.kind = (Kind)below(random, 3);
  call.signature = random_signature(random);
  /* Not MPI_Ialltoallv and w: Open MPI's then hang or report messages that are cut off. */
  call.in_place = once_in(random, 6) && (blocking || call.kind == UNIFORM);
  call.backwards = blocking && !call.in_place;
  call.granule = 1 + below(random, 4);
  call.most = below(random, 6);
  /* Open MPI 4.1 posts a receive for such blocks, but sends nothing, or the other way round. */
  call.empties = call.kind == UNIFORM ? below(random, 3) : 0;
  const int lengths = below(random, 40);
  if (lengths < 4) call.most = 1 + below(random, 150);
  if (lengths >= (team->layouts ? 36 : 39)) {
    call.dense = !(team->layouts && blocking && place->size > 1);
    if (call.dense && call.signature.parts > 1) {
      call.signature.parts = 1;
      call.signature.bytes = call.signature.sizes[0];
    }
    call.most = kLongBlock / call.granule / call.signature.bytes + 1 + below(random, 500);
  }
  call.name = mixed(random->state, place->name);
  return call;
}

static Op make_alltoall(Team* team, Place* place, int blocking) {
  Op op;
  memset(&op, 0, sizeof op);
  op.what = ALLTOALL;
  op.place = place;
  op.rank = place->rank;
  op.size = place->size;
  op.request = MPI_REQUEST_NULL;
  op.call = random_call(team, place, blocking);
  if (!op.call.in_place) {
    op.send = make_side(team, &op.call, op.rank, op.size, 1);
    if (once_in(&team->own, 12)) use_bottom(&op.send);
  }
  op.recv = make_side(team, &op.call, op.rank, op.size, 0);
  if (once_in(&team->own, 12)) use_bottom(&op.recv);
  return op;
}

/* Fresh buffers for the next round, whose number must be the same on all ranks. */
static void fill(Op* op, uint64_t round) {
  op->value[0] = round;
  if (op->call.in_place) {
    render(op, &op->recv, 1, op->recv.arena);
  } else {
    render(op, &op->send, 1, op->send.arena);
    for (size_t i = 0; i < op->recv.bytes; ++i) op->recv.arena[i] = gap(i);
  }
}

/* Elements, and bytes of gaps, that are not as they must be. */
static long long differences(const Op* op, const Side* side, int outgoing) {
  long long wrong = 0;
  unsigned char* right = room(side->bytes, 1);
  render(op, side, outgoing, right);
  if (memcmp(right, side->arena, side->bytes) != 0) {
    for (size_t i = 0; i < side->bytes; ++i) wrong += right[i] != side->arena[i];
  }
  free(right);
  return wrong;
}

static void check(Team* team, Op* op) {
  static const char* const kinds[] = {"alltoall", "alltoallv", "alltoallw"};
  const long long received = differences(op, &op->recv, 0);
  const long long sent = op->call.in_place ? 0 : differences(op, &op->send, 1);
  add_to_checksum(team, op);
  team->wrong += received + sent;
  if (received + sent > 0 && team->shown++ < kShown) {
    fprintf(stderr,
            "random_alltoall: rank %d thread %d call %llu: %s%s%s on %d ranks, up to %d units of %d bytes: "
            "%lld bytes "
            "received wrong, %lld of the send buffer overwritten\n",
            team->rank, team->thread, (unsigned long long)op->value[0], kinds[op->call.kind],
            op->persistent ? "_init"
            : op->active   ? " nonblocking"
                           : "",
            op->call.in_place ? " in place" : "", op->size, op->call.granule * op->call.most,
            op->call.signature.bytes, received, sent);
  }
}

static void call_blocking(Op* op) {
  const MPI_Comm comm = op->place->comm;
  const Side *s = &op->send, *r = &op->recv;
  const void* from = op->call.in_place ? MPI_IN_PLACE : s->buffer;
  const int in_place = op->call.in_place;
  switch (op->call.kind) {
    case UNIFORM:
      MPI_Alltoall(from, in_place ? 0 : s->counts[0], in_place ? MPI_DATATYPE_NULL : s->types[0], r->buffer,
                   r->counts[0], r->types[0], comm);
      break;
    case RAGGED:
      MPI_Alltoallv(from, s->counts, s->displs, in_place ? MPI_DATATYPE_NULL : s->types[0], r->buffer,
                    r->counts, r->displs, r->types[0], comm);
      break;
    case TYPED:
      MPI_Alltoallw(from, s->counts, s->displs, s->types, r->buffer, r->counts, r->displs, r->types, comm);
      break;
  }
}

static void call_nonblocking(Op* op) {
  const MPI_Comm comm = op->place->comm;
  const Side *s = &op->send, *r = &op->recv;
  const void* from = op->call.in_place ? MPI_IN_PLACE : s->buffer;
  const int in_place = op->call.in_place;
  switch (op->call.kind) {
    case UNIFORM:
      MPI_Ialltoall(from, in_place ? 0 : s->counts[0], in_place ? MPI_DATATYPE_NULL : s->types[0], r->buffer,
                    r->counts[0], r->types[0], comm, &op->request);
      break;
    case RAGGED:
      MPI_Ialltoallv(from, s->counts, s->displs, in_place ? MPI_DATATYPE_NULL : s->types[0], r->buffer,
                     r->counts, r->displs, r->types[0], comm, &op->request);
      break;
    case TYPED:
      MPI_Ialltoallw(from, s->counts, s->displs, s->types, r->buffer, r->counts, r->displs, r->types, comm,
                     &op->request);
      break;
  }
}

#ifdef Alltoall_init
static void call_init(Op* op) {
  const MPI_Comm comm = op->place->comm;
  const Side *s = &op->send, *r = &op->recv;
  const void* from = op->call.in_place ? MPI_IN_PLACE : s->buffer;
  const int in_place = op->call.in_place;
  switch (op->call.kind) {
    case UNIFORM:
      Alltoall_init(from, in_place ? 0 : s->counts[0], in_place ? MPI_DATATYPE_NULL : s->types[0], r->buffer,
                    r->counts[0], r->types[0], comm, MPI_INFO_NULL, &op->request);
      break;
    case RAGGED:
      Alltoallv_init(from, s->counts, s->displs, in_place ? MPI_DATATYPE_NULL : s->types[0], r->buffer,
                     r->counts, r->displs, r->types[0], comm, MPI_INFO_NULL, &op->request);
      break;
    case TYPED:
      Alltoallw_init(from, s->counts, s->displs, s->types, r->buffer, r->counts, r->displs, r->types, comm,
                     MPI_INFO_NULL, &op->request);
      break;
  }
}
#endif

static void free_types(Op* op) {
  for (int i = 0; i < op->send.layouts; ++i) free_layout_type(&op->send.layout[i]);
  for (int i = 0; i < op->recv.layouts; ++i) free_layout_type(&op->recv.layout[i]);
}

static void free_op(Op* op) {
  free_side(&op->send);
  free_side(&op->recv);
  op->what = NOTHING;
}

/* ------------------------------------------------------------------ outstanding calls */

/* The largest of the values that all ranks of a communicator gave. */
static uint64_t own_value(uint64_t name, int rank) {
  return mixed(name, (uint64_t)rank) >> 40;
}

static void finished(Team* team, Op* op) {
  if (op->what == ALLTOALL) check(team, op);
  if (op->what == LARGEST) {
    uint64_t largest = 0;
    for (int r = 0; r < op->size; ++r) {
      if (own_value(op->call.name, r) > largest) largest = own_value(op->call.name, r);
    }
    team->wrong += op->value[1] != largest;
    team->checksum += op->value[1];
  }
  op->active = 0;
  if (!op->persistent) free_op(op);
}

static void wait_for(Team* team, Op* op) {
  if (!op->active) return;
  if (once_in(&team->own, 2)) {
    MPI_Wait(&op->request, MPI_STATUS_IGNORE);
  } else {
    for (int done = 0; !done;) MPI_Test(&op->request, &done, MPI_STATUS_IGNORE);
  }
  finished(team, op);
}

/* Completes some, by one of the functions for that, also with inactive persistent requests among them. */
static void complete_some(Team* team, int all) {
  MPI_Request requests[kMostOps];
  int index[kMostOps], count = 0, done[kMostOps], ndone = 0, flag = 0;
  for (int i = 0; i < kMostOps; ++i) {
    if (team->ops[i].what == NOTHING || !(team->ops[i].active || team->ops[i].persistent)) continue;
    index[count] = i;
    requests[count++] = team->ops[i].request;
  }
  for (int i = 0; i < count; ++i) done[i] = i;
  switch (all ? 0 : below(&team->own, 5)) {
    case 0:
      MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
      ndone = count;
      break;
    case 1:
      MPI_Waitsome(count, requests, &ndone, done, MPI_STATUSES_IGNORE);
      break;
    case 2:
      MPI_Testsome(count, requests, &ndone, done, MPI_STATUSES_IGNORE);
      break;
    case 3:
      MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE);
      ndone = flag ? count : 0;
      break;
    default:
      MPI_Waitany(count, requests, done, MPI_STATUS_IGNORE);
      ndone = done[0] == MPI_UNDEFINED ? 0 : 1;
      break;
  }
  if (ndone == MPI_UNDEFINED) ndone = 0;
  for (int i = 0; i < count; ++i) team->ops[index[i]].request = requests[i];
  for (int i = 0; i < ndone; ++i) {
    Op* op = &team->ops[index[done[i]]];
    if (op->active) finished(team, op);
  }
}

/* A slot for one more call, the same on all ranks: the slot is a common choice, what is in it is finished. */
static Op* free_slot(Team* team) {
  Op* op = &team->ops[below(&team->common, kMostOps)];
  if (op->persistent) return NULL;
  wait_for(team, op);
  return op;
}

/* ------------------------------------------------------------------ point-to-point messages */

static void finish_messages(Team* team, Place* place) {
  MPI_Status statuses[2 * kMostMessages];
  const int n = place->messages;
  MPI_Waitall(2 * n, place->requests, statuses);
  for (int i = 0; i < n; ++i) {
    const uint64_t* m = place->received[i];
    int right = m[0] == mixed(place->name, m[1]) && m[1] % 64 == (uint64_t)place->rank;
    right = right && m[2] == (uint64_t)statuses[i].MPI_SOURCE &&
            m[1] / 64 % kTags == (uint64_t)statuses[i].MPI_TAG;
    team->wrong += !right;
    team->checksum += m[0];
  }
  place->messages = 0;
}

/* Each rank sends some messages to others, and takes as many from anybody, with any tag. */
static void start_messages(Team* team, Place* place) {
  const int n = 1 + below(&team->common, kMostMessages);
  const uint64_t name = (uint64_t)below(&team->common, 1 << 30);
  finish_messages(team, place);
  place->messages = n;
  for (int i = 0; i < n; ++i) {
    MPI_Irecv(place->received[i], 3, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, place->comm,
              &place->requests[i]);
  }
  for (int i = 0; i < n; ++i) {
    const int shift = (int)(mixed(name, (uint64_t)i) % (uint64_t)place->size);
    const int to = (place->rank + shift) % place->size;
    const int tag = (int)(mixed(name, (uint64_t)(i + 100)) % kTags);
    uint64_t* m = place->sent[i];
    m[1] = ((name * kMostMessages + (uint64_t)i) * kTags + (uint64_t)tag) * 64 + (uint64_t)to;
    m[0] = mixed(place->name, m[1]);
    m[2] = (uint64_t)place->rank;
    MPI_Isend(m, 3, MPI_UINT64_T, to, tag, place->comm, &place->requests[n + i]);
  }
}

static void probe(Team* team) {
  const Place* place = &team->places[below(&team->own, team->nplaces)];
  for (int i = below(&team->own, 4); i > 0; --i) {
    MPI_Status status;
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, place->comm, &flag, &status);
    if (flag)
      team->wrong += status.MPI_TAG < 0 || status.MPI_TAG >= kTags || status.MPI_SOURCE >= place->size;
  }
}

/* ------------------------------------------------------------------ communicators */

static Place* add_place(Team* team, MPI_Comm comm, uint64_t name, int fixed) {
  Place* place = &team->places[team->nplaces++];
  memset(place, 0, sizeof *place);
  place->comm = comm;
  place->name = name;
  place->fixed = fixed;
  MPI_Comm_rank(comm, &place->rank);
  MPI_Comm_size(comm, &place->size);
  return place;
}

static void make_place(Team* team, int parent_index) {
  const Place* parent = &team->places[parent_index];
  const uint64_t name = mixed(parent->name, team->common.state);
  MPI_Comm comm;
  int color = 0;
  switch (below(&team->common, 4)) {
    case 0:
      MPI_Comm_dup(parent->comm, &comm);
      break;
    case 1:
      MPI_Comm_split(parent->comm, 0, -parent->rank, &comm);
      break;
    case 2:
      color = parent->rank % 2;
      MPI_Comm_split(parent->comm, color, parent->rank, &comm);
      break;
    default:
      color = (int)(mixed(name, (uint64_t)parent->rank) % 3);
      MPI_Comm_split(parent->comm, color, (int)(mixed(name, (uint64_t)(parent->rank + 64)) % 1000), &comm);
      break;
  }
  add_place(team, comm, mixed(name, (uint64_t)color), 0);
}

/* Frees a communicator. MPI_Ialltoallv on it may be still under way (with other calls Open MPI 4.1 then
 * crashes), persistent requests go first. */
static void free_place(Team* team, int index) {
  Place* place = &team->places[index];
  const int under_way = once_in(&team->common, 2);
  finish_messages(team, place);
  for (int i = 0; i < kMostOps; ++i) {
    Op* op = &team->ops[i];
    if (op->what == NOTHING || op->place != place) continue;
    if (op->persistent || !under_way || op->what != ALLTOALL || op->call.kind != RAGGED) wait_for(team, op);
    if (op->persistent) {
      MPI_Request_free(&op->request);
      op->persistent = 0;
      free_op(op);
    }
    op->place = NULL;
  }
  MPI_Comm_free(&place->comm);
  const int last = --team->nplaces;
  if (index == last) return;
  finish_messages(team, &team->places[last]); /* their buffers move */
  *place = team->places[last];
  for (int i = 0; i < kMostOps; ++i) {
    if (team->ops[i].what != NOTHING && team->ops[i].place == &team->places[last]) team->ops[i].place = place;
  }
}

static void change_places(Team* team) {
  const int index = below(&team->common, team->nplaces);
  if (team->nplaces == kMostComms || (once_in(&team->common, 2) && !team->places[index].fixed)) {
    for (int i = 0; i < team->nplaces; ++i) {
      const int p = (index + i) % team->nplaces;
      if (team->places[p].fixed) continue;
      free_place(team, p);
      return;
    }
  }
  make_place(team, index);
}

/* ------------------------------------------------------------------ what happens */

static void do_blocking(Team* team, Place* place) {
  int repeats = once_in(&team->common, 12) ? 1 + below(&team->common, 30) : 1;
  Op op = make_alltoall(team, place, 1);
  if (op.call.most > 200) repeats = team->layouts ? 8 : 2; /* 8: so that trials of other plans come about */
  for (int i = 0; i < repeats; ++i) {
    fill(&op, ++team->calls);
    call_blocking(&op);
    check(team, &op);
  }
  free_op(&op);
}

/* The requests of persistent calls that are begun together; on each rank in an order of its own. */
static void start_persistent(Team* team) {
  MPI_Request requests[kMostOps];
  Op* started[kMostOps];
  int n = 0;
  for (int i = 0; i < kMostOps; ++i) {
    Op* op = &team->ops[i];
    if (!op->persistent || once_in(&team->common, 3)) continue;
    wait_for(team, op);
    fill(op, ++team->calls);
    const int at = below(&team->own, n + 1);
    started[n] = started[at];
    started[at] = op;
    ++n;
  }
  for (int i = 0; i < n; ++i) requests[i] = started[i]->request;
  if (once_in(&team->own, 2)) {
    MPI_Startall(n, requests);
  } else {
    for (int i = 0; i < n; ++i) MPI_Start(&requests[i]);
  }
  for (int i = 0; i < n; ++i) {
    started[i]->request = requests[i];
    started[i]->active = 1;
  }
}

static void make_persistent(Team* team, Place* place) {
  Op* op = free_slot(team);
  if (op == NULL) return;
#ifdef Alltoall_init
  *op = make_alltoall(team, place, 0);
  op->persistent = 1;
  call_init(op);
#else
  (void)place;
#endif
}

static void free_persistent(Team* team) {
  Op* op = &team->ops[below(&team->common, kMostOps)];
  if (!op->persistent) return;
  wait_for(team, op);
  MPI_Request_free(&op->request);
  op->persistent = 0;
  free_op(op);
}

static void start_nonblocking(Team* team, Op* op) {
  call_nonblocking(op);
  op->active = 1;
  if (once_in(&team->own, 2)) free_types(op);
}

/* Nonblocking calls, and at most one blocking one, on several communicators: each rank in an order of its
 * own. */
static void do_burst(Team* team) {
  enum { kMost = 4 };
  Op *order[kMost], blocking;
  const int wanted = 1 + below(&team->common, kMost);
  const int first = below(&team->common, team->nplaces);
  int n = 0;
  blocking.what = NOTHING;
  for (int i = 0; i < wanted && i < team->nplaces; ++i) {
    Op* op = i == 3 ? &blocking : free_slot(team);
    if (op == NULL) continue;
    for (int k = 0; k < n; ++k) {
      if (order[k] == op) op = NULL; /* the same slot again */
      if (op == NULL) break;
    }
    if (op == NULL) continue;
    *op = make_alltoall(team, &team->places[(first + i) % team->nplaces], op == &blocking);
    fill(op, ++team->calls);
    const int at = below(&team->own, n + 1);
    order[n] = order[at];
    order[at] = op;
    ++n;
  }
  for (int i = 0; i < n; ++i) {
    if (order[i] == &blocking)
      call_blocking(order[i]);
    else
      start_nonblocking(team, order[i]);
  }
  if (blocking.what == NOTHING) return;
  check(team, &blocking);
  free_op(&blocking);
}

static void other_collective(Team* team, Place* place) {
  Op* op = free_slot(team);
  if (op == NULL) return;
  memset(op, 0, sizeof *op);
  op->what = once_in(&team->common, 2) ? LARGEST : BARRIER;
  op->place = place;
  op->size = place->size;
  op->active = 1;
  op->call.name = mixed(place->name, team->common.state);
  op->value[0] = own_value(op->call.name, place->rank);
  if (op->what == BARRIER)
    MPI_Ibarrier(place->comm, &op->request);
  else
    MPI_Iallreduce(&op->value[0], &op->value[1], 1, MPI_UINT64_T, MPI_MAX, place->comm, &op->request);
}

static void step(Team* team) {
  const int what = below(&team->common, 20);
  Place* place = &team->places[below(&team->common, team->nplaces)];
  if (what < 7) do_blocking(team, place);
  if (what >= 7 && what < 12) do_burst(team);
  if (what == 12) make_persistent(team, place);
  if (what == 13 || what == 14) start_persistent(team);
  if (what == 15) free_persistent(team);
  if (what == 16) other_collective(team, place);
  if (what == 17) start_messages(team, place);
  if (what == 18) change_places(team);
  if (what == 19 && once_in(&team->common, 2)) MPI_Barrier(place->comm);
  if (once_in(&team->own, 4)) probe(team);
  if (once_in(&team->own, 3)) complete_some(team, 0);
}

static void* run_team(void* argument) {
  Team* team = argument;
  const int fixed = team->nplaces;
  for (int i = 0; i < team->iterations; ++i) step(team);
  complete_some(team, 1);
  for (int i = 0; i < team->nplaces; ++i) finish_messages(team, &team->places[i]);
  while (team->nplaces > fixed) free_place(team, team->nplaces - 1);
  for (int i = 0; i < kMostOps; ++i) {
    if (team->ops[i].persistent) {
      MPI_Request_free(&team->ops[i].request);
      free_op(&team->ops[i]);
    }
  }
  return NULL;
}

static void make_team(Team* team, int thread, int iterations, uint64_t seed, int layouts) {
  MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;
  memset(team, 0, sizeof *team);
  MPI_Comm_rank(world, &team->rank);
  team->thread = thread;
  team->iterations = iterations;
  team->layouts = layouts;
  team->common.state = mixed(seed, (uint64_t)thread);
  team->own.state = mixed(team->common.state, (uint64_t)team->rank);
  if (thread > 0) {
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_dup(MPI_COMM_SELF, &self);
  }
  add_place(team, world, mixed(seed, 1), 1);
  add_place(team, self, mixed(seed, (uint64_t)(1000 + team->rank)), 1);
}

static int report(const Team* teams, int n) {
  long long wrong = 0, wrong_everywhere = 0;
  uint64_t sum = 0, sum_everywhere = 0;
  for (int t = 0; t < n; ++t) {
    wrong += teams[t].wrong;
    sum += teams[t].checksum;
  }
  MPI_Allreduce(&wrong, &wrong_everywhere, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(&sum, &sum_everywhere, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (teams[0].rank == 0) {
    printf("random_alltoall: %d iterations, %llu rounds, wrong %lld, checksum %016llx\n", teams[0].iterations,
           (unsigned long long)teams[0].calls, wrong_everywhere, (unsigned long long)sum_everywhere);
  }
  return wrong_everywhere != 0;
}

int main(int argc, char** argv) {
  static Team teams[2];
  int provided, threads = 1, layouts = 0;
  for (int i = 3; i < argc; ++i) {
    threads += strcmp(argv[i], "--threads") == 0;
    layouts |= strcmp(argv[i], "--layouts") == 0;
  }
  if (argc < 3 || threads > 2) {
    fprintf(stderr, "usage: random_alltoall ITERATIONS SEED [--threads] [--layouts]\n");
    return 2;
  }
  MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  if (threads > 1 && provided < MPI_THREAD_MULTIPLE) {
    printf("skipped: this MPI has no MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return 77;
  }
  for (int t = 0; t < threads; ++t)
    make_team(&teams[t], t, atoi(argv[1]), strtoull(argv[2], NULL, 10), layouts);
  pthread_t second;
  if (threads > 1 && pthread_create(&second, NULL, run_team, &teams[1]) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  run_team(&teams[0]);
  if (threads > 1) {
    pthread_join(second, NULL);
    for (int i = 0; i < 2; ++i) MPI_Comm_free(&teams[1].places[i].comm);
  }
  const int wrong = report(teams, threads);
  MPI_Finalize();
  return wrong;
}
