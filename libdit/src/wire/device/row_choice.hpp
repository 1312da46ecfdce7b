/// Which rows of a block travel: those farthest from what the receiver expects (BlockCodec's choice,
/// choose_active_rows of v_major.hpp), by teams that are whole thread blocks. How many they are follows from
/// the policy alone, so that the host knows all sizes.
///
/// A row team has what team.hpp says, with lanes() lanes, and add(word, value) for words of the room that
/// several lanes add to at once.
#pragma once

#include "wire/device/lane_memory.hpp"

namespace dit {

/// The rows of one block, in memory of the device.
struct RowChoice {
  CodeJob job;  ///< its tensor, and what is remembered; all its rows
  std::uint32_t rows = 0;
  std::uint32_t travelling = 0;
  float* scores = nullptr;          ///< of each row
  std::uint32_t* active = nullptr;  ///< those that travel, ascending
  std::uint32_t* others = nullptr;  ///< and those that do not
  std::uint8_t* mask = nullptr;     ///< v_major.hpp's; where the code begins
  /// Of each row the step in which it last travelled, null: nobody asks; it becomes `step` of those that
  /// travel. Rows of `old_step` or before travel before all others.
  std::uint32_t* steps = nullptr;
  std::uint32_t step = 0;
  std::int64_t old_step = -1;
  // V-Major's, of each sample by itself:
  std::byte* before = nullptr;  ///< rows as they last travelled, dense; they become those that travel now
  std::uint32_t first_row = 0;  ///< of the sample: of the tensor; added to rows as they are listed
};

/// Blocks of one launch.
inline constexpr std::uint32_t kMostChoices = 8;
struct RowChoices {
  std::uint32_t count = 0;
  RowChoice choice[kMostChoices];
};
static_assert(sizeof(RowChoices) <= 4000, "what is given to kernels");

enum class RowWork : std::uint8_t {
  measure,  ///< scores from the tensor and what is remembered
  compare,  ///< scores from the tensor and what it was before
  read,     ///< scores from a mask that came
  choose,   ///< rows from scores
  write,    ///< the mask from the rows
  keep      ///< what travels becomes what was before
};

inline constexpr std::uint32_t kRowLanes = 256;
inline constexpr std::size_t kRowRoom = 2 * kRowLanes * sizeof(std::uint32_t) + 16 * sizeof(std::uint32_t);

namespace {

constexpr std::uint32_t kSumLanes = static_cast<std::uint32_t>(kLanes);

// Smaller for larger scores; equal for equal ones (0 and -0); smallest for NaN.
DIT_SHARED std::uint32_t order_of(float score) {
  const std::uint32_t bits = bits_of(score + 0.0F);  // -0 + 0 = 0
  const std::uint32_t ascending = (bits & kSignBit) != 0 ? ~bits : bits ^ kSignBit;
  return (bits & kMagnitude) > kInfinity ? 0 : ~ascending;
}

DIT_SHARED float number_from(const std::byte* at, WireElement element) {
  if (element == WireElement::fp32) {
    return load<float>(at);
  }
  const auto half = load<std::uint16_t>(at);
  return element == WireElement::bf16 ? widened(half) : widened_fp16(half);
}
DIT_SHARED float number_at(const CodeJob& job, std::int64_t offset) {
  return number_from(job.place.tensor + offset * element_bytes(job.element), job.element);
}

/// One of the 16 sums of a row's squares, in their order.
DIT_SHARED float part_of_distance(const CodeJob& job, std::uint32_t row, std::uint32_t part) {
  const std::uint32_t width = job.place.row.value;
  const JobMemory& memory = job.memory;
  const std::size_t first = std::size_t{row} * width;
  float squares = 0;
  for (std::uint32_t column = part; column < width; column += kSumLanes) {
    const std::size_t at = first + column;
    const float value = float_of(static_cast<std::uint32_t>(memory.value[at]) << 16U |
                                 static_cast<std::uint32_t>(memory.digits[at]) << 8U);
    const float change = change_of(memory.change != nullptr ? memory.change[at] : std::uint8_t{0});
    const float expected = value + momentum_of(memory) * change;
    const float off = number_at(job, offset_of(job.place, {row, column})) - expected;
    squares += off * off;
  }
  return squares;
}

DIT_SHARED std::byte* before_at(const RowChoice& choice, std::uint32_t row, std::uint32_t column) {
  const std::size_t at = std::size_t{choice.first_row + row} * choice.job.place.row.value + column;
  return choice.before + at * element_bytes(choice.job.element);
}

/// One of the 16 sums of what a row's numbers changed by, in their order.
DIT_SHARED float part_of_change(const RowChoice& choice, std::uint32_t row, std::uint32_t part) {
  const CodeJob& job = choice.job;
  float changes = 0;
  for (std::uint32_t column = part; column < job.place.row.value; column += kSumLanes) {
    const float now = number_at(job, offset_of(job.place, {choice.first_row + row, column}));
    changes += magnitude_of(now - number_from(before_at(choice, row, column), job.element));
  }
  return changes;
}

/// Rows `first` on, one for each 16 lanes of the team.
template <RowWork work, class Team>
DIT_SHARED void measure_rows(Team& team, const RowChoice& choice, std::uint32_t first) {
  auto* const sums = reinterpret_cast<float*>(team.room());
  team.each([&](std::uint32_t lane) {
    const std::uint32_t row = first + lane / kSumLanes;
    if constexpr (work == RowWork::measure) {
      sums[lane] = row < choice.rows ? part_of_distance(choice.job, row, lane % kSumLanes) : 0.0F;
    } else {
      sums[lane] = row < choice.rows ? part_of_change(choice, row, lane % kSumLanes) : 0.0F;
    }
  });
  for (std::uint32_t half = kSumLanes / 2; half > 0; half /= 2) {
    team.each([&](std::uint32_t lane) {
      if (lane % kSumLanes < half) sums[lane] += sums[lane + half];
    });
  }
  team.each([&](std::uint32_t lane) {
    const std::uint32_t row = first + lane / kSumLanes;
    if (lane % kSumLanes == 0 && row < choice.rows) {
      const bool old = choice.steps != nullptr && choice.steps[row] <= choice.old_step;
      choice.scores[row] = old ? float_of(kInfinity) : sums[lane];
    }
  });
}

/// A search for the score of the last row that travels, 8 bits at a time, then rows in order.
template <class Team>
class RowSearch {
 public:
  DIT_SHARED RowSearch(Team& team, const RowChoice& choice) : team_(team), choice_(choice) {}

