/* How two ranks of a node sleep and wake each other, as a model for SPIN: ShmNode's push, pull and sleep, Doorbell, and the
 * request for room of ShmRing. What lies in the ring, and who may touch it when: shm_ring.pml.
 *
 * Memory is weak: each store stands aside until its rank has it passed on, in any order, which a fence does for all of them; what
 * C11 keeps in order among them is not kept here, so nothing rests on it. Loads see what was passed on: a load that is late is
 * a store that is. The kernel's comparison and falling asleep are one step. Nobody wakes by himself here, as ranks do
 * after a millisecond: who sleeps for ever was not woken, and that is what is looked for.
 *
 * As it is: one rank sends, one receives, and both sleep when nothing moves. THREADS: of the receiving rank another thread makes
 * progress too, and takes what the sleeper waits for.
 * Deliberate mistakes, which must be found: NO_FENCE_RINGING, NO_FENCE_SLEEPING, NO_FENCE_ASKING, NO_FENCE_READING (of
 * take_request), LATE_SEEN (rings are read after the last look), LATE_SLEEPING (told after the last look), EARLY_RINGING (before the change),
 * UNCOUNTED (a ring only wakes), WAKE_FIRST (and counts then), LOOK_ONCE (who asks for room does not look again), LATE_CLEAR (the
 * request is taken back after the ring), NO_REQUEST (nobody asks for room);
 * THREADS: MOVED_ONLY (only what was moved in the last look counts), TWO_SLEEPERS (two threads sleep on one bell).
 *
 * Accesses: what these do in the code, and the step here (tests/transport/model_orders compares them)
 *   shm_node.hpp     sleep          rings     load       acquire  free
 *   shm_node.hpp     sleep          sleeping  store      relaxed  SLEEP
 *   shm_node.hpp     sleep          fence     fence      seq_cst  TELL_SLEEPING
 *   shm_node.hpp     sleep          sleeping  store      relaxed  SLEEP
 *   shm_ring.cpp     wait_for_room  starved   store      relaxed  wait_for_room
 *   shm_ring.cpp     wait_for_room  fence     fence      seq_cst  wait_for_room
 *   shm_ring.cpp     take_request   fence     fence      seq_cst  take_request
 *   shm_ring.cpp     take_request   starved   load       relaxed  take_request
 *   shm_ring.cpp     take_request   starved   exchange   relaxed  take_request
 *   shm_segment.cpp  ring           fence     fence      seq_cst  ring
 *   shm_segment.cpp  ring           sleeping  load       relaxed  ring
 *   shm_segment.cpp  ring           rings     fetch_add  release  free
 */
#define SENDER 0
#define RECEIVER 1
#define HELPER 2 /* another thread of the receiver */
#define CELLS 4
#define HEADER 2 /* written and read as a whole */
#ifdef THREADS
#define MESSAGES 2
#else
#define MESSAGES 3
#endif
#define BODY(message) ((message) == 1 -> 4 : 1) /* a header may find one cell; one message is longer than the ring */

#define SECOND_BED 2

typedef Word { byte now; byte next; bool waits }; /* a store that stands aside */
Word written, read, sleeping[2];
Word starved; /* the receiver's exchange acts on memory */
byte rings[2];
bool asleep[3]; /* SECOND_BED is on the receiver's bell too */

#define STORE(word, value) word.next = value; word.waits = true
#define PASS(word) if :: word.waits -> word.now = word.next; word.next = 0; word.waits = false :: else fi

inline fence(me) {
  d_step {
    if
    :: me == SENDER -> PASS(written); PASS(starved); PASS(sleeping[SENDER])
    :: me == HELPER -> PASS(read)
    :: else -> PASS(read); PASS(sleeping[RECEIVER])
    fi
  }
}

active proctype Memory() {
end:
  do
  :: atomic { written.waits -> PASS(written) }
  :: atomic { starved.waits -> PASS(starved) }
  :: atomic { read.waits -> PASS(read) }
  :: atomic { sleeping[SENDER].waits -> PASS(sleeping[SENDER]) }
  :: atomic { sleeping[RECEIVER].waits -> PASS(sleeping[RECEIVER]) }
  od
}

inline wake(bell) {
  d_step {
    asleep[bell] = false;
    if
    :: bell == RECEIVER -> asleep[SECOND_BED] = false
    :: else
    fi
  }
}

inline ring(me, bell) { /* Doorbell::ring */
  atomic {
#ifndef NO_FENCE_RINGING
    fence(me);
#endif
    tells = sleeping[bell].now
  };
  if
  :: !tells -> skip
  :: else ->
    tells = false;
#ifdef WAKE_FIRST
    wake(bell);
    rings[bell]++
#else
#ifndef UNCOUNTED
    rings[bell]++;
#endif
    wake(bell)
#endif
  fi
}

/* ShmNode::sleep. */
#define SLEEP(me, bed, ready) \
  BEFORE_LOOK(me); \
  ready; \
  AFTER_LOOK(me); \
  if \
  :: moved -> skip \
  :: else -> \
    atomic { if :: rings[me] == seen -> asleep[bed] = true :: else fi }; \
    !asleep[bed] \
  fi; \
  d_step { STORE(sleeping[me], 0); seen = 0 }

