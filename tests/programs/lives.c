/* Lives of communicators: many at once, many one after another, some inside others, in threads, freed early,
 * first used late or wrongly. Every received byte is checked, and that no other byte was written. Prints one
 * line for each mode, the same with and without a library behind MPI's back (but "errors", which prints a
 * line for each wrong call). Exit status 1 when something is wrong.
 *
 *   lives MODE [NUMBER] */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "persistent.h"

enum { kMostRanks = 16, kMostLevels = 8, kHole = 5, kHoleByte = 0xEE, kLate = 200000, kThreads = 4 };

static int rank, size, number;
static atomic_long wrong, blocks;

typedef struct {
  MPI_Comm comm;
  unsigned id; /* the same on all ranks, another one for each communicator of a run */
  int me, peers;
  int mine, theirs; /* added to ranks: in an intercommunicator the two groups have other names */
  int remote;
  unsigned calls;
} Life;

typedef enum {
  UNIFORM,
  UNIFORM_IN_PLACE,
  RAGGED,
  RAGGED_IN_PLACE,
  TYPED,
  TYPED_IN_PLACE,
  PENDING,
  PENDING_IN_PLACE,
  PENDING_RAGGED,
  PENDING_TYPED,
  PERSISTENT,
  PERSISTENT_RAGGED,
  PERSISTENT_TYPED,
  kForms
} Form;

enum { SENT, RECEIVED };

/* One all-to-all. In block p of a side there are units[p] pieces of `unit` bytes, each `step` behind the one
 * before. */
typedef struct {
  Life* life;
  Form form;
  unsigned call, shape;
  int bytes;
  int units[2][kMostRanks], displs[2][kMostRanks], counts[2][kMostRanks], unit[2], step[2], total[2];
  MPI_Datatype types[2][kMostRanks];
  unsigned char *buffers[2], *expected;
  int borrowed; /* the buffers are the caller's */
  MPI_Request request;
} Call;

static int is_in_place(Form f) {
  return f == UNIFORM_IN_PLACE || f == RAGGED_IN_PLACE || f == TYPED_IN_PLACE || f == PENDING_IN_PLACE;
}
static int is_ragged(Form f) {
  return f == RAGGED || f == RAGGED_IN_PLACE || f == PENDING_RAGGED || f == PERSISTENT_RAGGED;
}
static int is_typed(Form f) {
  return f == TYPED || f == TYPED_IN_PLACE || f == PENDING_TYPED || f == PERSISTENT_TYPED;
}
static int is_persistent(Form f) {
  return f >= PERSISTENT;
}

static void* room(size_t bytes) {
  void* memory = malloc(bytes > 0 ? bytes : 1);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return memory;
}

