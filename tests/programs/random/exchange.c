#include "exchange.h"

#include <string.h>

#include "../persistent.h"

enum { kGuard = 64, kLongBlock = 65536, kGroup = 1024 };

/* Units of the block s -> d. */
static int units(const Call* call, int s, int d) {
  if (call->kind == UNIFORM) return call->granule * call->most;
  if (call->in_place && s > d) return units(call, d, s);
  const uint64_t h = mixed(call->name, (uint64_t)(s * 4099 + d));
  if (h % 4 < (call->sparse ? 3 : 1)) return 0;
  if (call->border && (h >> 8) % 4 > 0) return call->granule * (call->most - (int)((h >> 16) % 2));
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
static void render(const Exchange* e, const Side* side, int outgoing, unsigned char* to) {
  const Signature* s = &e->call.signature;
  const uint64_t round = e->round;
  for (size_t i = 0; i < side->bytes; ++i) to[i] = gap(i);
  for (int p = 0; p < side->n; ++p) {
    const Layout* l = &side->layout[side->layouts == 1 ? 0 : p];
    const int from = outgoing ? e->own : side->peer[p];
    const int dest = outgoing ? side->peer[p] : e->own;
    int index = 0;
    for (int c = 0; c < side->counts[p]; ++c) {
      unsigned char* item = to + side->origin + side->base[p] + c * l->extent;
      for (int k = 0; k < l->elements; ++k, ++index) {
        element(&e->call, round, from, dest, index, s->sizes[k % s->parts], item + l->at[k]);
      }
    }
  }
}

uint64_t checksum_of(const Exchange* e) {
  uint64_t total = 0;
  const Side* side = &e->recv;
  const Signature* s = &e->call.signature;
  for (int p = 0; p < side->n; ++p) {
    const Layout* l = &side->layout[side->layouts == 1 ? 0 : p];
    uint64_t sum = mixed(e->call.name + e->round, (uint64_t)(side->peer[p] * 4099 + e->own));
    for (int c = 0; c < side->counts[p]; ++c) {
      const unsigned char* item = side->arena + side->origin + side->base[p] + c * l->extent;
      for (int k = 0; k < l->elements; ++k) {
        uint64_t bytes = 0;
        const int size = s->sizes[k % s->parts];
        memcpy(&bytes, item + l->at[k], size > 8 ? 8 : (size_t)size);
        sum = sum * 0x100000001B3U + bytes;
      }
    }
    total += sum;
  }
  return total;
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

/* The ranks of all blocks of one side; that of rank 0 has the number `other`. */
static int* peers_of(MPI_Comm comm, int along, int outgoing, int other, int* n) {
  int ins = 0, outs = 0, weighted = 0;
  if (along) MPI_Dist_graph_neighbors_count(comm, &ins, &outs, &weighted);
  if (along) *n = outgoing ? outs : ins;
  int* const peers = room((size_t)*n, sizeof(int));
  for (int p = 0; p < *n; ++p) peers[p] = other + p;
  if (!along) return peers;
  int* const rest = room((size_t)(2 * (ins + outs)), sizeof(int));
  int* const weights = rest + ins + outs;
  MPI_Dist_graph_neighbors(comm, ins, outgoing ? rest : peers, weights, outs, outgoing ? peers : rest,
                           weights + ins);
  free(rest);
  return peers;
}

static Side make_side(Random* random, const Call* call, int own, int* peer, int n, int outgoing) {
  Side side;
  memset(&side, 0, sizeof side);
  side.n = n;
  side.peer = peer;
  side.layouts = call->kind == TYPED || n == 0 ? n : 1;
  side.layout = room((size_t)side.layouts, sizeof(Layout));
  side.types = room((size_t)n, sizeof(MPI_Datatype));
  side.counts = room((size_t)n, sizeof(int));
  side.displs = room((size_t)n, sizeof(int));
  side.base = room((size_t)n, sizeof(MPI_Aint));
  if (n == 0) { /* Open MPI wants as many bytes on both sides all the same */
    side.types[0] = MPI_BYTE;
    side.counts[0] = call->granule * call->most * call->signature.bytes;
  }
  const int transposed = call->kind == UNIFORM && !call->dense && once_in(random, 5);
  for (int p = 0; p < n; ++p) {
    const int all = outgoing ? units(call, own, peer[p]) : units(call, peer[p], own);
    Layout* l = &side.layout[side.layouts == 1 ? 0 : p];
    if (p == 0 || side.layouts > 1) {
      int part = call->kind == TYPED ? all : call->granule;
      if (call->kind == UNIFORM && once_in(random, 2)) part = all;
      for (int d = 3; d > 1; --d) {
        if (part % d == 0 && once_in(random, 3)) part /= d;
      }
      const int slots = transposed && part > 0 ? all / part * n : 0;
      const int backwards = call->backwards || (part == all && call->kind != RAGGED && !call->in_place);
      if (call->basic)
        *l = basic_layout(&call->signature);
      else
        *l = call->dense ? dense_layout(&call->signature, part)
                         : random_layout(random, &call->signature, part, slots, backwards);
    }
    side.types[p] = l->type;
    side.counts[p] = l->units > 0 ? all / l->units : call->empties;
  }
  lay_out(&side, random, call);
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
  free(side->peer);
  free(side->layout);
  free(side->types);
  free(side->counts);
  free(side->displs);
  free(side->base);
  free(side->arena);
  memset(side, 0, sizeof *side);
}

/* Bytes of lines and pages, or of a part of some memory for each of so many ranks, in whole lines. */
static int near_border(Random* random, int ranks) {
  const int sizes[] = {32, 64, 104, 128, 512, 1024, 4096, 16384};
  const int shared[] = {36 << 10, 132 << 10, 256 << 10, 64 << 10};
  const int which = below(random, 16);
  if (which < 8) return sizes[which];
  const int lines = shared[which % 4] / (which < 12 ? ranks : ranks > 1 ? ranks - 1 : 1) / 64;
  return 64 * (lines - (lines % 2 == 0 && once_in(random, 2) ? 1 : 0));
}

static Call draw_call(const Wish* wish, int ranks, uint64_t name, Random random) {
  Call call;
  memset(&call, 0, sizeof call);
  call.kind = wish->kind;
  call.signature = random_signature(&random);
  call.in_place = wish->in_place;
  call.along = wish->along;
  call.backwards = wish->mode == BLOCKING && !call.in_place && !call.along;
  call.granule = 1 + below(&random, 4);
  call.most = below(&random, 6);
  /* Open MPI 4.1 posts a receive for such blocks, but sends nothing, or the other way round. */
  call.empties = call.kind == UNIFORM && !call.along ? below(&random, 3) : 0;
  call.sparse = once_in(&random, 3);
  if (wish->length == MEDIUM) call.most = 1 + below(&random, 150);
  call.basic = wish->plain;
  call.dense = wish->plain;
  if (wish->length == LONG && !(wish->layouts && wish->mode == BLOCKING && ranks > 1)) call.dense = 1;
  call.border = wish->length == BORDER;
  if (call.border) call.dense = call.granule = 1;
  if (call.dense && call.signature.parts > 1) {
    call.signature.parts = 1;
    call.signature.bytes = call.signature.sizes[0];
  }
  if (wish->length == LONG)
    call.most = kLongBlock / call.granule / call.signature.bytes + 1 + below(&random, 500);
  if (call.border)
    call.most = near_border(&random, ranks) / call.granule / call.signature.bytes + below(&random, 3);
  call.name = mixed(random.state, name);
  return call;
}

Exchange make_exchange(const Wish* wish, MPI_Comm comm, uint64_t name, int second, Random draw, Random* own) {
  Exchange e;
  int rank = 0, size = 0, peers = 0, inter = 0, other = 0;
  memset(&e, 0, sizeof e);
  e.comm = comm;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm_test_inter(comm, &inter);
  peers = size;
  e.own = rank;
  if (inter) {
    e.own += second ? kGroup : 0;
    other = second ? 0 : kGroup;
    MPI_Comm_remote_size(comm, &peers);
  }
  e.call = draw_call(wish, inter ? size + peers : size, name, draw);
  if (!e.call.in_place) {
    int* const to = peers_of(comm, wish->along, 1, other, &peers);
    e.send = make_side(own, &e.call, e.own, to, peers, 1);
    if (!wish->plain && once_in(own, 12)) use_bottom(&e.send);
  }
  int* const from = peers_of(comm, wish->along, 0, other, &peers);
  e.recv = make_side(own, &e.call, e.own, from, peers, 0);
  if (!wish->plain && once_in(own, 12)) use_bottom(&e.recv);
  return e;
}

void fill_exchange(Exchange* e, uint64_t round) {
  e->round = round;
  if (e->call.in_place) {
    render(e, &e->recv, 1, e->recv.arena);
  } else {
    render(e, &e->send, 1, e->send.arena);
    for (size_t i = 0; i < e->recv.bytes; ++i) e->recv.arena[i] = gap(i);
  }
}

static long long differences(const Exchange* e, const Side* side, int outgoing) {
  long long wrong = 0;
  unsigned char* right = room(side->bytes, 1);
  render(e, side, outgoing, right);
  if (memcmp(right, side->arena, side->bytes) != 0) {
    for (size_t i = 0; i < side->bytes; ++i) wrong += right[i] != side->arena[i];
  }
  free(right);
  return wrong;
}

long long wrong_bytes(const Exchange* e) {
  return differences(e, &e->recv, 0) + (e->call.in_place ? 0 : differences(e, &e->send, 1));
}

/* ------------------------------------------------------------------ calls */

#define FORMS(NAME, END, PLACES, ...)                                                                         \
  (e->call.kind == UNIFORM  ? NAME##END(from, in_place ? 0 : s->counts[0], sendtype, r->buffer, r->counts[0], \
                                        r->types[0], e->comm __VA_ARGS__)                                     \
   : e->call.kind == RAGGED ? NAME##v##END(from, s->counts, s->displs, sendtype, r->buffer, r->counts,        \
                                           r->displs, r->types[0], e->comm __VA_ARGS__)                       \
                            : NAME##w##END(from, s->counts, s->PLACES, s->types, r->buffer, r->counts,        \
                                           r->PLACES, r->types, e->comm __VA_ARGS__))
