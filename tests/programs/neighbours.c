/* All-to-alls along the edges of random graphs and small grids, compared with answers that are known without
 * them: blocks are made of who sends which; blocking, nonblocking and persistent ones. Prints for each kind
 * of topology how many bytes were wrong; in mode "often" of many calls on one communicator, in mode "wrong"
 * what becomes of wrong arguments. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "persistent.h"
#ifdef USE_TAPA
#include <tapa/tapa.h>
#define CALL(name) TAPA_##name
#define INIT(name) TAPA_##name
#else
#define CALL(name) MPI_##name
#define INIT(name) name
#endif
#if defined(USE_TAPA) || defined(HAVE_MPIX_PERSISTENT) || defined(HAVE_MPI_PERSISTENT)
#define HAVE_INIT 1
#endif
#if defined(USE_TAPA) || MPI_VERSION >= 4
#define HAVE_LARGE 1
#endif

enum { kMost = 64, kGap = 0xee, kCalls = 6 };

static unsigned long long state;

static int draw(int below) { /* alike on all ranks */
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (int)((state >> 33) % (unsigned long long)below);
}

/* The blocks of all ranks: whom they are for, whom they are from. */
struct Topology {
  MPI_Comm comm;
  int grid, rank, size;
  int sends[kMost], receives[kMost];
  int to[kMost][kMost], from[kMost][kMost];
};

static void* room(size_t bytes) {
  void* const memory = malloc(bytes + 1);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  memset(memory, kGap, bytes + 1);
  return memory;
}

static void learn(struct Topology* t) {
  int kind, own[2 + 2 * kMost], weights[kMost], other[kMost], weighted;
  static int all[kMost * (2 + 2 * kMost)];
  int *const out = own + 2, *const in = own + 2 + kMost;
  MPI_Comm_rank(t->comm, &t->rank);
  MPI_Comm_size(t->comm, &t->size);
  MPI_Topo_test(t->comm, &kind);
  t->grid = kind == MPI_CART;
  if (kind == MPI_CART) {
    int dims;
    MPI_Cartdim_get(t->comm, &dims);
    for (int d = 0; d < dims; ++d) MPI_Cart_shift(t->comm, d, 1, &out[2 * d], &out[2 * d + 1]);
    own[0] = own[1] = 2 * dims;
    memcpy(in, out, sizeof(int) * kMost);
  } else if (kind == MPI_GRAPH) {
    MPI_Graph_neighbors_count(t->comm, t->rank, &own[0]);
    MPI_Graph_neighbors(t->comm, t->rank, own[0], out);
    own[1] = own[0];
    memcpy(in, out, sizeof(int) * kMost);
  } else {
    MPI_Dist_graph_neighbors_count(t->comm, &own[1], &own[0], &weighted);
    MPI_Dist_graph_neighbors(t->comm, own[1], in, weights, own[0], out, other);
  }
  MPI_Allgather(own, 2 + 2 * kMost, MPI_INT, all, 2 + 2 * kMost, MPI_INT, t->comm);
  for (int r = 0; r < t->size; ++r) {
    const int* const theirs = all + r * (2 + 2 * kMost);
    t->sends[r] = theirs[0];
    t->receives[r] = theirs[1];
    memcpy(t->to[r], theirs + 2, sizeof(int) * kMost);
    memcpy(t->from[r], theirs + 2 + kMost, sizeof(int) * kMost);
  }
}

enum Matching { kListed, kSwapped, kReversed, kUnknown };

/* How MPI matches several blocks of two ranks: its standard wants them in the order of the lists of
 * neighbours, the two of each dimension of a grid the other way round; but nonblocking calls of Open MPI up
 * to 5.0 do not swap them, and MPICH up to 5.0 goes through all lists from their ends. Asked of MPI on a rank
 * alone. */