static unsigned mixed(unsigned x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

static Life life_of(MPI_Comm comm, unsigned id) {
  Life life = {comm, id, 0, 0, 0, 0, 0, 0};
  MPI_Comm_rank(comm, &life.me);
  MPI_Comm_test_inter(comm, &life.remote);
  if (life.remote)
    MPI_Comm_remote_size(comm, &life.peers);
  else
    MPI_Comm_size(comm, &life.peers);
  return life;
}

/* Elements from one rank to another: some send nothing. */
static int pieces(const Call* c, int source, int destination) {
  const int in_place = is_in_place(c->form);
  const unsigned key = (unsigned)source + (in_place ? 1 : 2) * (unsigned)destination + c->shape;
  if (!is_ragged(c->form) && !is_typed(c->form)) return 1;
  if (key % 3 == 0) return 0;
  if (is_typed(c->form)) return c->bytes / 4 / (int)(key % 3) + 1;
  return c->bytes > (int)(key % 4) ? c->bytes - (int)(key % 4) : 0;
}

/* Blocks of calls with counts are in reverse order, with holes between. */
static void lay_out(Call* c, int side) {
  const Life* const l = c->life;
  const int plain = !is_ragged(c->form) && !is_typed(c->form);
  int at = plain || l->peers == 1 ? 0 : 3;
  c->unit[side] = plain ? c->bytes : is_typed(c->form) ? 4 : 1;
  c->step[side] = is_typed(c->form) ? (side == SENT || is_in_place(c->form) ? 8 : 11) : c->unit[side];
  for (int i = 0; i < l->peers; ++i) {
    const int p = plain ? i : l->peers - 1 - i;
    const int me = l->mine + l->me, other = l->theirs + p;
    const int n = side == SENT ? pieces(c, me, other) : pieces(c, other, me);
    c->units[side][p] = n;
    c->displs[side][p] = at;
    c->counts[side][p] = n;
    c->types[side][p] = MPI_BYTE;
    if (is_typed(c->form) && n > 0) {
      MPI_Type_vector(n, 4, c->step[side], MPI_BYTE, &c->types[side][p]);
      MPI_Type_commit(&c->types[side][p]);
      c->counts[side][p] = 1;
    }
    at += n * c->step[side] + (plain ? 0 : kHole);
  }
  c->total[side] = at + kHole;
}

/* What `side` holds, of these roles: what this rank sends, or what it receives. */
static void put(const Call* c, int side, int role, unsigned char* to) {
  const Life* const l = c->life;
  memset(to, kHoleByte, (size_t)c->total[side]);
  for (int p = 0; p < l->peers; ++p) {
    const int me = l->mine + l->me, other = l->theirs + p;
    const unsigned pair = role == SENT ? (unsigned)(me * 64 + other) : (unsigned)(other * 64 + me);
    const unsigned start = mixed(mixed(mixed(l->id) + c->call) + pair);
    unsigned i = 0;
    for (int u = 0; u < c->units[side][p]; ++u) {
      unsigned char* const piece = to + c->displs[side][p] + u * c->step[side];
      for (int k = 0; k < c->unit[side]; ++k, ++i)
        piece[k] = (unsigned char)((start + i * 0x9e3779b1U) >> 24);
    }
  }
}

static void fill(Call* c) {
  if (is_in_place(c->form)) {
    put(c, RECEIVED, SENT, c->buffers[RECEIVED]);
  } else {
    put(c, SENT, SENT, c->buffers[SENT]);
    memset(c->buffers[RECEIVED], kHoleByte, (size_t)c->total[RECEIVED]);
  }
}

static void tell(const Call* c, const char* what) {
  static atomic_int told;
  if (atomic_fetch_add(&told, 1) < 5) {
    fprintf(stderr, "lives: rank %d: %s, communicator %u (rank %d of %d), call %u of form %d, %d bytes\n",
            rank, what, c->life->id, c->life->me, c->life->peers, c->call, (int)c->form, c->bytes);
  }
}

static void check(const Call* c) {
  put(c, RECEIVED, RECEIVED, c->expected);
  if (memcmp(c->expected, c->buffers[RECEIVED], (size_t)c->total[RECEIVED]) != 0) {
    ++wrong;
    tell(c, "wrong data");
  }
  if (!is_in_place(c->form)) {
    unsigned char* const sent = room((size_t)c->total[SENT]);
    put(c, SENT, SENT, sent);
    if (memcmp(sent, c->buffers[SENT], (size_t)c->total[SENT]) != 0) {
      ++wrong;
      tell(c, "the send buffer was written");
    }
    free(sent);
  }
  blocks += c->life->peers;
}

static int started(Call* c) {
  const void* const from = is_in_place(c->form) ? MPI_IN_PLACE : c->buffers[SENT];
  void* const to = c->buffers[RECEIVED];
  const int *n = c->counts[SENT], *m = c->counts[RECEIVED], *at = c->displs[SENT],
            *there = c->displs[RECEIVED];
  const MPI_Datatype *s = c->types[SENT], *r = c->types[RECEIVED];
  const MPI_Comm comm = c->life->comm;
  MPI_Request* const request = &c->request;
  switch (c->form) {
    case UNIFORM:
    case UNIFORM_IN_PLACE:
      return MPI_Alltoall(from, c->bytes, MPI_BYTE, to, c->bytes, MPI_BYTE, comm);
    case RAGGED:
    case RAGGED_IN_PLACE:
      return MPI_Alltoallv(from, n, at, MPI_BYTE, to, m, there, MPI_BYTE, comm);
    case TYPED:
    case TYPED_IN_PLACE:
      return MPI_Alltoallw(from, n, at, s, to, m, there, r, comm);
#ifdef Alltoall_init
    case PERSISTENT:
      return Alltoall_init(from, c->bytes, MPI_BYTE, to, c->bytes, MPI_BYTE, comm, MPI_INFO_NULL, request);
    case PERSISTENT_RAGGED:
      return Alltoallv_init(from, n, at, MPI_BYTE, to, m, there, MPI_BYTE, comm, MPI_INFO_NULL, request);
    case PERSISTENT_TYPED:
      return Alltoallw_init(from, n, at, s, to, m, there, r, comm, MPI_INFO_NULL, request);
#else
    case PERSISTENT: /* as often as a persistent call is started, see finish */
#endif
    case PENDING:
    case PENDING_IN_PLACE:
      return MPI_Ialltoall(from, c->bytes, MPI_BYTE, to, c->bytes, MPI_BYTE, comm, request);
#ifndef Alltoall_init
    case PERSISTENT_RAGGED:
#endif
    case PENDING_RAGGED:
      return MPI_Ialltoallv(from, n, at, MPI_BYTE, to, m, there, MPI_BYTE, comm, request);
    default:
      return MPI_Ialltoallw(from, n, at, s, to, m, there, r, comm, request);
  }
}

/* Begins a call in these buffers, or in its own. A blocking one is done then. */
static void begin_in(Call* c, Life* life, Form form, int bytes, unsigned char* send, unsigned char* recv) {
  c->life = life;
  c->form = form;
  c->call = c->shape = life->calls++;
  c->bytes = bytes;
  c->request = MPI_REQUEST_NULL;
  if (life->peers > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  lay_out(c, SENT);
  lay_out(c, RECEIVED);
  c->borrowed = recv != NULL;
  c->buffers[SENT] = c->borrowed ? send : room((size_t)c->total[SENT]);
  c->buffers[RECEIVED] = c->borrowed ? recv : room((size_t)c->total[RECEIVED]);
  c->expected = room((size_t)c->total[RECEIVED]);
  fill(c);
  wrong += started(c) != MPI_SUCCESS;
#ifdef Alltoall_init
  if (is_persistent(form)) wrong += MPI_Start(&c->request) != MPI_SUCCESS;
#endif
}
static void begin(Call* c, Life* life, Form form, int bytes) {
  begin_in(c, life, form, bytes, NULL, NULL);
}

/* In one of three manners, so that ranks and calls differ in it. */
static void await(Call* c) {
  const unsigned manner = (c->call + (unsigned)c->life->me) % 3;
  int done = 0, index;
  if (manner == 0) MPI_Wait(&c->request, MPI_STATUS_IGNORE);
  if (manner == 1) MPI_Waitany(1, &c->request, &index, MPI_STATUS_IGNORE);
  while (manner == 2 && !done) MPI_Test(&c->request, &done, MPI_STATUS_IGNORE);
}

static void finish(Call* c) {
  const Form form = c->form;
  await(c);
  check(c);
  if (is_persistent(form)) {
    c->call += 1000000;
    fill(c);
#ifdef Alltoall_init
    MPI_Start(&c->request);
#else
    wrong += started(c) != MPI_SUCCESS;
#endif
    await(c);
    check(c);
#ifdef Alltoall_init
    MPI_Request_free(&c->request);
#endif
  }
  for (int side = SENT; side <= RECEIVED; ++side) {
    for (int p = 0; p < c->life->peers; ++p) {
      if (c->types[side][p] != MPI_BYTE) MPI_Type_free(&c->types[side][p]);
    }
    if (!c->borrowed) free(c->buffers[side]);
  }
  free(c->expected);
}

static void exchange(Life* life, Form form, int bytes) {
  Call c;
  begin(&c, life, form, bytes);
  finish(&c);
}

static Form form_of(const Life* life, int turn) {
  const Form form = (Form)(turn % kForms);
  if (!life->remote) return form;
  /* An intercommunicator has no calls in place, and this MPI may not make its calls persistent. */
  return is_in_place(form) ? (Form)(form - 1) : is_persistent(form) ? PENDING : form;
}

static void make_dup(Life* life, MPI_Comm of, unsigned id) {
  MPI_Comm comm;
  MPI_Comm_dup(of, &comm);
  *life = life_of(comm, id);
}

static void first(void) {
  Life world = life_of(MPI_COMM_WORLD, 1), second, half;
  MPI_Comm comm;
  exchange(&world, UNIFORM, 64);
  make_dup(&second, MPI_COMM_WORLD, 2);
  exchange(&second, UNIFORM, 64);
  MPI_Comm_split(MPI_COMM_WORLD, size < 4 ? 0 : rank % 2, size - rank, &comm);
  half = life_of(comm, 3U + (unsigned)(size < 4 ? 0 : rank % 2));
  exchange(&half, UNIFORM, 64);
  MPI_Comm_free(&comm);
  MPI_Comm_free(&second.comm);
}

/* A number that has no divisor in common with n, far from 1 and n. */
static int stride_of(int n) {
  int stride = n * 5 / 8 + 1;
  for (;; ++stride) {
    int a = n, b = stride;
    while (b != 0) {
      const int rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1) return stride;
  }
}

static void many_alive(void) {
  enum { kBytes = 16 };
  Life* const lives = room((size_t)number * sizeof *lives);
  Life world = life_of(MPI_COMM_WORLD, 0);
  const int stride = stride_of(number);
  for (int i = 0; i < number; ++i) make_dup(&lives[i], MPI_COMM_WORLD, 1U + (unsigned)i);
  for (int i = 0; i < number; ++i) exchange(&lives[(int)((long)i * stride % number)], UNIFORM, kBytes);
  exchange(&world, UNIFORM, kBytes);
  for (int i = number - 1; i >= 0; --i) {
    if (i % 3 != 0) exchange(&lives[i], UNIFORM, kBytes);
  }
  exchange(&world, UNIFORM, kBytes);
  for (int i = 0; i < number; ++i) {
    const int k = (int)(((long)i * stride + number / 3) % number);
    if (i % 16 == 0) exchange(&lives[k], UNIFORM, kBytes);
    MPI_Comm_free(&lives[k].comm);
  }
  exchange(&world, UNIFORM, kBytes);
  free(lives);
}

/* All ranks but one, of `comm`. */
static MPI_Group all_but(MPI_Comm comm, int one) {
  MPI_Group all, rest;
  MPI_Comm_group(comm, &all);
  MPI_Group_excl(all, 1, &one, &rest);
  MPI_Group_free(&all);
  return rest;
}

static void made_and_freed(void) {
  Life world = life_of(MPI_COMM_WORLD, 0);
  for (int i = 0; i < number; ++i) {
    const int out = i / 5 % size;
    unsigned id = 4U * (unsigned)i + 4;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    int color, periodic = i % 2;
    const int extent = size > 2 ? size - i % 2 : size;
    switch (i % 5) {
      case 0:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        break;
      case 1:
        color = i % 3 == 0 ? rank % 2 : i % 3 == 1 ? rank < size / 2 : 0;
        MPI_Comm_split(MPI_COMM_WORLD, color, i % 2 == 0 ? rank : size - rank, &comm);
        id += (unsigned)color;
        break;
      case 2:
        group = all_but(MPI_COMM_WORLD, out);
        if (size > 1 && rank != out) MPI_Comm_create_group(MPI_COMM_WORLD, group, i % 100, &comm);
        break;
      case 3:
        group = all_but(MPI_COMM_WORLD, out);
        MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
        break;
      default:
        MPI_Cart_create(MPI_COMM_WORLD, 1, &extent, &periodic, i % 4 == 0, &comm);
        break;
    }
    if (group != MPI_GROUP_NULL) MPI_Group_free(&group);
    if (comm != MPI_COMM_NULL) {
      Life life = life_of(comm, id);
      exchange(&life, UNIFORM, 16);
      exchange(&life, form_of(&life, i / 5), 16 + i % 50);
      exchange(&life, UNIFORM, 64);
      MPI_Comm_free(&comm);
    }
    if (i % 50 == 49) exchange(&world, UNIFORM, 16);
  }
}

/* A communicator is split into two again and again; what a rank is in is used together. */
static void one_tree(int turn) {
  static const int bytes[] = {16, 1, 700, 64, 5000, 0, 200, 20000};
  enum { kBytes = sizeof bytes / sizeof bytes[0] };
  Life levels[kMostLevels];
  Call pending[kMostLevels], lasting[kMostLevels];
  unsigned path = (unsigned)turn + 1;
  int depth = 0;
  make_dup(&levels[depth++], MPI_COMM_WORLD, path);
  while (levels[depth - 1].peers > 1 && depth < kMostLevels) {
    const Life* const above = &levels[depth - 1];
    const int color = (turn + depth) % 2 == 0 ? above->me % 2 : above->me < (above->peers + 1) / 2;
    MPI_Comm comm;
    if (turn == 2) exchange(&levels[depth - 1], UNIFORM, 16); /* used before it is split */
    MPI_Comm_split(above->comm, color, depth % 2 == 0 ? above->me : -above->me, &comm);
    path = path * 4 + 2 + (unsigned)color;
    levels[depth++] = life_of(comm, path);
  }
  for (int round = 0; round < kForms; ++round) { /* down, up and down again, in all forms */
    for (int i = 0; i < depth; ++i) {
      const int k = round % 2 == 0 ? i : depth - 1 - i;
      exchange(&levels[k], form_of(&levels[k], round + k + turn), bytes[(round + 3 * k) % kBytes]);
    }
  }
  for (int k = 0; k < depth; ++k)
    begin(&lasting[k], &levels[k], (Form)(PERSISTENT + k % 3), bytes[k % kBytes]);
  for (int round = 0; round < 4; ++round) { /* pending on all levels, while others are carried out */
    const int backwards = (rank + round) % 2;
    for (int i = 0; i < depth; ++i) {
      const int k = backwards ? depth - 1 - i : i;
      begin(&pending[k], &levels[k], (Form)(PENDING + (round + k) % 4), bytes[(round + k) % kBytes]);
    }
    for (int k = depth - 1; k >= 0; --k) exchange(&levels[k], UNIFORM, bytes[(round + k + 1) % kBytes]);
    for (int i = 0; i < depth; ++i) finish(&pending[backwards ? i : depth - 1 - i]);
  }
  for (int k = 0; k < depth; ++k) finish(&lasting[k]);
  for (int part = 0; part < 2; ++part) { /* every second level, then the others; upwards in odd turns */
    for (int i = 0; i < kMostLevels; ++i) {
      const int k = turn % 2 == 0 ? i : kMostLevels - 1 - i;
      if (k >= depth || k % 2 != part) continue;
      exchange(&levels[k], TYPED, 40);
      MPI_Comm_free(&levels[k].comm);
    }
  }
}

static void tree(void) {
  for (int turn = 0; turn < (number > 0 ? number : 4); ++turn) one_tree(turn);
}

/* Communicators of other members get what freed ones had, while nonblocking calls are pending on others. */
static void reused(void) {
  enum { kKept = 3 };
  const int turns = number > 0 ? number : 60;
  Life kept[kKept], all;
  Call pending[kKept], of_all;
  int waits[kKept] = {0}, all_waits = 0;
  make_dup(&all, MPI_COMM_WORLD, 1);
  for (int turn = 0; turn < turns + kKept; ++turn) {
    const int at = turn % kKept;
    const int members[] = {rank % 2 == 0, rank % 2 == 1, rank < (size + 1) / 2, rank != turn / 4 % size, 1};
    MPI_Comm comm = MPI_COMM_NULL;
    if (waits[at]) { /* what the oldest has pending */
      finish(&pending[at]);
      exchange(&kept[at], form_of(&kept[at], turn), 24);
      MPI_Comm_free(&kept[at].comm);
      waits[at] = 0;
    }
    if (all_waits && turn % 2 == 0) {
      finish(&of_all);
      all_waits = 0;
    }
    if (turn >= turns) continue;
    MPI_Comm_split(MPI_COMM_WORLD, members[turn % 5] ? 0 : MPI_UNDEFINED, turn % 3 == 0 ? -rank : rank,
                   &comm);
    if (turn % 2 == 0) {
      begin(&of_all, &all, (Form)(PENDING + turn / 2 % 4), 100 + turn);
      all_waits = 1;
    }
    if (comm == MPI_COMM_NULL) continue;
    kept[at] = life_of(comm, 2U + (unsigned)turn);
    if (turn % 4 != 3) { /* else the first call is a nonblocking one */
      exchange(&kept[at], UNIFORM, 16 + turn);
      exchange(&kept[at], form_of(&kept[at], turn + 1), 300);
    }
    begin(&pending[at], &kept[at], (Form)(PENDING + turn % 4), 40 + turn * 7);
    waits[at] = 1;
  }
  if (all_waits) finish(&of_all);
  exchange(&all, UNIFORM, 16);
  MPI_Comm_free(&all.comm);
}

static void inter(void) {
  if (size < 2) return;
  for (int turn = 0; turn < 6; ++turn) {
    const int side = turn % 3 == 0 ? rank % 2 : turn % 3 == 1 ? rank > 0 : rank == size - 1;
    const int other = turn % 3 == 0 ? 1 - side : turn % 3 == 1 ? 1 - side : side ? 0 : size - 1;
    const unsigned id = 16U * (unsigned)turn + 16;
    MPI_Comm half, between, merged, again;
    Life lives[4];
    Call pending[2];
    MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
    lives[0] = life_of(half, id + (unsigned)side);
    if (turn % 2 == 0) exchange(&lives[0], UNIFORM, 16);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other, 11, &between);
    lives[1] = life_of(between, id + 2);
    lives[1].mine = 32 * side, lives[1].theirs = 32 * (1 - side);
    MPI_Intercomm_merge(between, side == turn % 2, &merged);
    lives[2] = life_of(merged, id + 3);
    MPI_Comm_dup(between, &again);
    lives[3] = life_of(again, id + 4);
    lives[3].mine = 32 * side, lives[3].theirs = 32 * (1 - side);
    for (int round = 0; round < kForms; ++round) {
      begin(&pending[0], &lives[3], PENDING, 8 * round);
      begin(&pending[1], &lives[2], PENDING_RAGGED, 30 * round);
      for (int k = 0; k < 4; ++k) exchange(&lives[k], form_of(&lives[k], round + k), 16 + 50 * round);
      finish(&pending[rank % 2]);
      finish(&pending[1 - rank % 2]);
    }
    for (int k = 0; k < 4; ++k) {
      Life* const life = &lives[(k + turn) % 4];
      exchange(life, UNIFORM, 64);
      MPI_Comm_free(&life->comm);
    }
  }
}

/* A communicator of ranks first, first + step, ... of which this rank is one; nobody else takes part. */
static Life by_members(int from, int step, int count, int tag, unsigned id) {
  MPI_Group all, some;
  MPI_Comm comm;
  int range[1][3] = {{from, from + (count - 1) * step, step}};
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_range_incl(all, 1, range, &some);
  MPI_Comm_create_group(MPI_COMM_WORLD, some, tag, &comm);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  return life_of(comm, id);
}

static void used(Life* life, int calls, int turn) {
  for (int i = 0; i < calls; ++i) {
    if (i % 2 == 0)
      exchange(life, UNIFORM, 16 + 8 * turn);
    else
      exchange(life, form_of(life, turn + i), 100);
  }
}

static void group(void) {
  for (int turn = 0; turn < (number > 0 ? number : 12); ++turn) {
    const unsigned id = 64U * (unsigned)turn + 64;
    const int parity = rank % 2, out = turn % size;
    Life halves = by_members(parity, 2, (size + 1 - parity) / 2, turn, id + (unsigned)parity);
    used(&halves, 4, turn);
    for (int from = 0; from < 2; ++from) { /* pairs, of even and odd beginnings; the halves are alive */
      const int low = rank - (rank + from) % 2;
      if (low < 0 || low + 1 >= size) continue;
      Life pair = by_members(low, 1, 2, turn, id + 2 + (unsigned)low);
      used(&pair, 3, turn + from);
      MPI_Comm_free(&pair.comm);
    }
    used(&halves, 1, turn);
    if (turn % 2 == 0) MPI_Comm_free(&halves.comm);
    if (size > 1 && rank != out) {
      MPI_Group rest = all_but(MPI_COMM_WORLD, out);
      MPI_Comm comm;
      MPI_Comm_create_group(MPI_COMM_WORLD, rest, 100 + turn, &comm);
      MPI_Group_free(&rest);
      Life others = life_of(comm, id + 40);
      used(&others, 4, turn);
      MPI_Comm_free(&comm);
    }
    if (turn % 2 != 0) {
      used(&halves, 2, turn + 5);
      MPI_Comm_free(&halves.comm);
    }
    if (turn % 3 == 0) { /* of all, backwards */
      Life all = by_members(size - 1, -1, size, turn, id + 41);
      used(&all, 3, turn);
      MPI_Comm_free(&all.comm);
    }
  }
}

typedef struct {
  Life parent;
  int index;
} Thread;

static void* one_thread(void* argument) {
  Thread* const t = argument;
  const int rounds = number > 0 ? number : 12;
  for (int round = 0; round < rounds; ++round) {
    const int made = 1 + (round + t->index) % 3;
    Life lives[3];
    Call pending[3];
    for (int i = 0; i < made; ++i) {
      make_dup(&lives[i], t->parent.comm, (unsigned)(((t->index + 1) * 1000 + round) * 4 + i + 1));
      if ((round + i) % 2 == 0) exchange(&lives[i], UNIFORM, 16);
    }
    if (round % 3 == t->index % 3) exchange(&t->parent, UNIFORM, 64);
    for (int i = 0; i < made; ++i)
      begin(&pending[i], &lives[i], (Form)(PENDING + (round + i) % 4), 32 + round);
    for (int i = made - 1; i >= 0; --i) exchange(&lives[i], (Form)((round + i) % PENDING), 8 + 20 * t->index);
    for (int i = 0; i < made; ++i) finish(&pending[i]);
    for (int i = 0; i < made; ++i) {
      Life* const life = &lives[(i + t->index) % made];
      exchange(life, UNIFORM, 1000);
      MPI_Comm_free(&life->comm);
    }
  }
  return NULL;
}

static void threads(int provided) {
  Thread all[kThreads];
  pthread_t ids[kThreads];
  if (provided < MPI_THREAD_MULTIPLE) {
    if (rank == 0) printf("threads: skipped, this MPI is not for several\n");
    return;
  }
  for (int i = 0; i < kThreads; ++i) {
    make_dup(&all[i].parent, MPI_COMM_WORLD, (unsigned)i + 1);
    all[i].index = i;
  }
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&ids[i], NULL, one_thread, &all[i]) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(ids[i], NULL);
  for (int i = 0; i < kThreads; ++i) {
    exchange(&all[i].parent, UNIFORM, 16);
    MPI_Comm_free(&all[i].parent.comm);
  }
}

