/* Wrong calls of every kind, and how MPI answers each: the class that is returned, which error handler is
 * told, and what; behind each a right call. On a new communicator, on one with right calls before, and by one
 * rank alone, which makes the right call then. Prints a line for each; knows nothing of libtapa. */
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
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMostRanks = 16, kRoom = 64 * kMostRanks };

static int rank, ranks, wrong;
static int in[kRoom], out[kRoom];
static int ones[kMostRanks], twos[kMostRanks], displs[kMostRanks];
static int negative[kMostRanks]; /* the last one */
static MPI_Datatype ints[kMostRanks], nulls[kMostRanks], raws[kMostRanks];
static MPI_Datatype raw; /* not committed */

/* How MPI tells. */
typedef enum { returned, told, jumped, kWays } Way;
static const char* const ways[kWays] = {"returned", "told", "jumped"};
static jmp_buf back;
static char by; /* whose handler was told: c: the communicator's, w: of MPI_COMM_WORLD, s: of MPI_COMM_SELF */
static int times, told_class;

static void note(char whose, int code) {
  by = whose;
  ++times;
  MPI_Error_class(code, &told_class);
}
#define HANDLERS(NAME, WHOSE)                          \
  static void tell_##NAME(MPI_Comm* c, int* e, ...) {  \
    (void)c;                                           \
    note(WHOSE, *e);                                   \
  }                                                    \
  static void leave_##NAME(MPI_Comm* c, int* e, ...) { \
    (void)c;                                           \
    note(WHOSE, *e);                                   \
    longjmp(back, 1);                                  \
  }
HANDLERS(comm, 'c')
HANDLERS(world, 'w')
HANDLERS(self, 's')