static enum Matching matching(int grid, int nonblocking) {
  static enum Matching known[2][2] = {{kUnknown, kUnknown}, {kUnknown, kUnknown}};
  enum Matching* const answer = &known[grid][nonblocking];
  if (*answer == kUnknown) {
    const int ones[2] = {1, 1}, self[4] = {0, 0, 0, 0}, sent[4] = {0, 1, 2, 3};
    int received[4] = {7, 7, 7, 7};
    MPI_Comm loop;
    MPI_Request request = MPI_REQUEST_NULL;
    if (grid)
      MPI_Cart_create(MPI_COMM_SELF, 2, ones, ones, 0, &loop);
    else
      MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 4, self, self, 4, self, self, MPI_INFO_NULL, 0, &loop);
    if (nonblocking)
      CALL(Ineighbor_alltoall)(sent, 1, MPI_INT, received, 1, MPI_INT, loop, &request);
    else
      CALL(Neighbor_alltoall)(sent, 1, MPI_INT, received, 1, MPI_INT, loop);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&loop);
    *answer = received[0] == 0 ? kListed : received[0] == 1 ? kSwapped : kReversed;
  }
  return *answer;
}

static int place(const struct Topology* t, int rank, int block, int nonblocking) {
  switch (matching(t->grid, nonblocking)) {
    case kSwapped:
      return block ^ 1;
    case kReversed:
      return t->receives[rank] - 1 - block;
    default:
      return block;
  }
}

/* The block of `source` that arrives as block `block` of `rank`. */
static int sent_as(const struct Topology* t, int rank, int block, int source, int nonblocking) {
  const int own = place(t, rank, block, nonblocking);
  int before = 0, i;
  for (i = 0; i < t->receives[rank]; ++i)
    before += t->from[rank][i] == source && place(t, rank, i, nonblocking) < own;
  for (i = 0; i < t->sends[source]; ++i) {
    if (t->to[source][i] == rank && before-- == 0) return i;
  }
  printf("rank %d: no block of rank %d for block %d\n", rank, source, block);
  MPI_Abort(MPI_COMM_WORLD, 3);
  return -1;
}

static unsigned char content(int call, int source, int block, size_t at) {
  return (unsigned char)(call * 101 + source * 37 + block * 59 + (int)(at % 251) * 3 + (int)(at / 251));
}

/* Elements of a block, of 4 bytes each: alike on all ranks that know who sends it. */
static int size_of(unsigned seed, int source, int block, int most) {
  static const int sizes[] = {0, 1, 2, 7, 8, 9, 16, 127, 128, 129, 1024, 2500, 20000, 70000};
  const unsigned mixed = (seed * 2654435761U + (unsigned)source * 40503U + (unsigned)block * 9973U) >> 7;
  return sizes[mixed % (unsigned)most];
}

enum Form { kUniform, kV, kW };
enum Kind { kBlocking, kNonblocking, kPersistent };

/* A call: its buffers as they lie in memory, four bytes an element, gaps between elements of strided types.
 */
struct Call {
  int number, form, kind, large, strided_send, strided_recv, bottom, absolute, elements;
  unsigned seed;
  unsigned char *send, *recv;
  size_t recv_bytes;
  int counts[2][kMost], displs[2][kMost];
  MPI_Count large_counts[2][kMost];
  MPI_Aint places[2][kMost], large_displs[2][kMost];
  MPI_Datatype types[2][kMost];
  MPI_Request request;
};

static MPI_Datatype strided; /* an int and a gap of one */

static int bytes_apart(const struct Call* c, int sent, int block) {
  if (c->form == kW) return (c->types[sent ? 0 : 1][block] == strided) ? 8 : 4;
  return (sent ? c->strided_send : c->strided_recv) ? 8 : 4;
}

static int elements_of(const struct Call* c, int source, int block) {
  return c->form == kUniform ? c->elements : size_of(c->seed, source, block, 14);
}

static void lay_out(const struct Topology* t, struct Call* c) {
  for (int side = 0; side < 2; ++side) {
    const int blocks = side == 0 ? t->sends[t->rank] : t->receives[t->rank];
    const int* const peers = side == 0 ? t->to[t->rank] : t->from[t->rank];
    size_t at = 0;
    for (int b = 0; b < blocks; ++b) {
      const int odd = c->form == kW ? (b + side + (int)c->seed) % 3 == 0
                      : side == 0   ? c->strided_send
                                    : c->strided_recv;
      c->types[side][b] = odd ? strided : MPI_INT;
      c->counts[side][b] = 0;
      const int step = bytes_apart(c, side == 0, b);
      int count = c->elements;
      if (c->form != kUniform) {
        if (peers[b] == MPI_PROC_NULL)
          count = 3;
        else if (side == 0)
          count = elements_of(c, t->rank, b);
        else
          count = elements_of(c, peers[b], sent_as(t, t->rank, b, peers[b], c->kind != kBlocking));
        at += 8; /* a gap between blocks */
      }
      c->counts[side][b] = count;
      c->places[side][b] = (MPI_Aint)at;
      c->displs[side][b] = (int)(at / (size_t)step);
      if (c->form == kV && at % (size_t)step != 0) { /* v counts in elements */
        at += 4;
        c->displs[side][b] = (int)(at / (size_t)step);
        c->places[side][b] = (MPI_Aint)at;
      }
      at += (size_t)count * (size_t)step;
    }
    unsigned char* const memory = room(at);
    if (side == 0) {
      c->send = memory;
    } else {
      c->recv = memory;
      c->recv_bytes = at;
    }
  }
  for (int side = 0; side < 2; ++side) {
    for (int b = 0; b < kMost; ++b) {
      c->large_counts[side][b] = c->counts[side][b];
      c->large_displs[side][b] = c->displs[side][b];
    }
  }
}