/* Not of the forms with which Open MPI 4.1 crashes by itself when the communicator is freed: in place, and
 * typed. */
static void freed_while_pending(void) {
  enum { kMade = 3 };
  Life world = life_of(MPI_COMM_WORLD, 1);
  for (int round = 0; round < (number > 0 ? number : 24); ++round) {
    Life lives[kMade], next;
    Call pending[kMade];
    for (int i = 0; i < kMade; ++i) make_dup(&lives[i], MPI_COMM_WORLD, (unsigned)(round * 4 + i + 4));
    if (round % 2 == 0) exchange(&lives[round % kMade], UNIFORM, 16); /* the others are never used before */
    for (int i = 0; i < kMade; ++i)
      begin(&pending[i], &lives[i], (round + i) % 2 == 0 ? PENDING : PENDING_RAGGED, 16 + 100 * round);
    for (int i = 0; i < kMade; ++i) MPI_Comm_free(&lives[(i + round) % kMade].comm);
    if (round % 3 != 0) exchange(&world, UNIFORM, 16);
    if (round % 3 == 1) { /* may get what they had, if somebody thinks that they are gone */
      make_dup(&next, MPI_COMM_WORLD, (unsigned)(round * 4 + 7));
      for (int i = 0; i < 3; ++i) exchange(&next, UNIFORM, 16 + 200 * i);
      MPI_Comm_free(&next.comm);
    }
    for (int i = 0; i < kMade; ++i) finish(&pending[(i + rank) % kMade]);
  }
}

