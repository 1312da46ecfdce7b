/// Between codes in global memory, at any address, and the lanes' codes in the room, word after word. Global
/// memory is read and written in words of 4 bytes wherever all of a word is the segment's.
#pragma once

#include "wire/device/staging.hpp"

namespace dit {
namespace {

/// Units of a lane's code in the room, for spread(). Codes of few words lie one after the other, so that
/// where they are is an instruction's constant; lanes that use the same banks are worth less than that.
[[nodiscard]] DIT_SHARED constexpr bool is_short(LaneFormat format) {
  return words_of(format) <= 8;
}
[[nodiscard]] DIT_SHARED constexpr std::uint32_t code_units(LaneFormat format) {
  return is_short(format) ? 1 : words_of(format) / 4;
}
/// Where they begin: code_out() reads a word before them.
[[nodiscard]] DIT_SHARED constexpr std::uint32_t code_begin(LaneFormat format) {
  return is_short(format) ? static_cast<std::uint32_t>(sizeof(Unit)) : 0U;
}

template <LaneFormat format>
DIT_SHARED void code_to_room(std::uint32_t lane, std::byte* room, const std::uint32_t* word) {
  constexpr std::uint32_t kWords = words_of(format), kUnits = code_units(format);
  room += code_begin(format);
  if constexpr (kWords < 4) {
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kWords; ++i) {
      store(room + 4 * (lane * kWords + i), word[i]);
    }
  } else {
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kWords / 4; ++i) {
      store(unit_at(room, lane * (kWords / 4) + i, kUnits),
            Unit{{word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]}});
    }
  }
}
/// Bytes of the room before a code that was read from `code`: codes of most formats lie there as they lie in
/// the words of global memory.
template <LaneFormat format>
DIT_SHARED std::uint32_t bytes_before(const std::uint8_t* code) {
  return words_of(format) > 16 ? 0 : static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code) % 4);
}

/// A lane's code, with so many bytes before the codes in the room.
template <LaneFormat format>
DIT_SHARED void code_of_lane(std::uint32_t lane, std::byte* room, std::uint32_t before, std::uint32_t* word) {
  constexpr std::uint32_t kWords = words_of(format), kUnits = code_units(format);
  room += code_begin(format);
  if constexpr (kWords < 4) {
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kWords; ++i) {
      word[i] = load<std::uint32_t>(room + 4 * (lane * kWords + i));
    }
  } else {
    DIT_UNROLL
    for (std::uint32_t i = 0; i < kWords / 4; ++i) {
      const Unit unit = load<Unit>(unit_at(room, lane * (kWords / 4) + i, kUnits));
      DIT_UNROLL
      for (std::uint32_t w = 0; w < 4; ++w) {
        word[4 * i + w] = unit.word[w];
      }
    }
  }
  if (before == 0) {
    return;
  }
  const std::uint32_t next = load<std::uint32_t>(byte_at(room, 4 * (lane + 1) * kWords, kUnits));
  DIT_UNROLL
  for (std::uint32_t i = 0; i < kWords; ++i) {
    word[i] = bytes_of_two(word[i], i + 1 < kWords ? word[i + 1] : next, before);
  }
}

/// Four bytes from byte `begin` on, as a word, of memory that is read in words.
template <class Words>
DIT_SHARED std::uint32_t word_from(std::uint32_t begin, const Words& words) {
  const std::uint32_t shift = begin % 4 * 8;
  const std::uint32_t low = words(begin / 4);
  return shift == 0 ? low : low >> shift | words(begin / 4 + 1) << (32 - shift);
}

/// Which byte a lane moves alone: lanes 0 to 3 have the first word, where a part of it is the code's; 4 to 7
/// the last one. `before`: bytes of the first word before the code, which ends at `end`.
struct SingleByte {
  std::uint32_t at;
  bool is_there;
};
DIT_SHARED SingleByte single_byte(std::uint32_t lane, std::uint32_t before, std::uint32_t end) {
  const std::uint32_t at = lane < 4 ? lane : (end & ~3U) + lane - 4;
  return {at, lane < 8 && at >= before && at < end && (lane >= 4 || before != 0)};
}