/* Of places in a buffer, which may have become addresses. */
static MPI_Aint origin(const struct Call* c, const unsigned char* buffer) {
  MPI_Aint base = 0;
  if (c->absolute) MPI_Get_address(buffer, &base);
  return base;
}

static void fill(const struct Topology* t, struct Call* c) {
  const MPI_Aint base = origin(c, c->send);
  for (int b = 0; b < t->sends[t->rank]; ++b) {
    if (t->to[t->rank][b] == MPI_PROC_NULL) continue;
    for (int e = 0; e < c->counts[0][b]; ++e) {
      for (int i = 0; i < 4; ++i)
        c->send[c->places[0][b] - base + (MPI_Aint)e * bytes_apart(c, 1, b) + i] =
            content(c->number, t->rank, b, (size_t)(4 * e + i));
    }
  }
}

static void turn_to_addresses(struct Call* c, int side, unsigned char* buffer, const int* peers, int blocks) {
  for (int b = 0; b < blocks; ++b) {
    if (peers[b] != MPI_PROC_NULL)
      MPI_Get_address(buffer + c->places[side][b], &c->places[side][b]);
    else
      c->places[side][b] = 0; /* what is for nobody has no address */
  }
}

#define ALONG_EDGES(CALLED, SUFFIX, COUNTS, DISPLS, ...)                                                  \
  (c->form == kUniform                                                                                    \
       ? CALLED(SUFFIX)(send, c->elements, sendtype, recv, c->elements, recvtype, t->comm __VA_ARGS__)    \
   : c->form == kV ? CALLED(v##SUFFIX)(send, c->COUNTS[0], c->DISPLS[0], sendtype, recv, c->COUNTS[1],    \
                                       c->DISPLS[1], recvtype, t->comm __VA_ARGS__)                       \
                   : CALLED(w##SUFFIX)(send, c->COUNTS[0], c->places[0], c->types[0], recv, c->COUNTS[1], \
                                       c->places[1], c->types[1], t->comm __VA_ARGS__))

#define BLOCKING(FORM) CALL(Neighbor_alltoall##FORM)
#define STARTING(FORM) CALL(Ineighbor_alltoall##FORM)
#define MAKING(FORM) INIT(Neighbor_alltoall##FORM)

static void start(const struct Topology* t, struct Call* c) {
  const MPI_Datatype sendtype = c->strided_send ? strided : MPI_INT,
                     recvtype = c->strided_recv ? strided : MPI_INT;
  const void* send = c->send;
  void* recv = c->recv;
  fill(t, c);
  if (c->form == kW && c->bottom) {
    turn_to_addresses(c, 0, c->send, t->to[t->rank], t->sends[t->rank]);
    turn_to_addresses(c, 1, c->recv, t->from[t->rank], t->receives[t->rank]);
    send = recv = MPI_BOTTOM;
    c->absolute = 1;
  }
  if (c->kind == kBlocking && !c->large)
    ALONG_EDGES(BLOCKING, , counts, displs, );
  else if (c->kind == kNonblocking && !c->large)
    ALONG_EDGES(STARTING, , counts, displs, , &c->request);
#ifdef HAVE_INIT
  else if (c->kind == kPersistent && !c->large)
    ALONG_EDGES(MAKING, _init, counts, displs, , MPI_INFO_NULL, &c->request);
#endif
#ifdef HAVE_LARGE
  else if (c->kind == kBlocking)
    ALONG_EDGES(BLOCKING, _c, large_counts, large_displs, );
  else if (c->kind == kNonblocking)
    ALONG_EDGES(STARTING, _c, large_counts, large_displs, , &c->request);
#ifdef HAVE_INIT
  else
    ALONG_EDGES(MAKING, _init_c, large_counts, large_displs, , MPI_INFO_NULL, &c->request);
#endif
#endif
  if (c->kind == kPersistent) MPI_Start(&c->request);
}

