/* The memory orders of shm_buffers.cpp and Doorbell as models for SPIN, for processors that reorder.
 *
 * Clocks (clocks.pml) tell what happens before what, for every order of steps; steps from one word to the next are one, as
 * clocks tell who is late whatever the order. Words are written by one rank each and only grow, and their readers wait for a
 * value: an old value, which weak memory may show for a while, is one that is waited on.
 *
 * As it is: rounds in buffers. STAY: blocks in their senders' memory; TOGETHER: readers tell all owners at once. PIECES: those
 * that a reader asks for. SHARED: a block that both ends move (shared_block.hpp). BELL: falling asleep, with the stores of each side
 * held back as long as C11 allows (shm_node.pml has the whole of it). Words that ranks agree on (comm/shared_words.hpp) are rounds whose
 * blocks are the words themselves.
 * Deliberate mistakes, which must be found: RELAXED_NUMBER_STORE, RELAXED_NUMBER_LOAD, RELAXED_TOLD_STORE, RELAXED_TOLD_LOAD,
 * RELAXED_ASK_STORE, RELAXED_ASK_LOAD, RELAXED_GIVE_STORE, RELAXED_GIVE_LOAD, NO_FENCE_RINGING, NO_FENCE_SLEEPING;
 * SHARED: RELAXED_OFFER, RELAXED_TAKE, RELAXED_MOVED_ADD, RELAXED_MOVED_LOAD, LATE_RESET, HASTY_READER, NO_CLOSE (a reader that
 * the kernel refuses counts what is taken, and lets its sender take more).
 *
 * Accesses: what these do in the code, and the step here (tests/transport/model_orders compares them)
 *   shared_block.hpp  offer             moved_        store                  relaxed          LEAVE_OFFER
 *   shared_block.hpp  offer             address_      store                  relaxed          LEAVE_OFFER
 *   shared_block.hpp  offer             next_         store                  release          LEAVE_OFFER
 *   shared_block.hpp  take              next_         load                   acquire          SEEN_OFFER
 *   shared_block.hpp  take              next_         compare_exchange_weak  acq_rel/acquire  SEEN_OFFER
 *   shared_block.hpp  close             next_         exchange               acq_rel          free
 *   shared_block.hpp  address           address_      load                   relaxed          again
 *   shared_block.hpp  tell_moved        moved_        fetch_add              release          LEAVE_MOVED
 *   shared_block.hpp  moved             moved_        load                   acquire          SEEN_MOVED
 *   shared_block.hpp  failed            moved_        load                   relaxed          again
 *   shm_buffers.hpp   always_stays      attach_from_  load                   relaxed          local
 *   shm_buffers.hpp   stop_push         pushes_       store                  relaxed          local
 *   shm_buffers.hpp   may_push          pushes_       load                   relaxed          local
 *   shm_buffers.hpp   stop_attach       attach_from_  store                  relaxed          local
 *   shm_buffers.hpp   claim             claimed_      exchange               acquire          local
 *   shm_buffers.hpp   release           claimed_      store                  release          local
 *   shm_buffers.hpp   expects_sleepers  sleepers_     load                   relaxed          local
 *   shm_buffers.cpp   let_stay          attach_from_  store                  relaxed          local
 *   shm_buffers.cpp   stays             attach_from_  load                   relaxed          local
 *   shm_buffers.cpp   tell_read         read          store                  release          STORE_TOLD
 *   shm_buffers.cpp   tell_all_read     read          store                  release          STORE_TOLD
 *   shm_buffers.cpp   was_read          read          load                   acquire          SEEN_TOLD
 *   shm_buffers.cpp   was_read          read          load                   acquire          SEEN_TOLD
 *   shm_buffers.cpp   ask               asked         load                   relaxed          own
 *   shm_buffers.cpp   ask               asked         store                  release          STORE_ASK
 *   shm_buffers.cpp   given             given         load                   acquire          SEEN_GIVE
 *   shm_buffers.cpp   given             asked         load                   relaxed          own
 *   shm_buffers.cpp   asked             asked         load                   acquire          SEEN_ASK
 *   shm_buffers.cpp   asked             given         load                   relaxed          own
 *   shm_buffers.cpp   give              given         store                  release          STORE_GIVE
 *   shm_buffers.cpp   give              asked         load                   relaxed          again
 *   shm_buffers.cpp   publish           sequence      store                  release          STORE_NUMBER
 *   shm_read.cpp      read_round        sequence      load                   acquire          SEEN_NUMBER
 *   shared_words.hpp  common_bits       word_of       store                  release          STORE_NUMBER
 *   shared_words.hpp  common_bits       word_of       load                   acquire          SEEN_NUMBER
 */
