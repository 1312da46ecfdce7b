/* The protocol of buffers.hpp as a model for SPIN: every order of steps of three ranks, five rounds.
 *
 * A rank's slot and its send buffer hold the number of the round that they were written for. Writing and
 * reading take two steps each, so that any overlap of the two is seen. What is stored between the stores of
 * two flags is seen by whoever sees the second one: release and acquire promise that, so the model's memory
 * may be one that all see alike.
 *
 * With STAY blocks stay in the send buffer, and readers tell its owner (TOGETHER: all owners at once).
 * Deliberate mistakes, which must be found: ONE_SLOT, EARLY_FLAG (raised before the blocks are written),
 * NO_DRAIN (the owner returns before its buffer is read), HASTY (the next round begins before all blocks of
 * this one are read).
 */
#define RANKS 3
#define ROUNDS 5

#ifdef ONE_SLOT
#define SLOT(rank, round) (rank)
#else
#define SLOT(rank, round) ((rank) * 2 + (round) % 2)
#endif
#define TOLD(reader, owner) ((reader) * RANKS + (owner))

byte flag[2 * RANKS];
byte slot[2 * RANKS];
bool slot_changes[2 * RANKS];
byte buffer[RANKS];
byte told[RANKS * RANKS];

inline write_slot(me, round) {
  slot_changes[SLOT(me, round)] = true;
  d_step {
    slot[SLOT(me, round)] = round;
    slot_changes[SLOT(me, round)] = false
  }
}

/* The block of one member: in its slot, or in its send buffer. */
inline read_block(me, from, round) {
  assert(!slot_changes[SLOT(from, round)] && slot[SLOT(from, round)] == round);
#ifdef STAY
  assert(buffer[from] == round);
  assert(buffer[from] == round); /* still, when the copy ends */
#ifndef TOGETHER
  told[TOLD(me, from)] = round;
#endif
#else
  assert(!slot_changes[SLOT(from, round)] && slot[SLOT(from, round)] == round)
#endif
}

proctype Rank(byte me) {
  byte round = 1;
  byte from;
  byte got; /* a bit for each member */
  do
  :: round > ROUNDS -> break
  :: else ->
    buffer[me] = round;
#ifdef EARLY_FLAG
    flag[SLOT(me, round)] = round;
    write_slot(me, round);
#else
    write_slot(me, round);
    flag[SLOT(me, round)] = round;
#endif
    got = 1 << me;
    do /* slots in any order, as their flags go up */
    :: got == (1 << RANKS) - 1 -> break
#ifdef HASTY
    :: got != 1 << me -> break
#endif
    :: !(got & 1) && flag[SLOT(0, round)] == round -> from = 0; read_block(me, from, round); got = got | 1
    :: !(got & 2) && flag[SLOT(1, round)] == round -> from = 1; read_block(me, from, round); got = got | 2
    :: !(got & 4) && flag[SLOT(2, round)] == round -> from = 2; read_block(me, from, round); got = got | 4
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
    buffer[me] = 0; /* the caller may do with it what it likes */
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