/* Wrong bytes, of blocks and of gaps. */
static long check(const struct Topology* t, struct Call* c) {
  unsigned char* const expected = room(c->recv_bytes);
  const MPI_Aint base = origin(c, c->recv);
  long wrong = 0;
  for (int b = 0; b < t->receives[t->rank]; ++b) {
    const int source = t->from[t->rank][b];
    if (source == MPI_PROC_NULL) continue;
    const int block = sent_as(t, t->rank, b, source, c->kind != kBlocking);
    for (int e = 0; e < c->counts[1][b]; ++e) {
      for (int i = 0; i < 4; ++i)
        expected[c->places[1][b] - base + (MPI_Aint)e * bytes_apart(c, 0, b) + i] =
            content(c->number, source, block, (size_t)(4 * e + i));
    }
  }
  for (size_t i = 0; i <= c->recv_bytes; ++i) wrong += c->recv[i] != expected[i];
  free(expected);
  return wrong;
}

static void choose(struct Call* c, int number, int ranks) {
  static const int uniform[] = {0, 1, 2, 8, 9, 100, 128, 1024, 3000, 40000};
  memset(c, 0, sizeof *c);
  c->number = number;
  c->kind = number < 2 ? kBlocking : draw(3); /* the first ones set the communicator up */
  c->large = draw(2);
#ifndef HAVE_INIT
  if (c->kind == kPersistent) c->kind = kNonblocking;
#endif
#ifndef HAVE_LARGE
  c->large = 0;
#endif
  if (ranks == 1 && c->kind == kPersistent) c->large = 0; /* MPI's, which may not have that */
  c->request = MPI_REQUEST_NULL;
  c->form = draw(3);
  c->strided_send = draw(4) == 0;
  c->strided_recv = draw(4) == 0;
  c->bottom = draw(2);
#ifndef OPEN_MPI /* MPICH refuses MPI_BOTTOM for MPI's own types */
  c->bottom = 0;
#endif
  c->elements = uniform[draw(10)];
  c->seed = (unsigned)draw(1 << 20);
}

static long all_to_all(const struct Topology* t) {
  long wrong = 0;
  int* const both = room(2 * sizeof(int) * (size_t)t->size);
  for (int r = 0; r < t->size; ++r) both[r] = 1000 * t->rank + r;
  CALL(Alltoall)(both, 1, MPI_INT, both + t->size, 1, MPI_INT, t->comm);
  for (int r = 0; r < t->size; ++r) wrong += both[t->size + r] != 1000 * r + t->rank;
  free(both);
  return wrong;
}

/* Calls of all kinds, some of them under way together, and other all-to-alls between. */
static long exchange(MPI_Comm comm) {
  static struct Topology t;
  static struct Call calls[kCalls];
  long wrong = 0;
  t.comm = comm;
  learn(&t);
  for (int i = 0; i < kCalls; ++i) {
    choose(&calls[i], i, t.size);
    lay_out(&t, &calls[i]);
  }
  for (int i = 0; i < kCalls; ++i) {
    start(&t, &calls[i]);
    if (i == 3) wrong += all_to_all(&t);
  }
  for (int i = kCalls - 1; i >= 0; --i) {
    MPI_Wait(&calls[i].request, MPI_STATUS_IGNORE);
    wrong += check(&t, &calls[i]);
  }
  for (int i = 0; i < kCalls; ++i) {
    struct Call* const c = &calls[i];
    if (c->kind == kPersistent) { /* once more, with other content */
      c->number += kCalls;
      fill(&t, c);
      memset(c->recv, kGap, c->recv_bytes + 1);
      MPI_Start(&c->request);
      MPI_Wait(&c->request, MPI_STATUS_IGNORE);
      wrong += check(&t, c);
      MPI_Request_free(&c->request);
    }
    free(c->send);
    free(c->recv);
  }
  return wrong;
}