static void late(void) {
  for (int round = 0; round < (size < 3 ? 2 : 3); ++round) {
    const int who = (round + size - 1) % size, is_late = rank == who;
    const int next = (who + 1) % size;
    const unsigned id = 16U * (unsigned)round + 16;
    MPI_Comm comm, halves;
    Life all[3], others, pair;
    Call pending;
    for (int i = 0; i < 3; ++i) make_dup(&all[i], MPI_COMM_WORLD, id + (unsigned)i);
    MPI_Comm_split(MPI_COMM_WORLD, is_late, rank, &comm);
    others = life_of(comm, id + 3 + (unsigned)is_late);
    MPI_Comm_split(MPI_COMM_WORLD, is_late || rank == next ? 0 : 1, rank, &halves);
    pair = life_of(halves, id + 5 + (unsigned)(is_late || rank == next));

    if (is_late) usleep(kLate); /* the others have made their first calls elsewhere by then, and wait here */
    exchange(&others, UNIFORM, 16);
    exchange(&all[0], UNIFORM, 16);
    exchange(&others, RAGGED, 80);

    if (is_late)
      usleep(kLate); /* the first call is a nonblocking one, pending while others are carried out */
    begin(&pending, &all[1], PENDING, 64);
    for (int i = 0; i < 5; ++i) exchange(&others, UNIFORM, 16 + i);
    finish(&pending);
    exchange(&all[1], UNIFORM, 16);

    if (is_late) usleep(kLate); /* its neighbour waits for it, the rest go on without both */
    exchange(&pair, UNIFORM, 16);
    exchange(&pair, TYPED, 160);
    exchange(&all[2], UNIFORM, 16);
    MPI_Comm_free(&halves);
    for (int i = 0; i < 3; ++i) MPI_Comm_free(&all[(i + round) % 3].comm);
    exchange(&others, UNIFORM, 16);
    MPI_Comm_free(&comm);
  }
}

