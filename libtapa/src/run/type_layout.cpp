#include "run/type_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <vector>

#include "run/error.hpp"
#include "run/recipe_memory.hpp"

namespace tapa {

namespace {

/// How a type was made, and how many numbers its recipe has.
struct Envelope {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = MPI_COMBINER_NAMED;
  bool large = false;  ///< made with large counts: its recipe cannot be had as ints

  /// Whether MPI made the type itself: named ones, and those of Fortran's kinds, which must not be freed
  /// either.
  [[nodiscard]] bool permanent() const {
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
           combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
  }
};

// MPI 4: the function with ints fails for types that were made with large counts, and tells the error
// handler.
Envelope envelope_of(MPI_Datatype type) {
  Envelope e;
#if MPI_VERSION >= 4
  MPI_Count integers = 0;
  MPI_Count addresses = 0;
  MPI_Count large = 0;
  MPI_Count types = 0;
  check_mpi(PMPI_Type_get_envelope_c(type, &integers, &addresses, &large, &types, &e.combiner),
            "MPI_Type_get_envelope_c");
  e.integers = static_cast<int>(integers);
  e.addresses = static_cast<int>(addresses);
  e.types = static_cast<int>(types);
  e.large = large > 0;
#else
  check_mpi(PMPI_Type_get_envelope(type, &e.integers, &e.addresses, &e.types, &e.combiner),
            "MPI_Type_get_envelope");
#endif
  return e;
}

/// A derived type's recipe; frees the handles that MPI_Type_get_contents made. Not of large ones.
class Contents {
 public:
  Contents(MPI_Datatype type, const Envelope& envelope)
      : integers_(static_cast<std::size_t>(envelope.integers)),
        addresses_(static_cast<std::size_t>(envelope.addresses)),
        types_(static_cast<std::size_t>(envelope.types)) {
    check_mpi(PMPI_Type_get_contents(type, envelope.integers, envelope.addresses, envelope.types,
                                     integers_.data(), addresses_.data(), types_.data()),
              "MPI_Type_get_contents");
  }
  ~Contents() {
    for (MPI_Datatype& type : types_) {
      if (is_derived(type)) PMPI_Type_free(&type);
    }
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  [[nodiscard]] int integer(int i) const { return integers_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] MPI_Aint address(int i) const { return addresses_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] MPI_Datatype type(int i) const { return types_[static_cast<std::size_t>(i)]; }

 private:
  static bool is_derived(MPI_Datatype type) noexcept {
    try {
      return !envelope_of(type).permanent();
    } catch (const CallError&) {  // rather a handle too many
      return false;
    }
  }

  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Datatype> types_;
};

/// Data as runs of bytes of equal length at equal distances, in type map order, relative to the element's
/// origin. No data: runs of 0 bytes.
struct Comb {
  MPI_Aint first = 0;  // offset of the run that comes first
  MPI_Aint bytes = 0;  // of a run
  MPI_Aint count = 1;
  MPI_Aint stride = 0;

