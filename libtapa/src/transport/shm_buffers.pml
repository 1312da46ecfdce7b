/* The protocol of shm_buffers.hpp as a model for SPIN: every order of steps of three ranks, five rounds.
 *
 * A rank's buffer and the memory that it sends from hold the number of the round that they were written for.
 * Writing and reading take two steps each, so that any overlap of the two is seen. What is stored between the
 * stores of two sequence numbers is seen by whoever sees the second one: release and acquire promise that, so
 * the model's memory may be one that all see alike.
 *
 * With SLOTS blocks lie in slots, but those of two ranks in one round, so that a slot is written again after one
 * round and after two, and those of the third in the last one; a slot holds whom it was written for, too.
 *
 * With STAY blocks stay in the memory that they are sent from, and readers tell its owner (TOGETHER: all owners
 * at once). Deliberate mistakes, which must be found: ONE_BUFFER, EARLY_NUMBER (stored before the blocks are
 * written), NO_DRAIN (the owner returns before its memory is read), HASTY (the next round begins before all
 * blocks of this one are read), OWN_SLOTS (slots are always those in the writer's region).
 */
#define RANKS 3
#define ROUNDS 5
#define IN_SLOT(from, round) ((round) != ((from) == 0 -> ROUNDS : 3))

#ifdef ONE_BUFFER
#define BUFFER(rank, round) (rank)
#else
#define BUFFER(rank, round) ((rank) * 2 + (round) % 2)
#endif
#ifdef OWN_SLOTS
#define SLOT(from, to, round) ((from) * RANKS + (to))
#else
#define SLOT(from, to, round) ((round) % 2 == 0 -> (from) * RANKS + (to) : (to) * RANKS + (from))
#endif
#define TOLD(reader, owner) ((reader) * RANKS + (owner))

byte number[2 * RANKS];
byte buffer[2 * RANKS];
bool buffer_changes[2 * RANKS];
byte slot[RANKS * RANKS]; /* round and receiver */
bool slot_changes[RANKS * RANKS];
byte sent[RANKS];
byte told[RANKS * RANKS];

inline write_buffer(me, round) {
  buffer_changes[BUFFER(me, round)] = true;
  d_step {
    buffer[BUFFER(me, round)] = round;
    buffer_changes[BUFFER(me, round)] = false
  }
}

/* Slots for the others. */
inline write_slots(me, round) {
  d_step {
    slot_changes[SLOT(me, (me + 1) % RANKS, round)] = true;
    slot_changes[SLOT(me, (me + 2) % RANKS, round)] = true
  }
  d_step {
    slot[SLOT(me, (me + 1) % RANKS, round)] = round * RANKS + (me + 1) % RANKS;
    slot[SLOT(me, (me + 2) % RANKS, round)] = round * RANKS + (me + 2) % RANKS;
    slot_changes[SLOT(me, (me + 1) % RANKS, round)] = false;
    slot_changes[SLOT(me, (me + 2) % RANKS, round)] = false
  }
}

inline write_blocks(me, round) {
#ifdef SLOTS
  if
  :: IN_SLOT(me, round) -> write_slots(me, round)
  :: else -> write_buffer(me, round)
  fi
#else
  write_buffer(me, round)
#endif
}

inline read_slot(me, from, round) {
  assert(!slot_changes[SLOT(from, me, round)] && slot[SLOT(from, me, round)] == round * RANKS + me);
  assert(!slot_changes[SLOT(from, me, round)] && slot[SLOT(from, me, round)] == round * RANKS + me)
}

/* The block of one member: in a slot, in its buffer, or in what it sends. */
inline read_block(me, from, round) {
#ifdef SLOTS
  if
  :: IN_SLOT(from, round) -> read_slot(me, from, round)
  :: else -> read_plain(me, from, round)
  fi
#else
  read_plain(me, from, round)
#endif
}

inline read_plain(me, from, round) {
  assert(!buffer_changes[BUFFER(from, round)] && buffer[BUFFER(from, round)] == round);
#ifdef STAY
  assert(sent[from] == round);
  assert(sent[from] == round); /* still, when the copy ends */
#ifndef TOGETHER
  told[TOLD(me, from)] = round;
#endif
#else
  assert(!buffer_changes[BUFFER(from, round)] && buffer[BUFFER(from, round)] == round)
#endif
}

proctype Rank(byte me) {
  byte round = 1;
  byte from;
  byte got; /* a bit for each member */
  do
  :: round > ROUNDS -> break
  :: else ->
    sent[me] = round;
#ifdef EARLY_NUMBER
    number[BUFFER(me, round)] = round;
    write_blocks(me, round);
#else
    write_blocks(me, round);
    number[BUFFER(me, round)] = round;
#endif
    got = 1 << me;
    do /* buffers in any order, as their numbers come */
    :: got == (1 << RANKS) - 1 -> break
#ifdef HASTY
    :: got != 1 << me -> break
#endif
    :: !(got & 1) && number[BUFFER(0, round)] == round -> from = 0; read_block(me, from, round); got = got | 1
    :: !(got & 2) && number[BUFFER(1, round)] == round -> from = 1; read_block(me, from, round); got = got | 2
    :: !(got & 4) && number[BUFFER(2, round)] == round -> from = 2; read_block(me, from, round); got = got | 4
    od;
#ifdef STAY
#ifdef TOGETHER
    told[TOLD(me, me)] = round;
#endif
#ifndef NO_DRAIN
    from = 0;
    do
    :: from == RANKS -> break
    :: from < RANKS && (from == me || told[TOLD(from, me)] >= round || told[TOLD(from, from)] >= round) -> from++
    od;
#endif
#endif
    sent[me] = 0; /* the caller may do with it what it likes */
    round++
  od
}

init {
  atomic {
    run Rank(0);
    run Rank(1);
    run Rank(2)
  }
}