static void sizes(void) {
  static const int bytes[] = {0, 1, 3, 7, 16, 63, 64, 65, 255, 512, 1000, 4096, 8191, 16384, 65536, 300000};
  enum { kSizes = sizeof bytes / sizeof bytes[0] };
  const size_t most = (size_t)bytes[kSizes - 1] * (size_t)size + kMostRanks * kHole + 64;
  unsigned char* buffers[4];
  Life life;
  make_dup(&life, MPI_COMM_WORLD, 1);
  for (int i = 0; i < 4; ++i) buffers[i] = room(most);
  for (int turn = 0; turn < 4; ++turn) { /* up, down, up and down at once, with calls of its size pending */
    for (int i = 0; i < kSizes; ++i) {
      const int up = bytes[i], down = bytes[kSizes - 1 - i];
      Call one, two;
      if (turn < 2) {
        begin_in(&one, &life, turn == 0 ? UNIFORM : UNIFORM_IN_PLACE, turn == 0 ? up : down, buffers[0],
                 buffers[1]);
        finish(&one);
        begin_in(&two, &life, RAGGED, turn == 0 ? up : down, buffers[1], buffers[0]);
        finish(&two);
      } else {
        begin_in(&one, &life, turn == 2 ? PENDING : PENDING_RAGGED, up, buffers[0], buffers[1]);
        begin_in(&two, &life, turn == 2 ? UNIFORM : RAGGED_IN_PLACE, down, buffers[2], buffers[3]);
        if (turn == 2) finish(&two);
        finish(&one);
        if (turn == 3) finish(&two);
        begin_in(&one, &life, PENDING_IN_PLACE, down, buffers[3], buffers[2]);
        finish(&one);
      }
    }
  }
  for (int i = 0; i < 4; ++i) free(buffers[i]);
  MPI_Comm_free(&life.comm);
}