/// Bytes 0 to `bytes` of the room's codes to `code`, of a format whose codes are short: a word of global
/// memory is of two words of the room.
template <LaneFormat format>
DIT_SHARED void short_code_out(std::uint32_t lane, std::byte* room, std::uint32_t bytes, std::uint8_t* code) {
  const auto before = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code) % 4);
  const std::uint32_t end = before + bytes;
  const std::byte* const from = room + code_begin(format) + 4 * lane;
  std::uint8_t* const to = code - before + 4 * lane;
  DIT_UNROLL
  for (std::uint32_t b = 0; b < words_of(format); ++b) {
    const std::uint32_t at = 4 * (lane + b * kTeamLanes);
    const std::byte* const word = from + 4 * b * kTeamLanes;
    if (at >= before && at + 4 <= end) {
      store(to + 4 * b * kTeamLanes,
            moved_up(load<std::uint32_t>(word - 4), load<std::uint32_t>(word), before));
    }
  }
  const SingleByte single = single_byte(lane, before, end);
  if (single.is_there) {
    (code - before)[single.at] = load<std::uint8_t>(room + code_begin(format) + single.at - before);
  }
}

/// The same of the other formats.
DIT_SHARED void long_code_out(std::uint32_t lane, std::byte* room, std::uint32_t units, std::uint32_t bytes,
                              std::uint8_t* code) {
  if (is_multiple(code, sizeof(Unit)) && bytes % sizeof(Unit) == 0) {
    return units_out(lane, room, bytes / static_cast<std::uint32_t>(sizeof(Unit)), units,
                     [&](std::uint32_t unit) { return code + unit * sizeof(Unit); });
  }
  const auto before = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code) % 4);
  std::uint8_t* const words = code - before;
  for (std::uint32_t at = 4 * lane; at < before + bytes; at += 4 * kTeamLanes) {
    if (at >= before && at + 4 <= before + bytes) {
      store(words + at, word_from(at - before, [&](std::uint32_t word) {
              return load<std::uint32_t>(byte_at(room, 4 * word, units));
            }));
      continue;
    }
    for (std::uint32_t i = at; i < at + 4; ++i) {
      if (i >= before && i < before + bytes) {
        words[i] = load<std::uint8_t>(byte_at(room, i - before, units));
      }
    }
  }
}

template <LaneFormat format>
DIT_SHARED void code_out(std::uint32_t lane, std::byte* room, std::uint32_t bytes, std::uint8_t* code) {
  if constexpr (is_short(format)) {
    short_code_out<format>(lane, room, bytes, code);
  } else {
    long_code_out(lane, room, code_units(format), bytes, code);
  }
}

/// Words of global memory as they lie, with all loads under way together. Where a word is not the code's
/// alone, the code's bytes of it.
template <LaneFormat format>
DIT_SHARED void words_in(std::uint32_t lane, std::byte* room, std::uint32_t bytes, const std::uint8_t* code) {
  constexpr std::uint32_t kUnits = code_units(format), kWords = words_of(format);
  room += code_begin(format);
  const auto before = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code) % 4);
  const std::uint8_t* const words = code - before;
  const std::uint32_t end = before + bytes;
  const SingleByte single = single_byte(lane, before, end);
  const std::uint8_t alone = single.is_there ? words[single.at] : std::uint8_t{0};
  constexpr std::uint32_t kAtOnce = kWords < 8 ? kWords : 8;
  DIT_UNROLL
  for (std::uint32_t begin = 0; begin < kWords; begin += kAtOnce) {
    std::uint32_t held[kAtOnce] = {};
    DIT_UNROLL
    for (std::uint32_t b = 0; b < kAtOnce; ++b) {
      const std::uint32_t at = 4 * (lane + (begin + b) * kTeamLanes);
      if (at >= before && at + 4 <= end) {
        held[b] = load<std::uint32_t>(words + at);
      }
    }
    DIT_UNROLL
    for (std::uint32_t b = 0; b < kAtOnce; ++b) {
      const std::uint32_t at = 4 * (lane + (begin + b) * kTeamLanes);
      if (at >= before && at + 4 <= end) {
        store(byte_at(room, at, kUnits), held[b]);
      }
    }
  }
  if (single.is_there) {
    store(byte_at(room, single.at, kUnits), alone);
  }
}

