/* One all-to-all with its buffers: derived types that differ between the two ends, negative extents,
 * MPI_IN_PLACE, MPI_BOTTOM, empty blocks. What must arrive is computed from (call, sender, receiver,
 * element), without MPI; gaps and send buffers must stay as they are. */
#ifndef RANDOM_EXCHANGE_H
#define RANDOM_EXCHANGE_H
#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MPI_Alltoall, v, w, or of neighbours. */
typedef enum { UNIFORM, RAGGED, TYPED } Kind;
/* BORDER: near sizes at which libraries divide the memory that ranks share. */
typedef enum { SMALL, MEDIUM, LONG, BORDER } Length;
typedef enum { BLOCKING, NONBLOCKING, PERSISTENT } Mode;

/* What the program says of a call; the rest is drawn. */
typedef struct {
  Kind kind;
  Mode mode;
  Length length;
  int in_place;
  int along;   /* the edges of a graph, which has one at most from each rank to each */
  int plain;   /* no derived types */
  int layouts; /* long blocks of blocking calls have derived types, too, which Open MPI 4.1 gets wrong */
} Wish;

/* What all ranks know about one call. */
typedef struct {
  Kind kind;
  Signature signature;
  uint64_t name;
  int granule, most, in_place, along;
  int border; /* blocks have about `most` units */
  int sparse; /* most blocks are empty */
  int dense;  /* no gaps within blocks: long ones with gaps are wrong in Open MPI, also between equal types */
  int basic;  /* only types of MPI's own */
  int backwards; /* extents may be negative, whatever the counts: Open MPI's nonblocking calls then lose
                    blocks */
  int empties;   /* how many types without elements are given for an empty block */
} Call;

/* One end of a call: n blocks in an arena. */
typedef struct {
  int n, layouts; /* one, or one for each block */
  int* peer;      /* number of the other rank of each block */
  Layout* layout;
  MPI_Datatype* types;
  int *counts, *displs;
  MPI_Aint* base; /* of each block, in bytes, from the origin */
  unsigned char* arena;
  size_t bytes;
  long origin;
  void* buffer;
} Side;

typedef struct {
  MPI_Comm comm;
  Call call;
  int own; /* number of this rank: two groups may be numbered apart */
  Side send, recv;
  uint64_t round; /* of the data */
} Exchange;

/* `name`: the same on all ranks that take part, and nowhere else. `draw`: the same on all ranks of the job.
 * `own`: of this rank. `second`: which group of an intercommunicator it is in. */
Exchange make_exchange(const Wish* wish, MPI_Comm comm, uint64_t name, int second, Random draw, Random* own);
/* Fresh buffers for the next round, whose number must be the same on all ranks. */
void fill_exchange(Exchange* e, uint64_t round);
/* How many bytes are not as they must be after the call: received ones, and those sent from. */
long long wrong_bytes(const Exchange* e);
/* Of all that was received, in the order of the elements. */
uint64_t checksum_of(const Exchange* e);
/* MPI's code. */
int call_blocking(const Exchange* e);
int call_nonblocking(const Exchange* e, MPI_Request* request);
int call_init(const Exchange* e, MPI_Request* request);
/* Whether this MPI has persistent all-to-alls. */
int has_persistent(void);
/* As programs may while a call is under way. */
void free_types(Exchange* e);
void free_exchange(Exchange* e);

#ifdef __cplusplus
}
#endif
#endif
