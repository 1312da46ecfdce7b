#include "layout.h"

#include <string.h>

uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15U + b + 0xD1B54A32D192ED03U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}
int below(Random* random, int n) {
  random->state = mixed(random->state, 1);
  return (int)((random->state >> 33) % (uint64_t)n);
}
int once_in(Random* random, int n) {
  return below(random, n) == 0;
}
void* room(size_t count, size_t size) {
  void* memory = calloc(count > 0 ? count : 1, size);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return memory;
}

Signature random_signature(Random* random) {
  const MPI_Datatype types[] = {MPI_INT,       MPI_DOUBLE, MPI_CHAR,
                                MPI_SHORT,     MPI_FLOAT,  MPI_C_DOUBLE_COMPLEX,
                                MPI_LONG_LONG, MPI_BYTE,   MPI_INT};
  Signature s;
  memset(&s, 0, sizeof s);
  s.parts = once_in(random, 3) ? 2 + below(random, kMostParts - 1) : 1;
  for (int p = 0; p < s.parts; ++p) {
    s.types[p] = types[below(random, (int)(sizeof types / sizeof types[0]))];
    MPI_Type_size(s.types[p], &s.sizes[p]);
    s.bytes += s.sizes[p];
  }
  return s;
}

static long round_up(long bytes) {
  return (bytes + 7) / 8 * 8;
}

static void shuffle(Random* random, int* numbers, int n) {
  for (int i = n - 1; i > 0; --i) {
    const int j = below(random, i + 1);
    const int kept = numbers[i];
    numbers[i] = numbers[j];
    numbers[j] = kept;
  }
}

static void resize(Layout* layout, long lb, long extent) {
  MPI_Datatype type;
  MPI_Type_create_resized(layout->type, lb, extent, &type);
  MPI_Type_free(&layout->type);
  layout->type = type;
  layout->lb = lb;
  layout->extent = extent;
}

/* One unit: a basic type, or a structure with its members in any order and gaps between them. */
static Layout unit_layout(Random* random, const Signature* s) {
  int lengths[kMostParts] = {1, 1, 1}, order[kMostParts] = {0, 1, 2};
  MPI_Aint places[kMostParts];
  Layout l;
  memset(&l, 0, sizeof l);
  l.units = 1;
  l.elements = s->parts;
  l.at = room((size_t)s->parts, sizeof(long));
  if (s->parts == 1) {
    MPI_Type_dup(s->types[0], &l.type);
    l.extent = l.high = s->sizes[0];
    return l;
  }
  shuffle(random, order, s->parts);
  long cursor = l.low = -8L * below(random, 3);
  for (int i = 0; i < s->parts; ++i) {
    const int p = order[i];
    l.at[p] = places[p] = cursor;
    l.high = cursor + s->sizes[p];
    cursor = round_up(l.high) + 8L * below(random, 2);
  }
  MPI_Type_create_struct(s->parts, lengths, places, s->types, &l.type);
  resize(&l, l.low, round_up(l.high - l.low));
  return l;
}

static int divisor(Random* random, int n) {
  const int d = 1 + below(random, n < 8 ? n : 8);
  return n % d == 0 ? d : n;
}

/* Blocks of `length` children, one every `stride` children or bytes. Backwards not without gaps: Open MPI 4.1
 * takes that for forwards. */
static void make_vector(Random* random, const Layout* child, int m, long* place, MPI_Datatype* type) {
  const int length = divisor(random, m);
  const int sign = once_in(random, 3) ? -1 : 1;
  long step;
  if (once_in(random, 2)) {
    const int stride = sign * (length + below(random, 3) + (sign < 0 ? 1 : 0));
    step = stride * child->extent;
    MPI_Type_vector(m / length, length, stride, child->type, type);
  } else {
    step = sign * (round_up(length * child->extent) + 8L * (below(random, 3) + (sign < 0 ? 1 : 0)));
    MPI_Type_create_hvector(m / length, length, step, child->type, type);
  }
  for (int i = 0; i < m; ++i) place[i] = i / length * step + i % length * child->extent;
}

/* Blocks of random lengths in any order; as indexed, hindexed or structure. */
static void make_indexed(Random* random, const Layout* child, int m, long* place, MPI_Datatype* type) {
  enum { kMostBlocks = 6 };
  int lengths[kMostBlocks], order[kMostBlocks], index[kMostBlocks], blocks = 0;
  MPI_Aint bytes[kMostBlocks];
  MPI_Datatype types[kMostBlocks];
  for (int left = m; left > 0; ++blocks) {
    lengths[blocks] = blocks == kMostBlocks - 1 ? left : 1 + below(random, left);
    left -= lengths[blocks];
    order[blocks] = blocks;
  }
  shuffle(random, order, blocks);
  int cursor = -below(random, 5);
  for (int i = 0; i < blocks; ++i) {
    const int b = order[i];
    index[b] = cursor;
    bytes[b] = cursor * child->extent;
    types[b] = child->type;
    cursor += lengths[b] + below(random, 3);
  }
  for (int b = 0, i = 0; b < blocks; ++b) {
    for (int k = 0; k < lengths[b]; ++k) place[i++] = (index[b] + k) * child->extent;
  }
  switch (below(random, 3)) {
    case 0:
      MPI_Type_indexed(blocks, lengths, index, child->type, type);
      break;
    case 1:
      MPI_Type_create_hindexed(blocks, lengths, bytes, child->type, type);
      break;
    default:
      MPI_Type_create_struct(blocks, lengths, bytes, types, type);
      break;
  }
}