#ifdef NO_FENCE_SLEEPING
#define TELL_SLEEPING(me) atomic { STORE(sleeping[me], 1) }
#else
#define TELL_SLEEPING(me) atomic { STORE(sleeping[me], 1); fence(me) }
#endif
#if defined(LATE_SEEN)
#define BEFORE_LOOK(me) TELL_SLEEPING(me)
#define AFTER_LOOK(me) seen = rings[me]
#elif defined(LATE_SLEEPING)
#define BEFORE_LOOK(me) seen = rings[me]
#define AFTER_LOOK(me) TELL_SLEEPING(me)
#else
#define BEFORE_LOOK(me) seen = rings[me]; TELL_SLEEPING(me)
#define AFTER_LOOK(me) skip
#endif

/* Sender: writes queued messages as far as there is room. */
inline write_queued() {
  do
  :: atomic { message == MESSAGES -> break }
  :: atomic { message < MESSAGES && left == 0 -> /* a header */
      if
      :: CELLS - (own - read.now) < HEADER -> break
      :: else -> own = own + HEADER; left = BODY(message); STORE(written, own); moved = true
      fi
    }
  :: atomic { message < MESSAGES && left > 0 ->
      count = CELLS - (own - read.now);
      count = (count < left -> count : left);
      if
      :: count == 0 -> break
      :: else -> own = own + count; left = left - count; count = 0; STORE(written, own); moved = true
      fi;
      if
      :: left == 0 -> message++
      :: else -> break
      fi
    }
  od
}

inline wait_for_room() { /* ShmRing */
#ifdef NO_REQUEST
  skip
#else
  d_step { STORE(starved, 1) };
#ifndef NO_FENCE_ASKING
  fence(SENDER)
#endif
#endif
}

inline push() {
  moved = false;
#ifdef EARLY_RINGING
  ring(SENDER, RECEIVER);
#endif
  write_queued();
  if
  :: message == MESSAGES -> skip
  :: else ->
    wait_for_room();
#ifndef LOOK_ONCE
    write_queued()
#endif
  fi;
#ifndef EARLY_RINGING
  if
  :: moved -> ring(SENDER, RECEIVER)
  :: else
  fi
#endif
}

active proctype Sender() {
  byte own, message, left, count, seen;
  bool moved, tells;
  do
  :: message == MESSAGES -> break
  :: else ->
    push();
    if
    :: moved || message == MESSAGES -> skip
    :: else -> SLEEP(SENDER, SENDER, push())
    fi
  od
}

/* What threads of the receiving rank share, under its mutex. */
byte taken, rest, got;
bool locked;

#ifdef THREADS
#define LOCK atomic { !locked -> locked = true }
#define UNLOCK locked = false
#else
#define LOCK skip
#define UNLOCK skip
#endif

inline read_arrived() {
  do
  :: atomic { rest == 0 -> /* a header */
      if
      :: written.now - taken < HEADER -> break
      :: else -> taken = taken + HEADER; rest = BODY(got); STORE(read, taken); moved = true
      fi
    }
  :: atomic { rest > 0 ->
      count = written.now - taken;
      count = (count < rest -> count : rest);
      if
      :: count == 0 -> break
      :: else -> taken = taken + count; rest = rest - count; count = 0; STORE(read, taken); moved = true
      fi;
      if
      :: rest == 0 -> got++
      :: else -> break
      fi
    }
  od
}

inline take_request(me) { /* and rings */
  atomic {
#ifndef NO_FENCE_READING
    fence(me);
#endif
    tells = starved.now
  };
  if
  :: !tells -> skip
  :: else ->
    tells = false;
#ifndef LATE_CLEAR
    starved.now = 0;
#endif
    ring(me, SENDER);
#ifdef LATE_CLEAR
    starved.now = 0
#endif
  fi
}

inline pull(me) {
  LOCK;
  moved = false;
  read_arrived();
  if
  :: moved -> take_request(me)
  :: else
  fi;
#if defined(THREADS) && !defined(MOVED_ONLY)
  moved = moved || got >= wanted;
#endif
  UNLOCK
}

inline receive(bed) {
  do
  :: got >= wanted -> break
  :: else ->
    pull(RECEIVER);
    if
    :: moved || got >= wanted -> skip
    :: else -> SLEEP(RECEIVER, bed, pull(RECEIVER))
    fi
  od
}

#ifdef TWO_SLEEPERS
#define FIRST_WANTED 1
active proctype SecondReceiver() {
  byte seen, count;
  byte wanted = MESSAGES;
  bool moved, tells;
  receive(SECOND_BED)
}
#else
#define FIRST_WANTED MESSAGES
#endif

active proctype Receiver() {
  byte seen, count;
  byte wanted = FIRST_WANTED;
  bool moved, tells;
  receive(RECEIVER)
}

#if defined(THREADS) && !defined(TWO_SLEEPERS)
active proctype Helper() {
  byte count;
  byte wanted = MESSAGES;
  bool moved, tells;
  pull(HELPER)
}
#endif
