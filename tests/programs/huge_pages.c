/* All-to-alls between buffers of huge pages (hugetlbfs and transparent ones, as far as the machine has them)
 * and of small ones, dense and with gaps, each again where other pages have come to the same addresses.
 * Prints how many elements are wrong. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kHuge = 2 << 20, kElements = 1 << 18, kMostRanks = 4 };
static const size_t kBytes = 2 * sizeof(int) * kElements * kMostRanks;

static int rank, size;

enum Kind { kSmall, kTransparent, kReserved, kKinds };

/* Pages of a kind at an address, in the place of what was there; small ones where there are no such. */
static int* map(void* at, enum Kind kind) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  void* memory = MAP_FAILED;
  if (kind == kReserved)
    memory = mmap(at, kBytes, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) memory = mmap(at, kBytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 2);
  if (kind != kReserved) madvise(memory, kBytes, kind == kSmall ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  return memory;
}

/* Addresses for a buffer that begins with a huge page. */
static void* reserve(void) {
  char* const all = mmap(NULL, kBytes + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 2);
  return all + (kHuge - (uintptr_t)all % kHuge) % kHuge;
}

static int value(int source, int destination, int i, int call) {
  return ((source * kMostRanks + destination) * 100 + call) * kElements + i;
}

/* Every `sstep`-th element is sent, every `rstep`-th received. */
static long exchange(int* send, int* recv, int sstep, int rstep, MPI_Datatype gaps, int call) {
  long wrong = 0;
  for (int d = 0; d < size; ++d)
    for (int i = 0; i < kElements; ++i) send[(d * kElements + i) * sstep] = value(rank, d, i, call);
  MPI_Alltoall(send, sstep > 1 ? 1 : kElements, sstep > 1 ? gaps : MPI_INT, recv, rstep > 1 ? 1 : kElements,
               rstep > 1 ? gaps : MPI_INT, MPI_COMM_WORLD);
  for (int s = 0; s < size; ++s)
    for (int i = 0; i < kElements; ++i) wrong += recv[(s * kElements + i) * rstep] != value(s, rank, i, call);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Datatype rows, gaps;
  MPI_Type_vector(kElements, 1, 2, MPI_INT, &rows);
  MPI_Type_create_resized(rows, 0, 2 * kElements * (MPI_Aint)sizeof(int), &gaps);
  MPI_Type_commit(&gaps);
  MPI_Type_free(&rows);
  void *const from = reserve(), *const to = reserve();
  long wrong = 0;
  int call = 0;
  for (int kinds = 0; kinds < kKinds * kKinds; ++kinds) {
    int* const send = map(from, kinds % kKinds);
    int* const recv = map(to, (kinds / kKinds + rank) % kKinds); /* not alike on all ranks */
    for (int steps = 0; steps < 4; ++steps)
      wrong += exchange(send, recv, 1 + steps % 2, 1 + steps / 2, gaps, call++);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("huge pages: %ld wrong\n", wrong);
  MPI_Type_free(&gaps);
  MPI_Finalize();
  return wrong != 0;
}