static int ints[4][kMostRanks], negative[kMostRanks], zeros[kMostRanks];
static MPI_Datatype uncommitted, freed_type;
static MPI_Datatype types[kMostRanks], types_uncommitted[kMostRanks], types_null[kMostRanks];
static MPI_Request error_request;

/* Null buffers are right where nothing is sent; else plain MPI is ended by them. */
enum { kWrongCalls = 25 };
static const char* const wrong_names[kWrongCalls] = {
    "alltoall: uncommitted",        "alltoall: negative count",    "alltoall: negative recvcount",
    "alltoall: null type",          "alltoall: freed type",        "alltoall: recvbuf in place",
    "alltoall: null buffers",       "alltoallv: null buffers",     "alltoallv: uncommitted",
    "alltoallv: negative count",    "alltoallv: freed type",       "alltoallv: no counts",
    "alltoallv: no displs",         "alltoallv: recvbuf in place", "alltoallw: uncommitted",
    "alltoallw: negative count",    "alltoallw: null types",       "alltoallw: no types",
    "ialltoall: negative count",    "ialltoall: uncommitted",      "ialltoall: recvbuf in place",
    "ialltoallv: freed type",       "ialltoallv: no counts",       "ialltoallw: null types",
    "alltoall_init: negative count"};

static int wrong_call(int i, MPI_Comm comm) {
  int *s = ints[0], *r = ints[1], *one = ints[2], *at = ints[3], *none = NULL;
  MPI_Request* const q = &error_request;
  switch (i) {
    case 0:
      return MPI_Alltoall(s, 1, uncommitted, r, 1, uncommitted, comm);
    case 1:
      return MPI_Alltoall(s, -1, MPI_INT, r, -1, MPI_INT, comm);
    case 2:
      return MPI_Alltoall(s, 1, MPI_INT, r, -1, MPI_INT, comm);
    case 3:
      return MPI_Alltoall(s, 1, MPI_DATATYPE_NULL, r, 1, MPI_INT, comm);
    case 4:
      return MPI_Alltoall(s, 1, MPI_INT, r, 1, freed_type, comm);
    case 5:
      return MPI_Alltoall(s, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm);
    case 6:
      return MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm);
    case 7:
      return MPI_Alltoallv(NULL, zeros, at, MPI_INT, NULL, zeros, at, MPI_INT, comm);
    case 8:
      return MPI_Alltoallv(s, one, at, uncommitted, r, one, at, uncommitted, comm);
    case 9:
      return MPI_Alltoallv(s, negative, at, MPI_INT, r, negative, at, MPI_INT, comm);
    case 10:
      return MPI_Alltoallv(s, one, at, freed_type, r, one, at, freed_type, comm);
    case 11:
      return MPI_Alltoallv(s, none, at, MPI_INT, r, one, at, MPI_INT, comm);
    case 12:
      return MPI_Alltoallv(s, one, none, MPI_INT, r, one, none, MPI_INT, comm);
    case 13:
      return MPI_Alltoallv(s, one, at, MPI_INT, MPI_IN_PLACE, one, at, MPI_INT, comm);
    case 14:
      return MPI_Alltoallw(s, one, zeros, types_uncommitted, r, one, zeros, types_uncommitted, comm);
    case 15:
      return MPI_Alltoallw(s, negative, zeros, types, r, negative, zeros, types, comm);
    case 16:
      return MPI_Alltoallw(s, one, zeros, types_null, r, one, zeros, types_null, comm);
    case 17:
      return MPI_Alltoallw(s, one, zeros, NULL, r, one, zeros, NULL, comm);
    case 18:
      return MPI_Ialltoall(s, -1, MPI_INT, r, -1, MPI_INT, comm, q);
    case 19:
      return MPI_Ialltoall(s, 1, uncommitted, r, 1, uncommitted, comm, q);
    case 20:
      return MPI_Ialltoall(s, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm, q);
    case 21:
      return MPI_Ialltoallv(s, one, at, freed_type, r, one, at, freed_type, comm, q);
    case 22:
      return MPI_Ialltoallv(s, none, at, MPI_INT, r, one, at, MPI_INT, comm, q);
    case 23:
      return MPI_Ialltoallw(s, one, zeros, types_null, r, one, zeros, types_null, comm, q);
    default:
#ifdef Alltoall_init
      return Alltoall_init(s, -1, MPI_INT, r, -1, MPI_INT, comm, MPI_INFO_NULL, q);
#else
      return MPI_Ialltoall(s, -1, MPI_INT, r, -1, MPI_INT, comm, q);
#endif
  }
}