  [[nodiscard]] bool one_run() const { return count == 1; }
  [[nodiscard]] MPI_Aint lowest() const { return first + std::min<MPI_Aint>(0, stride * (count - 1)); }
};
using MaybeComb = std::optional<Comb>;

/// Appends a run that follows in type map order; false when it does not follow in memory.
bool append(Comb& all, const Comb& next) {
  if (next.bytes == 0) return true;
  if (!next.one_run()) return false;
  if (all.bytes == 0) {
    all = next;
    return true;
  }
  if (next.first != all.first + all.bytes) return false;
  all.bytes += next.bytes;
  return true;
}

MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  check_mpi(PMPI_Type_get_extent_x(type, &lower, &extent), "MPI_Type_get_extent_x");
  return static_cast<MPI_Aint>(extent);
}

MaybeComb comb_of(MPI_Datatype type);

/// `count` elements, `stride` bytes apart.
MaybeComb repeat(MaybeComb element, MPI_Aint count, MPI_Aint stride) {
  if (count == 0) return Comb{};
  if (!element || count == 1 || element->bytes == 0) return element;
  if (element->one_run() && stride == element->bytes) {
    element->bytes *= count;
  } else if (element->one_run()) {
    element->count = count;
    element->stride = stride;
  } else if (stride == element->count * element->stride) {
    element->count *= count;
  } else {
    return std::nullopt;
  }
  return element;
}

/// A list of blocks of one or several types: block i is `count(i)` elements of `child(i)` at `offset(i)`.
template <class Count, class Child, class Offset>
MaybeComb listed(int blocks, Count count, Child child, Offset offset) {
  Comb all;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MaybeComb element;
  MPI_Aint extent = 0;
  for (int i = 0; i < blocks; ++i) {
    if (count(i) == 0) continue;
    if (child(i) != type) {  // there may be thousands of blocks, of types that are made of such lists
      type = child(i);
      element = comb_of(type);
      extent = extent_of(type);
    }
    MaybeComb block = repeat(element, count(i), extent);
    if (!block) return std::nullopt;
    block->first += offset(i);
    if (blocks == 1) return block;
    if (!append(all, *block)) return std::nullopt;
  }
  return all;
}

/// Bytes of data, and where the first and the last of them lie.
struct Reach {
  MPI_Count size = 0;
  MPI_Count first = 0;
  MPI_Count span = 0;
};

Reach reach_of(MPI_Datatype type) {
  Reach reach;
  check_mpi(PMPI_Type_size_x(type, &reach.size), "MPI_Type_size_x");
  check_mpi(PMPI_Type_get_true_extent_x(type, &reach.first, &reach.span), "MPI_Type_get_true_extent_x");
  return reach;
}

MaybeComb comb_of_permanent(MPI_Datatype type) {
  const auto [size, first, span] = reach_of(type);
  if (size != span) return std::nullopt;  // a pair such as MPI_SHORT_INT has a gap
  return Comb{static_cast<MPI_Aint>(first), static_cast<MPI_Aint>(size)};
}

MaybeComb comb_of_vector(const Contents& c, MPI_Aint stride) {
  const MaybeComb block = repeat(comb_of(c.type(0)), c.integer(1), extent_of(c.type(0)));
  return repeat(block, c.integer(0), stride);
}

/// From the dimension whose elements are neighbours outwards.
MaybeComb comb_of_subarray(const Contents& c) {
  const int dimensions = c.integer(0);
  const bool fortran = c.integer(1 + 3 * dimensions) == MPI_ORDER_FORTRAN;
  MaybeComb part = comb_of(c.type(0));
  MPI_Aint stride = extent_of(c.type(0));
  MPI_Aint start = 0;
  for (int i = 0; i < dimensions; ++i) {
    const int d = 1 + (fortran ? i : dimensions - 1 - i);
    part = repeat(part, c.integer(d + dimensions), stride);
    start += c.integer(d + 2 * dimensions) * stride;
    stride *= c.integer(d);
  }
  if (part) part->first += start;
  return part;
}

MaybeComb comb_of_list(const Contents& c, int combiner) {
  const int n = c.integer(0);
  const MPI_Aint extent = combiner == MPI_COMBINER_STRUCT ? 0 : extent_of(c.type(0));
  const auto length = [&](int i) { return c.integer(1 + i); };
  const auto one_length = [&](int) { return c.integer(1); };
  const auto one_type = [&](int) { return c.type(0); };
  const auto address = [&](int i) { return c.address(i); };
  switch (combiner) {
    case MPI_COMBINER_STRUCT:
      return listed(
          n, length, [&](int i) { return c.type(i); }, address);
    case MPI_COMBINER_HINDEXED:
      return listed(n, length, one_type, address);
    case MPI_COMBINER_INDEXED:
      return listed(n, length, one_type, [&](int i) { return c.integer(1 + n + i) * extent; });
    case MPI_COMBINER_HINDEXED_BLOCK:
      return listed(n, one_length, one_type, address);
    default:
      return listed(n, one_length, one_type, [&](int i) { return c.integer(2 + i) * extent; });
  }
}

/// A list of several blocks is one run or nothing that is known here: a long one with gaps need not be read.
bool is_long_with_gaps(MPI_Datatype type, const Envelope& envelope) {
  constexpr int kLong = 4096;  // no other recipe has so many numbers
  if (envelope.integers <= kLong) return false;
  const Reach reach = reach_of(type);
  return reach.size != reach.span;
}

// What is none, and types it does not know (darray, large counts), MPI packs.
MaybeComb comb_of(MPI_Datatype type) {
  const Envelope envelope = envelope_of(type);
  if (envelope.permanent()) return comb_of_permanent(type);
  if (envelope.large || is_long_with_gaps(type, envelope) || !has_memory_for_recipe(type))
    return std::nullopt;
  const Contents c(type, envelope);
  switch (envelope.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return comb_of(c.type(0));
    case MPI_COMBINER_CONTIGUOUS:
      return repeat(comb_of(c.type(0)), c.integer(0), extent_of(c.type(0)));
    case MPI_COMBINER_VECTOR:
      return comb_of_vector(c, c.integer(2) * extent_of(c.type(0)));
    case MPI_COMBINER_HVECTOR:
      return comb_of_vector(c, c.address(0));
    case MPI_COMBINER_SUBARRAY:
      return comb_of_subarray(c);
    case MPI_COMBINER_STRUCT:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED_BLOCK:
    case MPI_COMBINER_INDEXED_BLOCK:
      return comb_of_list(c, envelope.combiner);
    default:
      return std::nullopt;
  }
}

MaybeComb comb_if_memory(MPI_Datatype type) {
  try {
    return comb_of(type);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

}  // namespace

bool is_permanent(MPI_Datatype type) {
  return envelope_of(type).permanent();
}

TypeInfo decode_type(MPI_Datatype type, bool briefly) {
  const auto [size, first, span] = reach_of(type);
  if (size == MPI_UNDEFINED || size < 0)
    throw CallError(MPI_ERR_TYPE, "size of a datatype is too large to be known");
  TypeInfo info{static_cast<std::size_t>(size), extent_of(type), static_cast<MPI_Aint>(first), false};
  if (size > span) return info;  // more data than memory: elements overlap
  if (briefly && size < span) return info;
  const MaybeComb comb = size == 0 ? MaybeComb(Comb{}) : comb_if_memory(type);
  if (!comb || comb->bytes * comb->count != static_cast<MPI_Aint>(size)) return info;
  // Open MPI 4.1 takes a stride of -1 byte for that of neighbours: MPI packs what it places elsewhere.
  if (!comb->one_run() && comb->lowest() != info.first) return info;
  info.one_run = comb->one_run();
  info.runs = static_cast<std::size_t>(comb->count);
  info.stride = comb->stride;
  if (info.one_run && size > 0) info.first = comb->first;
  return info;
}

}  // namespace tapa