  DIT_SHARED void run() {
    auto* const counts = reinterpret_cast<std::uint32_t*>(team_.room());
    std::uint32_t* const found =
        counts + 2 * kRowLanes;  // the bits so far, and how many travel of equal ones
    team_.each([&](std::uint32_t lane) {
      if (lane == 0) {
        found[0] = 0;
        found[1] = choice_.travelling;
      }
    });
    for (std::uint32_t shift = 32; shift > 0; shift -= 8) {
      narrow(counts, found, shift - 8);
    }
    give_out(counts, found);
  }

 private:
  DIT_SHARED std::uint32_t order(std::uint32_t row) const { return order_of(choice_.scores[row]); }

  DIT_SHARED void narrow(std::uint32_t* counts, std::uint32_t* found, std::uint32_t shift) {
    team_.each([&](std::uint32_t lane) { counts[lane] = 0; });
    team_.each([&](std::uint32_t lane) {
      for (std::uint32_t row = lane; row < choice_.rows; row += kRowLanes) {
        const std::uint32_t order_of_row = order(row);
        const bool same = shift == 24 || (order_of_row ^ found[0]) >> (shift + 8U) == 0;
        if (same) team_.add(counts + (order_of_row >> shift & 0xffU), 1U);
      }
    });
    team_.each([&](std::uint32_t lane) {
      if (lane != 0) {
        return;
      }
      std::uint32_t digit = 0;
      while (digit < 255 && counts[digit] < found[1]) {
        found[1] -= counts[digit++];
      }
      found[0] |= digit << shift;
    });
  }