/* The class of what all ranks do wrong alike, of a communicator that made `good` calls before; it goes on. */
static int class_of(int i, int good) {
  Life life;
  int mine = 0, all[2];
  make_dup(&life, MPI_COMM_WORLD, (unsigned)(i * 32 + good + 1));
  MPI_Comm_set_errhandler(life.comm, MPI_ERRORS_RETURN);
  for (int k = 0; k < good; ++k) exchange(&life, form_of(&life, k), 16);
  for (int k = 0; k < 2; ++k) { /* twice: what was refused once is refused again */
    error_request = MPI_REQUEST_NULL;
    int class = 0;
    MPI_Error_class(wrong_call(i, life.comm), &class);
    if (k > 0 && class != mine) ++wrong;
    mine = class;
  }
  all[0] = mine, all[1] = -mine;
  MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_INT, MPI_MAX, life.comm);
  if (all[0] != -all[1]) ++wrong; /* ranks differ */
  exchange(&life, UNIFORM, 16);
  exchange(&life, RAGGED, 100);
  exchange(&life, UNIFORM, 16);
  MPI_Comm_free(&life.comm);
  return mine;
}

static void errors(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* some errors are MPI_COMM_WORLD's for MPI */
  MPI_Type_contiguous(1, MPI_INT, &uncommitted);
  MPI_Type_contiguous(1, MPI_INT, &freed_type);
  MPI_Type_commit(&freed_type);
  MPI_Type_free(&freed_type);
  for (int p = 0; p < kMostRanks; ++p) {
    negative[p] = -1;
    ints[2][p] = 1;
    ints[3][p] = p;
    types[p] = MPI_INT;
    types_uncommitted[p] = uncommitted;
    types_null[p] = MPI_DATATYPE_NULL;
  }
  for (int i = 0; i < kWrongCalls; ++i) {
    const int at_first = class_of(i, 0), later = class_of(i, 3), much_later = class_of(i, 14);
    if (rank == 0) printf("%-30s %d %d %d\n", wrong_names[i], at_first, later, much_later);
  }
  MPI_Type_free(&uncommitted);
}