/// The same, from the room's begin on.
DIT_SHARED void bytes_in(std::uint32_t lane, std::byte* room, std::uint32_t units, std::uint32_t bytes,
                         const std::uint8_t* code) {
  const auto before = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code) % 4);
  const std::uint8_t* const words = code - before;
  DIT_UNROLL
  for (std::uint32_t b = 0; b < kNumbersRoom / (4 * kTeamLanes); ++b) {
    const std::uint32_t at = 4 * (lane + b * kTeamLanes);
    if (at >= bytes) {
      break;
    }
    if ((before == 0 || at >= 4) && at + 8 - before <= bytes) {
      store(byte_at(room, at, units), word_from(at + before, [&](std::uint32_t word) {
              return load<std::uint32_t>(words + 4 * word);
            }));
      continue;
    }
    for (std::uint32_t i = at; i < at + 4 && i < bytes; ++i) {
      store(byte_at(room, i, units), code[i]);
    }
  }
}

/// Codes of `bytes` bytes at `code` to the room, behind bytes_before() it.
template <LaneFormat format>
DIT_SHARED void code_in(std::uint32_t lane, std::byte* room, std::uint32_t bytes, const std::uint8_t* code) {
  constexpr std::uint32_t kUnits = code_units(format);
  if constexpr (is_short(format)) {  // NOLINT(bugprone-branch-clone): what comes between is tried first
    words_in<format>(lane, room, bytes, code);
  } else if (is_multiple(code, sizeof(Unit)) && bytes % sizeof(Unit) == 0) {
    units_in(lane, room, bytes / static_cast<std::uint32_t>(sizeof(Unit)), kUnits,
             [&](std::uint32_t unit) { return code + unit * sizeof(Unit); });
  } else if constexpr (words_of(format) > 16) {  // whose room they fill
    bytes_in(lane, room, kUnits, bytes, code);
  } else {
    words_in<format>(lane, room, bytes, code);
  }
}

// ---- fp8: several rows, each an exponent and its numbers.

constexpr std::uint32_t kFp8Units = code_units(LaneFormat::fp8);
constexpr std::uint32_t kFp8Begin = code_begin(LaneFormat::fp8);

/// `exponents`: of each row, in the room.
DIT_SHARED void fp8_rows_out(std::uint32_t lane, std::byte* room, const std::uint32_t* exponents,
                             const Divisor& row, const Divisor& row_code, std::uint32_t bytes,
                             std::uint8_t* code) {
  room += kFp8Begin;
  const auto before = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code) % 4);
  std::uint8_t* const words = code - before;
  for (std::uint32_t at = 4 * lane; at < before + bytes; at += 4 * kTeamLanes) {
    const std::uint32_t first = at >= before ? at - before : 0;
    std::uint32_t of_row = quotient(first, row_code);
    std::uint32_t column = first - of_row * row_code.value;  // 0: the exponent
    if (at >= before && column > 0 && column + 3 <= row.value) {
      const std::uint32_t number = of_row * row.value + column - 1;
      store(words + at, word_from(number, [&](std::uint32_t word) {
              return load<std::uint32_t>(byte_at(room, 4 * word, kFp8Units));
            }));
      continue;
    }
    for (std::uint32_t i = at >= before ? at : before; i < at + 4 && i < before + bytes; ++i) {
      words[i] = column == 0 ? static_cast<std::uint8_t>(exponents[of_row])
                             : load<std::uint8_t>(byte_at(room, of_row * row.value + column - 1, kFp8Units));
      if (++column == row_code.value) {
        column = 0;
        ++of_row;
      }
    }
  }
}

DIT_SHARED void fp8_rows_in(std::uint32_t lane, std::byte* room, const Divisor& row, std::uint32_t count,
                            const std::uint8_t* code) {
  room += kFp8Begin;
  const std::uint32_t bytes = count + count / row.value;
  for (std::uint32_t at = 4 * lane; at < count; at += 4 * kTeamLanes) {
    std::uint32_t of_row = quotient(at, row);
    std::uint32_t column = at - of_row * row.value;
    const std::uint32_t from = at + of_row + 1;
    const auto before = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code + from) % 4);
    if (column + 4 <= row.value && from >= before && from + 8 - before <= bytes) {
      const std::uint8_t* const words = code + from - before;
      store(byte_at(room, at, kFp8Units),
            word_from(before, [&](std::uint32_t word) { return load<std::uint32_t>(words + 4 * word); }));
      continue;
    }
    for (std::uint32_t i = at; i < at + 4 && i < count; ++i) {
      store(byte_at(room, i, kFp8Units), code[i + of_row + 1]);
      if (++column == row.value) {
        column = 0;
        ++of_row;
      }
    }
  }
}

}  // namespace
}  // namespace dit
