/* The slots of pair_slots.hpp as a model for SPIN, with the memory orders of C11 (clocks.pml): one writer, one reader, two slots
 * in turn, and the number of the last message that was taken, at which the writer looks when it knows of no free slot.
 *
 * A slot holds the number of its message, so that one which is read late, twice or half overwritten is seen; clocks show any overlap
 * of writing and reading, whatever the processor reorders. An old value of a word is one that is waited on.
 *
 * Deliberate mistakes, which must be found: RELAXED_SEND, RELAXED_ARRIVED, RELAXED_TAKE, RELAXED_ROOM, EARLY_SEND (told before it is
 * written), EARLY_TAKE (told before it is read), NO_ROOM (nobody waits until a slot is free), ONE_TOO_EARLY (the writer waits for
 * the other slot's message).
 *
 * Accesses: what these do in the code, and the step here (tests/transport/model_orders compares them)
 *   pair_slots.cpp  look_for_room  taken     load   acquire  SEEN_TAKEN
 *   pair_slots.hpp  send           sequence  store  release  STORE_SEQUENCE
 *   pair_slots.hpp  arrived        sequence  load   acquire  SEEN_SEQUENCE
 *   pair_slots.hpp  take           taken     store  release  STORE_TAKEN
 *   pair_slots.hpp  awaited        awaited_  load   relaxed  local
 *   pair_slots.hpp  await          awaited_  store  relaxed  local
 */
#define RANKS 2
#define WRITER 0
#define READER 1
#include "clocks.pml"

#define MESSAGES 5
#define SLOT(number) ((number) % 2)

byte sequence[2], taken;
Clock sequence_clock[2], taken_clock;
Bytes part[2];
byte held[2];

#ifdef RELAXED_SEND
#define STORE_SEQUENCE(slot, number) store_relaxed(sequence[slot], number)
#else
#define STORE_SEQUENCE(slot, number) store_release(sequence[slot], number, sequence_clock[slot], WRITER)
#endif
#ifdef RELAXED_ARRIVED
#define SEEN_SEQUENCE(slot) skip
#else
#define SEEN_SEQUENCE(slot) take_over(sequence_clock[slot], READER)
#endif
#ifdef RELAXED_TAKE
#define STORE_TAKEN(number) store_relaxed(taken, number)
#else
#define STORE_TAKEN(number) store_release(taken, number, taken_clock, READER)
#endif
#ifdef RELAXED_ROOM
#define SEEN_TAKEN skip
#else
#define SEEN_TAKEN take_over(taken_clock, WRITER)
#endif

#ifdef ONE_TOO_EARLY
#define FREE(known) (number <= known + 3)
#else
#define FREE(known) (number <= known + 2)
#endif

active proctype Writer() {
  byte i, number = 1, known = 0;
  now[WRITER].seen[WRITER] = 1;
  do
  :: number > MESSAGES -> break
  :: else ->
#ifndef NO_ROOM
    if
    :: FREE(known) -> skip
    :: else -> atomic { FREE(taken) -> known = taken; SEEN_TAKEN }
    fi;
#endif
#ifdef EARLY_SEND
    STORE_SEQUENCE(SLOT(number), number);
#endif
    use_to_write(part[SLOT(number)], WRITER);
    held[SLOT(number)] = number;
#ifndef EARLY_SEND
    STORE_SEQUENCE(SLOT(number), number);
#endif
    number++
  od
}

active proctype Reader() {
  byte i, number = 1;
  now[READER].seen[READER] = 1;
  do
  :: number > MESSAGES -> break
  :: else ->
    atomic { sequence[SLOT(number)] == number -> SEEN_SEQUENCE(SLOT(number)) };
#ifdef EARLY_TAKE
    STORE_TAKEN(number);
#endif
    use_to_read(part[SLOT(number)], READER, WRITER);
    assert(held[SLOT(number)] == number);
#ifndef EARLY_TAKE
    STORE_TAKEN(number);
#endif
    number++
  od
}
