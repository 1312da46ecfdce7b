/* What happens before what, as C11 has it, for models that set RANKS before they include this.
 *
 * Each rank has a clock of how much of every rank's past happens before its present; a release store leaves its rank's clock
 * with the word, an acquire load takes it over. A relaxed one does neither. Two uses of the same bytes of which one writes
 * must happen one before the other: asserted at each use. Users declare `byte i`.
 */
typedef Clock { byte seen[RANKS] };
Clock now[RANKS];

/* Bytes: when they were last written by `writer`, and last read by each. */
typedef Bytes { byte written; byte read[RANKS] };

inline use_to_write(bytes, me) { /* its owner, always the same */
  d_step {
    for (i : 0 .. RANKS - 1) { assert(bytes.read[i] <= now[me].seen[i]) }
    bytes.written = now[me].seen[me];
    i = 0
  }
}

inline use_to_read(bytes, me, writer) {
  d_step {
    assert(bytes.written > 0 && bytes.written <= now[me].seen[writer]);
    bytes.read[me] = now[me].seen[me]
  }
}

inline store_release(word, value, clock, me) {
  d_step {
    for (i : 0 .. RANKS - 1) { clock.seen[i] = now[me].seen[i] }
    word = value;
    now[me].seen[me]++;
    i = 0
  }
}

inline store_relaxed(word, value) { word = value }

inline take_over(clock, me) {
  d_step {
    for (i : 0 .. RANKS - 1) {
      if
      :: clock.seen[i] > now[me].seen[i] -> now[me].seen[i] = clock.seen[i]
      :: else
      fi
    }
    i = 0
  }
}