/* A part of an array of two dimensions, in C's or Fortran's order. */
static void make_subarray(Random* random, const Layout* child, int m, long* place, MPI_Datatype* type) {
  const int c = once_in(random, 2);
  int part[2], size[2], start[2];
  part[0] = divisor(random, m);
  part[1] = m / part[0];
  for (int d = 0; d < 2; ++d) {
    start[d] = below(random, 3);
    size[d] = start[d] + part[d] + below(random, 2);
  }
  MPI_Type_create_subarray(2, size, part, start, c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child->type, type);
  const int fast = c ? 1 : 0;
  for (int i = 0; i < m; ++i) {
    const long row = start[1 - fast] + i / part[fast];
    place[i] = (row * size[fast] + start[fast] + i % part[fast]) * child->extent;
  }
}

/* m children, of which the result takes possession. */
static Layout composed(Random* random, Layout child, int m, int slots) {
  Layout l;
  long* place = room((size_t)m, sizeof(long));
  int explicit_bounds = once_in(random, 2);
  memset(&l, 0, sizeof l);
  if (slots > 0) {
    MPI_Type_create_hvector(m, 1, slots * child.extent, child.type, &l.type);
    for (int i = 0; i < m; ++i) place[i] = i * slots * child.extent;
  } else {
    switch (below(random, 4)) {
      case 0:
        MPI_Type_contiguous(m, child.type, &l.type);
        for (int i = 0; i < m; ++i) place[i] = i * child.extent;
        break;
      case 1:
        make_vector(random, &child, m, place, &l.type);
        break;
      case 2:
        make_indexed(random, &child, m, place, &l.type);
        break;
      default:
        make_subarray(random, &child, m, place, &l.type);
        explicit_bounds = 1; /* MPI's are those of the whole array */
        break;
    }
  }
  l.units = m * child.units;
  l.elements = m * child.elements;
  l.at = room((size_t)l.elements, sizeof(long));
  l.low = place[0] + child.low;
  l.high = place[0] + child.high;
  long end = l.lb = place[0] + child.lb;
  for (int i = 0; i < m; ++i) {
    for (int k = 0; k < child.elements; ++k) l.at[i * child.elements + k] = place[i] + child.at[k];
    if (place[i] + child.low < l.low) l.low = place[i] + child.low;
    if (place[i] + child.high > l.high) l.high = place[i] + child.high;
    if (place[i] + child.lb < l.lb) l.lb = place[i] + child.lb;
    if (place[i] + child.lb > end) end = place[i] + child.lb;
  }
  l.extent = end + child.extent - l.lb;
  if (explicit_bounds) resize(&l, l.lb, l.extent);
  free(place);
  free_layout(&child);
  return l;
}

/* No elements: several of these are as good as none. */
static Layout empty_layout(const Signature* s) {
  Layout l;
  memset(&l, 0, sizeof l);
  MPI_Type_contiguous(0, s->types[0], &l.type);
  resize(&l, 0, 8);
  l.at = room(0, sizeof(long));
  return l;
}

Layout random_layout(Random* random, const Signature* signature, int units, int slots, int backwards) {
  Layout l;
  if (units == 0) {
    l = empty_layout(signature);
  } else {
    l = unit_layout(random, signature);
    if (slots > 0) {
      const long extent = l.extent, lb = l.lb;
      l = composed(random, l, units, slots);
      resize(&l, lb, extent);
    } else {
      const int inner = once_in(random, 2) ? divisor(random, units) : 1;
      if (inner > 1) l = composed(random, l, inner, 0);
      l = composed(random, l, units / inner, 0);
      if (!once_in(random, 3)) {
        const long extent = round_up(l.high - l.low) + 8L * below(random, 3);
        resize(&l, l.low - 8L * below(random, 3), backwards && once_in(random, 3) ? -extent : extent);
      }
    }
  }
  MPI_Type_commit(&l.type);
  return l;
}

Layout dense_layout(const Signature* signature, int units) {
  Layout l;
  if (units == 0) {
    l = empty_layout(signature);
  } else {
    memset(&l, 0, sizeof l);
    l.units = l.elements = units;
    l.extent = l.high = (long)units * signature->sizes[0];
    l.at = room((size_t)units, sizeof(long));
    for (int i = 0; i < units; ++i) l.at[i] = (long)i * signature->sizes[0];
    MPI_Type_contiguous(units, signature->types[0], &l.type);
  }
  MPI_Type_commit(&l.type);
  return l;
}

Layout basic_layout(const Signature* signature) {
  Layout l;
  memset(&l, 0, sizeof l);
  l.named = l.units = l.elements = 1;
  l.type = signature->types[0];
  l.extent = l.high = signature->sizes[0];
  l.at = room(1, sizeof(long));
  return l;
}

void move_to_address(Layout* layout, void* address) {
  const int length = 1;
  MPI_Aint place;
  MPI_Datatype moved;
  MPI_Get_address(address, &place);
  MPI_Type_create_hindexed(1, &length, &place, layout->type, &moved);
  MPI_Type_free(&layout->type);
  layout->type = moved;
  resize(layout, layout->lb + place, layout->extent);
  MPI_Type_commit(&layout->type);
}

void free_layout_type(Layout* layout) {
  if (!layout->named && layout->type != MPI_DATATYPE_NULL) MPI_Type_free(&layout->type);
}

void free_layout(Layout* layout) {
  free_layout_type(layout);
  free(layout->at);
}
