/* Allocations that others map (arena.cpp) as a model for SPIN, with the memory orders of C11 (clocks.pml): an owner allocates, shows
 * its memory in a round of the shared buffers, frees it when that is told to be read, and allocates again; the kernel gives the same
 * descriptor for it. The reader keeps its views, and drops them at some time after it has seen that they are freed.
 *
 * There is no order of its own that anything rests on: what the header says is handed over with the number of the round, and
 * that a view is freed only says that it may go (RELAXED_FREED: nothing is found).
 * Deliberate mistakes, which must be found: RELAXED_NUMBER_STORE, RELAXED_NUMBER_LOAD, HASTY_FREE (before it is read),
 * NO_SERIAL (a key is the descriptor alone).
 *
 * Accesses: what these do in the code, and the step here (tests/transport/model_orders compares them)
 *   arena.cpp  free   freed  store  release  STORE_FREED
 *   arena.cpp  stale  freed  load   acquire  SEEN_FREED
 */
#define RANKS 2
#define OWNER 0
#define READER 1
#define ROUNDS 3
#include "clocks.pml"

#ifdef NO_SERIAL
#define KEY(serial) 1
#else
#define KEY(serial) (serial)
#endif

#define FILES (ROUNDS + 1)
Bytes header[FILES], data[FILES];
byte key[FILES], content[FILES]; /* what they say */
bool freed[FILES];
Clock freed_clock[FILES];
byte descriptor; /* the file of the one descriptor */
byte number, told;
Clock number_clock, told_clock;

#ifdef RELAXED_NUMBER_STORE
#define STORE_NUMBER(round) store_relaxed(number, round)
#else
#define STORE_NUMBER(round) store_release(number, round, number_clock, OWNER)
#endif
#ifdef RELAXED_NUMBER_LOAD
#define SEEN_NUMBER skip
#else
#define SEEN_NUMBER take_over(number_clock, READER)
#endif
#ifdef RELAXED_FREED
#define STORE_FREED(file) store_relaxed(freed[file], true)
#else
#define STORE_FREED(file) store_release(freed[file], true, freed_clock[file], OWNER)
#endif
#ifdef RELAXED_FREED
#define SEEN_FREED(file) skip
#else
#define SEEN_FREED(file) take_over(freed_clock[file], READER)
#endif

active proctype Owner() {
  byte i;
  byte round = 1;
  now[OWNER].seen[OWNER] = 1;
  do
  :: round > ROUNDS -> break
  :: else ->
    descriptor = round;
    use_to_write(header[round], OWNER);
    key[round] = KEY(round);
    use_to_write(data[round], OWNER);
    content[round] = round;
    STORE_NUMBER(round);
#ifndef HASTY_FREE
    told == round;
    take_over(told_clock, OWNER);
#endif
    STORE_FREED(round);
    use_to_write(data[round], OWNER); /* the system takes it */
    content[round] = 0;
    descriptor = 0;
#ifdef HASTY_FREE
    told == round;
#endif
    round++
  od
}

active proctype Reader() {
  byte i, view;
  byte round = 1;
  now[READER].seen[READER] = 1;
  do
  :: round > ROUNDS -> break
  :: else ->
    number == round;
    SEEN_NUMBER;
    if
    :: view > 0 && freed[view] -> SEEN_FREED(view); view = 0
    :: true
    fi;
    if
    :: view > 0 && key[view] == KEY(round) -> skip
    :: else ->
      view = descriptor;
      use_to_read(header[view], READER, OWNER);
      assert(key[view] == KEY(round))
    fi;
    use_to_read(data[view], READER, OWNER);
    assert(content[view] == round);
    store_release(told, round, told_clock, READER);
    round++
  od
}