#if defined(PIECES) || defined(SHARED)
#define RANKS 2
#else
#define RANKS 3
#endif
#ifdef STAY
#define ROUNDS 3 /* each buffer and word is used again; four take 20 times as long */
#else
#define ROUNDS 4
#endif
#define PIECES_ASKED 3

#include "clocks.pml"

inline start_clocks() {
  d_step {
    for (i : 0 .. RANKS - 1) { now[i].seen[i] = 1 }
  }
}

#ifdef RELAXED_NUMBER_STORE
#define STORE_NUMBER(word, value, clock, me) store_relaxed(word, value)
#else
#define STORE_NUMBER(word, value, clock, me) store_release(word, value, clock, me)
#endif
#ifdef RELAXED_NUMBER_LOAD
#define SEEN_NUMBER(clock, me) skip
#else
#define SEEN_NUMBER(clock, me) take_over(clock, me)
#endif
#ifdef RELAXED_TOLD_STORE
#define STORE_TOLD(word, value, clock, me) store_relaxed(word, value)
#else
#define STORE_TOLD(word, value, clock, me) store_release(word, value, clock, me)
#endif
#ifdef RELAXED_TOLD_LOAD
#define SEEN_TOLD(clock, me) skip
#else
#define SEEN_TOLD(clock, me) take_over(clock, me)
#endif
#ifdef RELAXED_ASK_STORE
#define STORE_ASK(word, value, clock, me) store_relaxed(word, value)
#else
#define STORE_ASK(word, value, clock, me) store_release(word, value, clock, me)
#endif
#ifdef RELAXED_ASK_LOAD
#define SEEN_ASK(clock, me) skip
#else
#define SEEN_ASK(clock, me) take_over(clock, me)
#endif
#ifdef RELAXED_GIVE_STORE
#define STORE_GIVE(word, value, clock, me) store_relaxed(word, value)
#else
#define STORE_GIVE(word, value, clock, me) store_release(word, value, clock, me)
#endif
#ifdef RELAXED_GIVE_LOAD
#define SEEN_GIVE(clock, me) skip
#else
#define SEEN_GIVE(clock, me) take_over(clock, me)
#endif

#if defined(BELL)

/* One sleeper, one that changes a word and rings. Stores stand in a queue of their own side until it passes them on, which it may
 * do at any time and does at a fence. */
bool word, word_waits, sleeping, sleeping_waits;
byte rings;
bool asleep;

active proctype Ringer() {
  word_waits = true;
#ifndef NO_FENCE_RINGING
  word = true; word_waits = false;
#endif
  if
  :: !sleeping -> skip
  :: sleeping -> rings++; asleep = false
  fi
}

active proctype Sleeper() {
  byte seen;
  do
  :: word -> break
  :: else ->
    seen = rings;
    sleeping_waits = true;
#ifndef NO_FENCE_SLEEPING
    sleeping = true; sleeping_waits = false;
#endif
    if
    :: word -> skip
    :: else ->
      atomic { /* the futex compares and sleeps in one */
        if
        :: rings == seen -> asleep = true
        :: else
        fi
      }
      !asleep
    fi;
    sleeping_waits = false; sleeping = false
  od
}