static void handle(MPI_Comm comm, Way way, MPI_Comm_errhandler_function* tell,
                   MPI_Comm_errhandler_function* leave) {
  MPI_Errhandler handler = MPI_ERRORS_RETURN;
  if (way != returned) MPI_Comm_create_errhandler(way == told ? tell : leave, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  if (way != returned) MPI_Errhandler_free(&handler);
}

/* FORM, with the arguments that all its calls share filled in. */
#define A(S, SN, ST, R, RN, RT) MPI_Alltoall(S, SN, ST, R, RN, RT, comm)
#define V(S, SN, SD, ST, R, RN, RD, RT) MPI_Alltoallv(S, SN, SD, ST, R, RN, RD, RT, comm)
#define W(S, SN, SD, ST, R, RN, RD, RT) MPI_Alltoallw(S, SN, SD, ST, R, RN, RD, RT, comm)
#define IA(S, SN, ST, R, RN, RT) MPI_Ialltoall(S, SN, ST, R, RN, RT, comm, request)
#define IV(S, SN, SD, ST, R, RN, RD, RT) MPI_Ialltoallv(S, SN, SD, ST, R, RN, RD, RT, comm, request)
#define IW(S, SN, SD, ST, R, RN, RD, RT) MPI_Ialltoallw(S, SN, SD, ST, R, RN, RD, RT, comm, request)
#define PA(S, SN, ST, R, RN, RT) Alltoall_init(S, SN, ST, R, RN, RT, comm, MPI_INFO_NULL, request)
#define PV(S, SN, SD, ST, R, RN, RD, RT) \
  Alltoallv_init(S, SN, SD, ST, R, RN, RD, RT, comm, MPI_INFO_NULL, request)
#define PW(S, SN, SD, ST, R, RN, RD, RT) \
  Alltoallw_init(S, SN, SD, ST, R, RN, RD, RT, comm, MPI_INFO_NULL, request)

/* X(name, call) */
#define UNIFORM(X, N, F)                                                                 \
  X(N " sendcount -1", F(out, -1, MPI_INT, in, 1, MPI_INT))                              \
  X(N " recvcount -1", F(out, 1, MPI_INT, in, -1, MPI_INT))                              \
  X(N " both counts -1", F(out, -1, MPI_INT, in, -1, MPI_INT))                           \
  X(N " sendtype null", F(out, 1, MPI_DATATYPE_NULL, in, 1, MPI_INT))                    \
  X(N " recvtype null", F(out, 1, MPI_INT, in, 1, MPI_DATATYPE_NULL))                    \
  X(N " null type, no elements", F(out, 0, MPI_DATATYPE_NULL, in, 0, MPI_INT))           \
  X(N " null type, count -1", F(out, -1, MPI_DATATYPE_NULL, in, -1, MPI_INT))            \
  X(N " sendtype not committed", F(out, 1, raw, in, 2, MPI_INT))                         \
  X(N " recvtype not committed", F(out, 2, MPI_INT, in, 1, raw))                         \
  X(N " not committed, no elements", F(out, 0, raw, in, 0, raw))                         \
  X(N " recvbuf in place", F(out, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT))                 \
  X(N " both in place", F(MPI_IN_PLACE, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT))           \
  X(N " in place, recvcount -1", F(MPI_IN_PLACE, 0, MPI_INT, in, -1, MPI_INT))           \
  X(N " in place, recvtype null", F(MPI_IN_PLACE, 0, MPI_INT, in, 1, MPI_DATATYPE_NULL)) \
  X(N " in place, not committed", F(MPI_IN_PLACE, 0, MPI_INT, in, 1, raw))
#define UNIFORM_SIZES(X, N, F)                              \
  X(N " sends more", F(out, 2, MPI_INT, in, 1, MPI_INT))    \
  X(N " sends less", F(out, 1, MPI_INT, in, 2, MPI_INT))    \
  X(N " sends nothing", F(out, 0, MPI_INT, in, 1, MPI_INT)) \
  X(N " receives nothing", F(out, 1, MPI_INT, in, 0, MPI_INT))
#define RAGGED(X, N, F, INT, NONE, RAW)                                                         \
  X(N " no sendcounts", F(out, NULL, displs, INT, in, ones, displs, INT))                       \
  X(N " no recvcounts", F(out, ones, displs, INT, in, NULL, displs, INT))                       \
  X(N " no sdispls", F(out, ones, NULL, INT, in, ones, displs, INT))                            \
  X(N " no rdispls", F(out, ones, displs, INT, in, ones, NULL, INT))                            \
  X(N " a sendcount -1", F(out, negative, displs, INT, in, ones, displs, INT))                  \
  X(N " a recvcount -1", F(out, ones, displs, INT, in, negative, displs, INT))                  \
  X(N " sendtype null", F(out, ones, displs, NONE, in, ones, displs, INT))                      \
  X(N " recvtype null", F(out, ones, displs, INT, in, ones, displs, NONE))                      \
  X(N " null type and count -1", F(out, negative, displs, NONE, in, negative, displs, INT))     \
  X(N " sendtype not committed", F(out, ones, displs, RAW, in, twos, displs, INT))              \
  X(N " recvtype not committed", F(out, twos, displs, INT, in, ones, displs, RAW))              \
  X(N " recvbuf in place", F(out, ones, displs, INT, MPI_IN_PLACE, ones, displs, INT))          \
  X(N " in place, no recvcounts", F(MPI_IN_PLACE, NULL, NULL, INT, in, NULL, displs, INT))      \
  X(N " in place, no rdispls", F(MPI_IN_PLACE, NULL, NULL, INT, in, ones, NULL, INT))           \
  X(N " in place, a recvcount -1", F(MPI_IN_PLACE, NULL, NULL, INT, in, negative, displs, INT)) \
  X(N " in place, recvtype null", F(MPI_IN_PLACE, NULL, NULL, INT, in, ones, displs, NONE))     \
  X(N " in place, not committed", F(MPI_IN_PLACE, NULL, NULL, INT, in, ones, displs, RAW))
#define TYPED(X, N, F)                                                     \
  X(N " no sendtypes", F(out, ones, displs, NULL, in, ones, displs, ints)) \
  X(N " no recvtypes", F(out, ones, displs, ints, in, ones, displs, NULL)) \
  X(N " in place, no recvtypes", F(MPI_IN_PLACE, NULL, NULL, NULL, in, ones, displs, NULL))
#define RAGGED_SIZES(X, N, F, INT)                                     \
  X(N " sends more", F(out, twos, displs, INT, in, ones, displs, INT)) \
  X(N " sends less", F(out, ones, displs, INT, in, twos, displs, INT))
#define ALL_UNIFORM(X, N, F) UNIFORM(X, N, F) UNIFORM_SIZES(X, N, F)
#define ALL_V(X, N, F) RAGGED(X, N, F, MPI_INT, MPI_DATATYPE_NULL, raw) RAGGED_SIZES(X, N, F, MPI_INT)
#define ALL_W(X, N, F) RAGGED(X, N, F, ints, nulls, raws) RAGGED_SIZES(X, N, F, ints) TYPED(X, N, F)
#define BLOCKING(X) ALL_UNIFORM(X, "Alltoall:", A) ALL_V(X, "Alltoallv:", V) ALL_W(X, "Alltoallw:", W)
#define NONBLOCKING(X) \
  ALL_UNIFORM(X, "Ialltoall:", IA) ALL_V(X, "Ialltoallv:", IV) ALL_W(X, "Ialltoallw:", IW)
#ifdef Alltoall_init
#define PERSISTENT(X) \
  ALL_UNIFORM(X, "Alltoall_init:", PA) ALL_V(X, "Alltoallv_init:", PV) ALL_W(X, "Alltoallw_init:", PW)
#else
#define PERSISTENT(X)
#endif

#define NAME(NAME, CALL) NAME,
static const char* const names[] = {BLOCKING(NAME) NONBLOCKING(NAME) PERSISTENT(NAME)};
enum { kMistakes = sizeof names / sizeof *names };

static int call(int which, MPI_Comm comm, MPI_Request* request) {
  int at = 0;
#define CALL(NAME, CALL) \
  if (which == at++) return CALL;
  BLOCKING(CALL)
  NONBLOCKING(CALL)
  PERSISTENT(CALL)
  return MPI_SUCCESS;
}

/* What was told: by rank 0, but of one rank's mistakes by that one. */
static char lines[kMistakes][400];
static void print(int which) {
  char last[400];
  MPI_Status status;
  if (rank == ranks - 1 && ranks > 1) MPI_Send(lines[which], 400, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
  if (rank != 0) return;
  last[0] = 0;
  if (ranks > 1) MPI_Recv(last, 400, MPI_CHAR, ranks - 1, 1, MPI_COMM_WORLD, &status);
  printf("%s%s%s\n", names[which], lines[which], last);
  fflush(stdout);
}

static int value(int from, int to, int i) {
  return from * 100 + to * 10 + i % 7;
}

/* Right calls, whose data is checked. */
static void right(MPI_Comm comm, int calls) {
  int mine[2 * kMostRanks], theirs[2 * kMostRanks];
  for (int i = 0; i < calls; ++i) {
    MPI_Request request = MPI_REQUEST_NULL;
    for (int r = 0; r < ranks; ++r) {
      mine[r] = value(rank, r, i);
      theirs[r] = -1;
    }
    if (i % 3 == 0) MPI_Alltoall(mine, 1, MPI_INT, theirs, 1, MPI_INT, comm);
    if (i % 3 == 1) MPI_Alltoallv(mine, ones, displs, MPI_INT, theirs, ones, displs, MPI_INT, comm);
    if (i % 3 == 2) MPI_Ialltoall(mine, 1, MPI_INT, theirs, 1, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < ranks; ++r) wrong += theirs[r] != value(r, rank, i);
  }
}

/* Makes a mistake, and completes what passes. Returns the class. */
static int make(int which, MPI_Comm comm) {
  static MPI_Request request;
  static int code, class;
  request = MPI_REQUEST_NULL;
  class = MPI_SUCCESS;
  by = '-';
  times = told_class = 0;
  if (setjmp(back) != 0) return -1;
  code = call(which, comm, &request);
  if (code == MPI_SUCCESS && request != MPI_REQUEST_NULL) {
    if (strstr(names[which], "_init") != NULL) {
      MPI_Request_free(&request);
    } else {
      code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  MPI_Error_class(code, &class);
  return class;
}

/* A type that is not committed has the handle of one that was, and was used. */
static void reused_handle(MPI_Comm comm) {
  MPI_Datatype before[8], again = MPI_DATATYPE_NULL;
  int same = 0, class = 0, code;
  handle(comm, returned, NULL, NULL);
  for (int i = 0; i < 8; ++i) {
    MPI_Type_contiguous(2, MPI_INT, &before[i]);
    MPI_Type_commit(&before[i]);
  }
  for (int i = 0; i < 3; ++i) MPI_Alltoall(out, 1, before[0], in, 1, before[0], comm);
  MPI_Datatype old = before[0];
  for (int i = 0; i < 8; ++i) MPI_Type_free(&before[i]);
  for (int i = 0; i < 8 && !same; ++i) {
    MPI_Type_contiguous(2, MPI_INT, &again);
    same = again == old;
  }
  code = MPI_Alltoall(out, 1, again, in, 1, again, comm);
  MPI_Error_class(code, &class);
  if (rank == 0)
    printf("a handle again: %d\n", class); /* or another: a sanitizer's allocator keeps what is freed */
  right(comm, 1);
}

#ifdef OPEN_MPI
/* A nonblocking call cannot be cancelled. The others begin behind that: one that is over already is another
 * case. */
static void cancelled(MPI_Comm comm) {
  MPI_Request request;
  int class = 0, code = MPI_SUCCESS;
  handle(MPI_COMM_WORLD, returned, NULL, NULL);
  if (rank != 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm, &request);
  if (rank == 0) {
    code = MPI_Cancel(&request);
    MPI_Error_class(code, &class);
    printf("cancelled: %d\n", class);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
#endif

/* On no communicator, or on one of one rank, which is not to have MPI compare what ranks count for. */
static void mistake_alone(int which, const char* where, MPI_Comm comm, Way way) {
  handle(MPI_COMM_WORLD, way, tell_world, leave_world);
  handle(MPI_COMM_SELF, way, tell_self, leave_self);
  if (comm != MPI_COMM_NULL) handle(comm, way, tell_comm, leave_comm);
  const int class = make(which, comm);
  if (rank == 0)
    sprintf(lines[which] + strlen(lines[which]), "; %s, %s: %d, %c told %d of %d", ways[way], where, class,
            by, times, told_class);
}

/* Of all ranks, or of the last one alone, while the others make the right call already. */
static void mistake(int which, const char* where, MPI_Comm comm, Way way, int by_all) {
  handle(MPI_COMM_WORLD, way, tell_world, leave_world);
  handle(MPI_COMM_SELF, way, tell_self, leave_self);
  handle(comm, way, tell_comm, leave_comm);
  if (by_all || rank == ranks - 1) {
    const int class = make(which, comm);
    if (rank == (by_all ? 0 : ranks - 1))
      sprintf(lines[which] + strlen(lines[which]), "; %s%s: %d, %c told %d of %d", where,
              by_all ? "" : " by one", class, by, times, told_class);
  }
  right(comm, 3);
}

int main(int argc, char** argv) {
  MPI_Comm old, alone;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Type_contiguous(2, MPI_INT, &raw);
  for (int r = 0; r < ranks; ++r) {
    ones[r] = negative[r] = 1;
    twos[r] = 2;
    displs[r] = r;
    ints[r] = nulls[r] = MPI_INT;
    raws[r] = raw;
  }
  negative[ranks - 1] = -1;
  nulls[ranks - 1] = MPI_DATATYPE_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &old);
  MPI_Comm_dup(MPI_COMM_SELF, &alone);
  right(old, 12);
  for (int which = 0; which < kMistakes; ++which) {
    const Way way = which % kWays;
    const int compared =
        strstr(names[which], " sends ") != NULL || strstr(names[which], " receives ") != NULL;
    MPI_Comm new[2];
    for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &new[i]);
    mistake_alone(which, "null", MPI_COMM_NULL, way);
    mistake_alone(which, "self", alone, way);
    mistake(which, "new", new[0], way, 1);
    mistake(which, "ready", old, way, 1);
    /* Other ranks may see sizes first. */
    if (!compared) mistake(which, "new", new[1], way, 0);
    if (!compared) mistake(which, "ready", old, way, 0);
    for (int i = 0; i < 2; ++i) MPI_Comm_free(&new[i]);
    print(which);
  }
  reused_handle(old);
#ifdef OPEN_MPI
  cancelled(old);
#endif
  MPI_Comm_free(&alone);
  MPI_Comm_free(&old);
  MPI_Type_free(&raw);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("mistakes: %d wrong\n", wrong);
  MPI_Finalize();
  return wrong != 0;
}
