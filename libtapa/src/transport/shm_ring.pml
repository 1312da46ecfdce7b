/* The ring of shm_ring.cpp as a model for SPIN, with the memory orders of C11 (clocks.pml): one writer, one reader, messages of
 * a header and a body as ShmNode writes and reads them, bodies shorter and longer than the ring.
 *
 * A cell holds the number of its unit in the stream, so that what is read late, twice or in a wrong order is seen; clocks show
 * any overlap of writing and reading, whatever the processor reorders. Counters wrap: a few times in a run here, after 2^64
 * bytes there. Who looks at the other's counter may see an old value; that is one who looks earlier. How the two sleep
 * and wake each other: shm_node.pml.
 *
 * Deliberate mistakes, which must be found: RELAXED_WRITTEN_STORE, RELAXED_WRITTEN_LOAD, RELAXED_READ_STORE, RELAXED_READ_LOAD,
 * EARLY_WRITTEN (counted before it is written), EARLY_READ (counted before it is read), ONE_MORE (room for one cell more than there
 * are), NARROW_COUNTERS (which cannot tell a full ring from an empty one), UNEVEN_RING (its size is no divisor of the counters'
 * range).
 *
 * Accesses: what these do in the code, and the step here (tests/transport/model_orders compares them)
 *   shm_ring.hpp  writable   written  load   relaxed  own
 *   shm_ring.hpp  writable   read     load   acquire  LOAD_READ
 *   shm_ring.hpp  readable   written  load   acquire  LOAD_WRITTEN
 *   shm_ring.hpp  readable   read     load   relaxed  own
 *   shm_ring.cpp  write      written  load   relaxed  own
 *   shm_ring.cpp  write      written  store  release  STORE_WRITTEN
 *   shm_ring.cpp  write      written  load   relaxed  own
 *   shm_ring.cpp  write      written  store  release  STORE_WRITTEN
 *   shm_ring.cpp  read_some  read     load   relaxed  own
 *   shm_ring.cpp  read_some  read     store  release  STORE_READ
 *   shm_ring.cpp  read_some  read     load   relaxed  own
 *   shm_ring.cpp  read_some  read     store  release  STORE_READ
 */
#define RANKS 2
#define WRITER 0
#define READER 1
#include "clocks.pml"

#ifdef UNEVEN_RING
#define CELLS 3
#else
#define CELLS 4
#endif
#ifdef NARROW_COUNTERS
#define COUNTERS CELLS
#else
#define COUNTERS 8
#endif
#define HEADER 2
#define MESSAGES 5
/* Of the bodies: shorter and longer than the ring, and odd, so that a header is cut by its end. */
#define BODY(message) ((message) == 0 -> 3 : ((message) == 1 -> 0 : ((message) == 2 -> 9 : ((message) == 3 -> 1 : 4))))

byte written, read; /* counters in shared memory */
Clock written_clock, read_clock;
Bytes cell[CELLS];
byte unit[CELLS];

#define READABLE ((written + COUNTERS - own) % COUNTERS)
#ifdef ONE_MORE
#define WRITABLE (CELLS + 1 - (own + COUNTERS - read) % COUNTERS)
#else
#define WRITABLE (CELLS - (own + COUNTERS - read) % COUNTERS)
#endif

#ifdef RELAXED_WRITTEN_STORE
#define STORE_WRITTEN(value) store_relaxed(written, value)
#else
#define STORE_WRITTEN(value) store_release(written, value, written_clock, WRITER)
#endif
#ifdef RELAXED_WRITTEN_LOAD
#define LOAD_WRITTEN skip
#else
#define LOAD_WRITTEN take_over(written_clock, READER)
#endif
#ifdef RELAXED_READ_STORE
#define STORE_READ(value) store_relaxed(read, value)
#else
#define STORE_READ(value) store_release(read, value, read_clock, READER)
#endif
#ifdef RELAXED_READ_LOAD
#define LOAD_READ skip
#else
#define LOAD_READ take_over(read_clock, WRITER)
#endif

/* ShmRing::write: as much of `left` units as there is room for, which is at least `least`. */
inline write(left, least, count) {
  atomic { WRITABLE >= least && WRITABLE > 0 -> count = WRITABLE; LOAD_READ };
  count = (count < left -> count : left);
#ifdef EARLY_WRITTEN
  STORE_WRITTEN((own + count) % COUNTERS);
#endif
  at = 0;
  do
  :: at == count -> break
  :: else ->
    use_to_write(cell[(own + at) % COUNTERS % CELLS], WRITER);
    unit[(own + at) % COUNTERS % CELLS] = total;
    total++;
    at++
  od;
  own = (own + count) % COUNTERS;
#ifndef EARLY_WRITTEN
  STORE_WRITTEN(own)
#endif
}

/* ShmRing::read_some. */
inline read_some(left, least, count) {
  atomic { READABLE >= least && READABLE > 0 -> count = READABLE; LOAD_WRITTEN };
  count = (count < left -> count : left);
#ifdef EARLY_READ
  STORE_READ((own + count) % COUNTERS);
#endif
  at = 0;
  do
  :: at == count -> break
  :: else ->
    use_to_read(cell[(own + at) % COUNTERS % CELLS], READER, WRITER);
    assert(unit[(own + at) % COUNTERS % CELLS] == total);
    total++;
    at++
  od;
  own = (own + count) % COUNTERS;
#ifndef EARLY_READ
  STORE_READ(own)
#endif
}

active proctype Writer() {
  byte i, at, own, total, message, left, count;
  now[WRITER].seen[WRITER] = 1;
  do
  :: message == MESSAGES -> break
  :: else ->
    write(HEADER, HEADER, count);
    left = BODY(message);
    do
    :: left == 0 -> break
    :: else ->
      write(left, 1, count);
      left = left - count
    od;
    message++
  od
}

active proctype Reader() {
  byte i, at, own, total, message, left, count;
  now[READER].seen[READER] = 1;
  do
  :: message == MESSAGES -> break
  :: else ->
    read_some(HEADER, HEADER, count);
    left = BODY(message);
    do
    :: left == 0 -> break
    :: else ->
      read_some(left, 1, count);
      left = left - count
    od;
    message++
  od
}