#define CALL(ALL, ALONG, END, ...)                                          \
  const Side *s = &e->send, *r = &e->recv;                                  \
  const int in_place = e->call.in_place;                                    \
  const void* from = in_place ? MPI_IN_PLACE : s->buffer;                   \
  const MPI_Datatype sendtype = in_place ? MPI_DATATYPE_NULL : s->types[0]; \
  return e->call.along ? FORMS(ALONG, END, base, __VA_ARGS__) : FORMS(ALL, END, displs, __VA_ARGS__)

int call_blocking(const Exchange* e) {
  CALL(MPI_Alltoall, MPI_Neighbor_alltoall, , );
}

int call_nonblocking(const Exchange* e, MPI_Request* request) {
  CALL(MPI_Ialltoall, MPI_Ineighbor_alltoall, , , request);
}

#ifdef Alltoall_init
int call_init(const Exchange* e, MPI_Request* request) {
  CALL(Alltoall, Neighbor_alltoall, _init, , MPI_INFO_NULL, request);
}

int has_persistent(void) {
  return 1;
}
#else
int call_init(const Exchange* e, MPI_Request* request) {
  (void)e;
  *request = MPI_REQUEST_NULL;
  return MPI_ERR_UNSUPPORTED_OPERATION;
}

int has_persistent(void) {
  return 0;
}
#endif

void free_types(Exchange* e) {
  for (int i = 0; i < e->send.layouts; ++i) free_layout_type(&e->send.layout[i]);
  for (int i = 0; i < e->recv.layouts; ++i) free_layout_type(&e->recv.layout[i]);
}

void free_exchange(Exchange* e) {
  free_side(&e->send);
  free_side(&e->recv);
}