static int run(const char* mode, int provided) {
  if (strcmp(mode, "first") == 0) return first(), 0;
  if (strcmp(mode, "many-alive") == 0) return many_alive(), 0;
  if (strcmp(mode, "made-and-freed") == 0) return made_and_freed(), 0;
  if (strcmp(mode, "tree") == 0) return tree(), 0;
  if (strcmp(mode, "reused") == 0) return reused(), 0;
  if (strcmp(mode, "inter") == 0) return inter(), 0;
  if (strcmp(mode, "group") == 0) return group(), 0;
  if (strcmp(mode, "threads") == 0) return threads(provided), 0;
  if (strcmp(mode, "freed-while-pending") == 0) return freed_while_pending(), 0;
  if (strcmp(mode, "late") == 0) return late(), 0;
  if (strcmp(mode, "sizes") == 0) return sizes(), 0;
  if (strcmp(mode, "errors") == 0) return errors(), 0;
  if (rank == 0) fprintf(stderr, "lives: unknown mode %s\n", mode);
  return 1;
}

int main(int argc, char** argv) {
  const int several = argc > 1 && strcmp(argv[1], "threads") == 0;
  const int counted =
      argc > 1 && (strcmp(argv[1], "many-alive") == 0 || strcmp(argv[1], "made-and-freed") == 0);
  int provided;
  long long mine[2], all[2];
  MPI_Init_thread(&argc, &argv, several ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  number = argc > 2 ? atoi(argv[2]) : 0;
  if (argc < 2 || size > kMostRanks || number < 0 || number > 1000000 || (counted && number == 0)) {
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (run(argv[1], provided) != 0) ++wrong;
  mine[0] = wrong;
  mine[1] = blocks;
  MPI_Allreduce(mine, all, 2, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%s: %lld wrong of %lld blocks\n", argv[1], all[0], all[1]);
  MPI_Finalize();
  return all[0] != 0;
}