  /// Each lane has rows that follow each other: it counts them, then knows how many are before.
  DIT_SHARED void give_out(std::uint32_t* counts, const std::uint32_t* found) {
    const std::uint32_t each = (choice_.rows + kRowLanes - 1) / kRowLanes;
    std::uint32_t* const equals = counts + kRowLanes;
    team_.each([&](std::uint32_t lane) {
      counts[lane] = equals[lane] = 0;
      for (std::uint32_t row = lane * each; row < least_of((lane + 1) * each, choice_.rows); ++row) {
        counts[lane] += order(row) < found[0] ? 1U : 0U;
        equals[lane] += order(row) == found[0] ? 1U : 0U;
      }
    });
    team_.each([&](std::uint32_t lane) {
      std::uint32_t before = 0;
      std::uint32_t equal = 0;
      for (std::uint32_t other = 0; other < lane; ++other) {
        before += counts[other];
        equal += equals[other];
      }
      for (std::uint32_t row = lane * each; row < least_of((lane + 1) * each, choice_.rows); ++row) {
        const std::uint32_t own = order(row);
        const std::uint32_t active = before + least_of(equal, found[1]);
        if (own < found[0] || (own == found[0] && equal < found[1])) {
          choice_.active[active] = choice_.first_row + row;
          if (choice_.steps != nullptr) choice_.steps[row] = choice_.step;
        } else {
          choice_.others[row - active] = choice_.first_row + row;
        }
        before += own < found[0] ? 1U : 0U;
        equal += own == found[0] ? 1U : 0U;
      }
    });
  }

  Team& team_;
  const RowChoice& choice_;
};

/// A score of 1 for rows of the mask; what a mask has too many or too few of, the choice mends.
DIT_SHARED void read_mask(const RowChoice& choice, std::uint32_t row) {
  if (row < choice.rows) choice.scores[row] = (choice.mask[row / 8] >> (row % 8) & 1U) != 0 ? 1.0F : 0.0F;
}

/// Byte `byte` of the mask: rows are ascending, so that they are found by halves.
DIT_SHARED void write_mask(const RowChoice& choice, std::uint32_t byte) {
  if (byte >= (choice.rows + 7) / 8) {
    return;
  }
  std::uint32_t low = 0;
  std::uint32_t high = choice.travelling;
  while (low < high) {
    const std::uint32_t middle = (low + high) / 2;
    if (choice.active[middle] < 8 * byte) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::uint32_t bits = 0;
  for (; low < choice.travelling && choice.active[low] < 8 * byte + 8; ++low) {
    bits |= 1U << (choice.active[low] - 8 * byte);
  }
  choice.mask[byte] = static_cast<std::uint8_t>(bits);
}

/// Row `index` of those that travel.
DIT_SHARED void keep_row(const RowChoice& choice, std::uint32_t index, std::uint32_t lane) {
  const CodeJob& job = choice.job;
  const std::uint32_t row = choice.active[index];
  for (std::uint32_t column = lane; column < job.place.row.value; column += kRowLanes) {
    const std::byte* const from =
        job.place.tensor + offset_of(job.place, {row, column}) * element_bytes(job.element);
    std::byte* const to = before_at(choice, row - choice.first_row, column);
    if (job.element == WireElement::fp32) {
      store(to, load<std::uint32_t>(from));
    } else {
      store(to, load<std::uint16_t>(from));
    }
  }
}

/// What team `index` of `work` does; row_teams() are needed.
template <RowWork work, class Team>
DIT_SHARED void run_rows(Team& team, const RowChoice& choice, std::uint32_t index) {
  if constexpr (work == RowWork::measure || work == RowWork::compare) {
    measure_rows<work>(team, choice, index * (kRowLanes / kSumLanes));
  } else if constexpr (work == RowWork::choose) {
    RowSearch<Team>(team, choice).run();
  } else if constexpr (work == RowWork::read) {
    team.each([&](std::uint32_t lane) { read_mask(choice, index * kRowLanes + lane); });
  } else if constexpr (work == RowWork::keep) {
    team.each([&](std::uint32_t lane) {
      if (index < choice.travelling) keep_row(choice, index, lane);
    });
  } else {
    team.each([&](std::uint32_t lane) { write_mask(choice, index * kRowLanes + lane); });
  }
}
DIT_SHARED std::uint32_t row_teams(RowWork work, const RowChoice& choice) {
  if (work == RowWork::choose || work == RowWork::keep) {
    return work == RowWork::choose ? 1 : choice.travelling;
  }
  std::uint32_t each = work == RowWork::read ? kRowLanes : 8 * kRowLanes;
  each = work == RowWork::measure || work == RowWork::compare ? kRowLanes / kSumLanes : each;
  return (choice.rows + each - 1) / each;
}

}  // namespace
}  // namespace dit