/* Blocking calls of a few kinds, each so often that what carries it out is tried, compared and settled. */
static long exchange_often(MPI_Comm comm) {
  static const int uniform[] = {2, 100, 3000};
  static struct Topology t;
  static struct Call call;
  long wrong = 0;
  t.comm = comm;
  learn(&t);
  for (int i = 0; i < 240; ++i) {
    choose(&call, i, t.size);
    call.kind = kBlocking;
    call.form = i % 5 < 3 ? kUniform : i % 5 == 3 ? kV : kW;
    call.elements = uniform[i % 3];
    call.seed %= 7;
    lay_out(&t, &call);
    start(&t, &call);
    wrong += check(&t, &call);
    if (i % 50 == 0) wrong += all_to_all(&t);
    free(call.send);
    free(call.recv);
  }
  return wrong;
}

/* A grid, and a graph in which each rank sends to the next three and to itself. */
static int often(int rank, int size) {
  int dims[3] = {0, 0, 0}, in[4], out[4];
  const int periods[3] = {1, 1, 0}, weights[4] = {1, 1, 1, 1};
  long wrong[2], all[2];
  MPI_Comm comm;
  MPI_Dims_create(size, 3, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &comm);
  wrong[0] = exchange_often(comm);
  MPI_Comm_free(&comm);
  for (int i = 0; i < 4; ++i) {
    out[i] = (rank + i) % size;
    in[i] = (rank + size - i) % size;
  }
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 4, in, weights, 4, out, weights, MPI_INFO_NULL, 0, &comm);
  wrong[1] = exchange_often(comm);
  MPI_Comm_free(&comm);
  MPI_Allreduce(wrong, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("often: grid %ld, graph %ld bytes wrong\n", all[0], all[1]);
  return all[0] + all[1] != 0;
}

static long on_grids(MPI_Comm within) {
  int size;
  long wrong = 0;
  MPI_Comm_size(within, &size);
  for (int a = 1; a <= size; ++a) {
    for (int b = 1; a * b <= size; ++b) {
      if (size % (a * b) != 0) continue;
      const int dims[3] = {a, b, size / (a * b)}, periods[3] = {draw(4) != 0, draw(4) != 0, draw(4) != 0};
      MPI_Comm comm;
      MPI_Cart_create(within, 3, dims, periods, draw(2), &comm);
      wrong += exchange(comm);
      MPI_Comm_free(&comm);
    }
  }
  return wrong;
}

/* Each edge both ways, as MPI_Graph_create wants them for this; loops and several of one pair among them. */
static long on_graph(MPI_Comm within) {
  int size, lists[kMost][kMost], degree[kMost] = {0}, index[kMost], edges[kMost * kMost], all = 0;
  MPI_Comm_size(within, &size);
  for (int e = draw(2 * size + 1); e > 0; --e) {
    const int a = draw(size), b = draw(size);
    lists[a][degree[a]++] = b;
    if (a != b) lists[b][degree[b]++] = a;
  }
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < degree[r]; ++i) edges[all++] = lists[r][i];
    index[r] = all;
  }
  MPI_Comm comm;
  MPI_Graph_create(within, size, index, edges, draw(2), &comm);
  const long wrong = exchange(comm);
  MPI_Comm_free(&comm);
  return wrong;
}

/* Each rank gives both of its lists: in MPI_Dist_graph_create, with one of them, Open MPI 4.1 hangs at times.
 */
static long on_directed_graph(MPI_Comm within) {
  int rank, size, weights[kMost], in[kMost], out[kMost], pairs[kMost][2], ins = 0, outs = 0;
  MPI_Comm_rank(within, &rank);
  MPI_Comm_size(within, &size);
  const int edges = draw(4 * size + 1), weighted = draw(2), reorder = draw(2);
  for (int e = 0; e < edges; ++e) {
    pairs[e][0] = draw(size);
    pairs[e][1] = draw(size);
    weights[e] = e + 1;
    if (pairs[e][0] == rank) out[outs++] = pairs[e][1];
  }
  for (int e = edges - 1; e >= 0; --e) { /* the lists of both ends need not be in one order */
    if (pairs[e][1] == rank) in[ins++] = pairs[e][0];
  }
  int* const given = weighted ? weights : MPI_UNWEIGHTED;
  MPI_Comm comm;
  MPI_Dist_graph_create_adjacent(within, ins, in, given, outs, out, given, MPI_INFO_NULL, reorder, &comm);
  const long wrong = exchange(comm);
  MPI_Comm_free(&comm);
  return wrong;
}

