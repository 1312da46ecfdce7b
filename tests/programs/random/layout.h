/* Random derived types, each with the places of its elements worked out beside MPI, for exchanges. */
#ifndef RANDOM_LAYOUT_H
#define RANDOM_LAYOUT_H
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint64_t state;
} Random;

/* A well mixed function of a and b; the same on every rank. */
uint64_t mixed(uint64_t a, uint64_t b);
/* From 0 to n - 1. */
int below(Random* random, int n);
/* True once in n times. */
int once_in(Random* random, int n);
/* Zeroed memory; ends the job when there is none. */
void* room(size_t count, size_t size);

enum { kMostParts = 3 };

/* What both ends of a block agree on: the block is a number of units, a unit one to three basic elements. */
typedef struct {
  int parts;
  MPI_Datatype types[kMostParts];
  int sizes[kMostParts];
  int bytes;
} Signature;

Signature random_signature(Random* random);

/* A type that holds some units: where each basic element lies, in bytes, in the order of the type map. */
typedef struct {
  MPI_Datatype type;
  int units;
  int named;    /* the type is one of MPI's own */
  int elements; /* basic ones: units * parts */
  long* at;     /* their places */
  long lb, extent;
  long low, high; /* of the bytes really used; 0, 0 when there are none */
} Layout;

/* slots > 0: items and blocks may interleave, as in a transpose, if their number in all is `slots`.
 * backwards: the extent may be negative. */
Layout random_layout(Random* random, const Signature* signature, int units, int slots, int backwards);
/* `units` units of one basic element each, one behind the other. */
Layout dense_layout(const Signature* signature, int units);
/* One unit of one basic element, as a type of MPI's own. */
Layout basic_layout(const Signature* signature);
/* The same from an absolute address on, for MPI_BOTTOM. */
void move_to_address(Layout* layout, void* address);
void free_layout_type(Layout* layout);
void free_layout(Layout* layout);

#ifdef __cplusplus
}
#endif
#endif