active proctype Memory() {
end:
  do
  :: atomic { word_waits -> word = true; word_waits = false }
  :: atomic { sleeping_waits -> sleeping = true; sleeping_waits = false }
  od
}

#elif defined(PIECES)

byte asked, given;
Clock asked_clock, given_clock;
Bytes piece;

active proctype Reader() { /* 0 */
  byte i;
  byte count = 0;
  now[0].seen[0] = 1;
  do
  :: count == PIECES_ASKED -> break
  :: else ->
    count++;
    STORE_ASK(asked, count, asked_clock, 0);
    given == count;
    SEEN_GIVE(given_clock, 0);
    use_to_read(piece, 0, 1)
  od
}

active proctype Owner() { /* 1 */
  byte i;
  byte count = 0;
  now[1].seen[1] = 1;
  do
  :: count == PIECES_ASKED -> break
  :: else ->
    asked > count;
    SEEN_ASK(asked_clock, 1);
    use_to_write(piece, 1);
    count++;
    STORE_GIVE(given, count, given_clock, 1)
  od
}

#elif defined(SHARED)

/* Bytes that both may write. */
typedef Moved { byte written; byte writer; byte read[RANKS] };

inline write_there(bytes, me) {
  d_step {
    for (i : 0 .. RANKS - 1) { assert(bytes.read[i] <= now[me].seen[i]) }
    assert(bytes.written <= now[me].seen[bytes.writer]);
    bytes.written = now[me].seen[me];
    bytes.writer = me;
    i = 0
  }
}

inline read_there(bytes, me) {
  d_step {
    assert(bytes.written > 0 && bytes.written <= now[me].seen[bytes.writer]);
    bytes.read[me] = now[me].seen[me]
  }
}

/* Adding goes on with what earlier releases have left with the word. */
inline add_release(clock, me) {
  d_step {
    for (i : 0 .. RANKS - 1) {
      if
      :: now[me].seen[i] > clock.seen[i] -> clock.seen[i] = now[me].seen[i]
      :: else
      fi
    }
    now[me].seen[me]++;
    i = 0
  }
}

#define PARTS 2
#define CLOSED (PARTS + 1)
byte number, told;              /* the sender shows its block; the reader has it */
byte next_round, next, moved;   /* of SharedBlock */
Clock number_clock, told_clock, next_clock, moved_clock;
Moved address, source[PARTS], target[PARTS];

#ifdef RELAXED_OFFER
#define LEAVE_OFFER(me) skip
#else
#define LEAVE_OFFER(me) add_release(next_clock, me)
#endif
#ifdef RELAXED_TAKE
#define SEEN_OFFER(me) skip
#else
#define SEEN_OFFER(me) take_over(next_clock, me)
#endif
#ifdef RELAXED_MOVED_ADD
#define LEAVE_MOVED(me) skip
#else
#define LEAVE_MOVED(me) add_release(moved_clock, me)
#endif
#ifdef RELAXED_MOVED_LOAD
#define SEEN_MOVED(me) skip
#else
#define SEEN_MOVED(me) take_over(moved_clock, me)
#endif

active proctype Reader() { /* 0 */
  byte i, part, own, taken;
  bool refused;
  byte round = 1;
  now[0].seen[0] = 1;
  do
  :: round > ROUNDS -> break
  :: else ->
    write_there(target[0], 0); /* the caller, between its calls */
    write_there(target[1], 0);
    number == round;
    take_over(number_clock, 0);
#ifndef LATE_RESET
    moved = 0;
#endif
    write_there(address, 0);
    atomic { next_round = round; next = 0; LEAVE_OFFER(0) }
#ifdef LATE_RESET
    moved = 0;
#endif
    own = 0;
    taken = PARTS;
    do
    :: atomic { next < PARTS -> part = next; next++; own++ }
      if
      :: read_there(source[part], 0);
        write_there(target[part], 0)
      :: refused = true; /* by the kernel */
        atomic {
          taken = next;
#ifndef NO_CLOSE
          next = CLOSED
#endif
        };
        break
      fi
    :: atomic { next == PARTS -> break }
    od;
#ifndef HASTY_READER
    moved == taken - own;
    SEEN_MOVED(0);
#endif
    if
    :: refused -> /* piece by piece */
      write_there(target[0], 0);
      write_there(target[1], 0);
      refused = false
    :: else
    fi;
    store_release(told, round, told_clock, 0);
    read_there(target[0], 0); /* the caller */
    read_there(target[1], 0);
    round++
  od
}