static int code_class(int code) {
  int class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
  return class;
}

static void wrong_arguments(int rank, int size) {
  const int dims[1] = {size}, periods[1] = {1}, minus[2] = {1, -1}, ones[2] = {1, 1}, displs[2] = {0, 1};
  const MPI_Aint places[2] = {0, 4};
  const MPI_Datatype types[2] = {MPI_INT, MPI_DATATYPE_NULL};
  int send[2] = {1, 2}, recv[2] = {0, 0}, classes[11];
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm ring;
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 3; ++i) CALL(Neighbor_alltoall)(send, 1, MPI_INT, recv, 1, MPI_INT, ring);
  for (int round = 0; round < 2; ++round) {
    classes[0] = code_class(CALL(Neighbor_alltoall)(send, -1, MPI_INT, recv, 1, MPI_INT, ring));
    classes[1] = code_class(CALL(Neighbor_alltoall)(send, 1, MPI_DATATYPE_NULL, recv, 1, MPI_INT, ring));
    classes[2] = code_class(CALL(Neighbor_alltoall)(MPI_IN_PLACE, 1, MPI_INT, recv, 1, MPI_INT, ring));
    classes[3] = code_class(CALL(Neighbor_alltoall)(send, 1, MPI_INT, recv, 1, MPI_INT, MPI_COMM_WORLD));
    classes[4] =
        code_class(CALL(Neighbor_alltoallv)(send, minus, displs, MPI_INT, recv, ones, displs, MPI_INT, ring));
    classes[5] =
        code_class(CALL(Neighbor_alltoallw)(send, ones, places, types, recv, ones, places, types, ring));
    classes[6] = code_class(CALL(Neighbor_alltoall)(send, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, ring));
    classes[7] =
        code_class(CALL(Neighbor_alltoallv)(send, NULL, displs, MPI_INT, recv, ones, displs, MPI_INT, ring));
    classes[8] = code_class(CALL(Neighbor_alltoall)(send, 1, MPI_INT, recv, 1, MPI_INT, ring));
    classes[9] = code_class(CALL(Ineighbor_alltoall)(send, -1, MPI_INT, recv, 1, MPI_INT, ring, &request));
    classes[10] =
        code_class(CALL(Ineighbor_alltoall)(send, 1, MPI_DATATYPE_NULL, recv, 1, MPI_INT, ring, &request));
    for (int i = 0; i < 11 && rank == 0; ++i) printf("wrong %d: %d\n", i, classes[i]);
  }
  MPI_Comm_free(&ring);
}

int main(int argc, char** argv) {
  int rank, size, failed = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "wrong") == 0) {
    wrong_arguments(rank, size);
    return MPI_Finalize();
  }
  state = argc > 1 ? (unsigned long long)atoll(argv[1]) : 1;
  MPI_Type_create_resized(MPI_INT, 0, 8, &strided);
  MPI_Type_commit(&strided);
  if (argc > 1 && strcmp(argv[1], "often") == 0) {
    failed = often(rank, size);
    MPI_Type_free(&strided);
    MPI_Finalize();
    return failed;
  }
  const int rounds = argc > 2 ? atoi(argv[2]) : 1;
  for (int ranks = 1; ranks <= size; ++ranks) {
    MPI_Comm within;
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &within);
    long wrong[3] = {0}, all[3];
    const unsigned long long before = state;
    if (within != MPI_COMM_NULL) {
      for (int i = 0; i < rounds; ++i) {
        wrong[0] += on_grids(within);
        wrong[1] += on_graph(within);
        for (int graph = 0; graph < 2; ++graph) wrong[2] += on_directed_graph(within);
      }
      MPI_Comm_free(&within);
    }
    state = before + 12345;
    MPI_Reduce(wrong, all, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank != 0) continue;
    printf("%d ranks: grids %ld, graphs %ld, directed graphs %ld bytes wrong\n", ranks, all[0], all[1],
           all[2]);
    failed |= all[0] + all[1] + all[2] != 0;
  }
  MPI_Type_free(&strided);
  MPI_Finalize();
  return failed;
}