active proctype Sender() { /* 1 */
  byte i, part;
  byte round = 1;
  now[1].seen[1] = 1;
  do
  :: round > ROUNDS -> break
  :: else ->
    write_there(source[0], 1);
    write_there(source[1], 1);
    store_release(number, round, number_clock, 1);
    do
    :: told >= round -> take_over(told_clock, 1); break
    :: atomic { next_round == round && next < PARTS -> part = next; next++; SEEN_OFFER(1) }
      read_there(address, 1);
      read_there(source[part], 1);
      write_there(target[part], 1);
      atomic { moved++; LEAVE_MOVED(1) }
    od;
    round++
  od
}

#else

#define BUFFER(rank, round) ((rank) * 2 + (round) % 2)
#define TOLD(reader, owner) ((reader) * RANKS + (owner))

byte number[2 * RANKS];
Clock number_clock[2 * RANKS];
Bytes buffer[2 * RANKS];
#ifdef STAY
byte told[RANKS * RANKS];
Clock told_clock[RANKS * RANKS];
Bytes sent[RANKS];
#endif

inline read_block(me, from, round) {
  SEEN_NUMBER(number_clock[BUFFER(from, round)], me);
  use_to_read(buffer[BUFFER(from, round)], me, from);
#ifdef STAY
  use_to_read(sent[from], me, from);
#ifndef TOGETHER
  STORE_TOLD(told[TOLD(me, from)], round, told_clock[TOLD(me, from)], me)
#endif
#endif
}

proctype Rank(byte me) {
  byte i;
  byte round = 1;
  byte from;
  byte got; /* a bit for each member */
  do
  :: round > ROUNDS -> break
  :: else ->
    atomic {
#ifdef STAY
      use_to_write(sent[me], me); /* the caller, between its calls */
#endif
      use_to_write(buffer[BUFFER(me, round)], me);
      STORE_NUMBER(number[BUFFER(me, round)], round, number_clock[BUFFER(me, round)], me);
      got = 1 << me
    }
    do
    :: got == (1 << RANKS) - 1 -> break
    :: atomic { !(got & 1) && number[BUFFER(0, round)] == round -> from = 0; read_block(me, from, round); got = got | 1 }
    :: atomic { !(got & 2) && number[BUFFER(1, round)] == round -> from = 1; read_block(me, from, round); got = got | 2 }
    :: atomic { !(got & 4) && number[BUFFER(2, round)] == round -> from = 2; read_block(me, from, round); got = got | 4 }
    od;
#ifdef STAY
#ifdef TOGETHER
    STORE_TOLD(told[TOLD(me, me)], round, told_clock[TOLD(me, me)], me);
#define TELLS(reader) TOLD(reader, reader)
#else
#define TELLS(reader) TOLD(reader, me)
#endif
    from = 0;
    do
    :: from == RANKS -> break
    :: from < RANKS && from == me -> from++
    :: from < RANKS && from != me && told[TELLS(from)] >= round -> SEEN_TOLD(told_clock[TELLS(from)], me); from++
    od;
#endif
    from = 0;
    round++
  od
}

init {
  byte i;
  start_clocks();
  i = 0;
  atomic {
    run Rank(0);
    run Rank(1);
    run Rank(2)
  }
}
#endif
