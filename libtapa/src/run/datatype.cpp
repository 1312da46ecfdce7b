#include "run/datatype.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "run/error.hpp"
#include "run/freed_handles.hpp"

namespace tapa {

namespace {

/// Data bytes that lie in order without gaps, relative to the element's origin.
struct Run {
  MPI_Aint first = 0;
  MPI_Aint bytes = 0;
};
using MaybeRun = std::optional<Run>;

/// How a type was made, and how many numbers its recipe has.
struct Envelope {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = MPI_COMBINER_NAMED;
  bool large = false;  ///< made with large counts: its recipe cannot be had as ints

  [[nodiscard]] bool named() const { return combiner == MPI_COMBINER_NAMED; }
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
      return !envelope_of(type).named();
    } catch (const CallError&) {  // rather a handle too many
      return false;
    }
  }

  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Datatype> types_;
};

/// Appends data that follows in type map order; false when it does not follow in memory.
bool append(Run& run, const Run& next) {
  if (next.bytes == 0) return true;
  if (run.bytes == 0) {
    run = next;
    return true;
  }
  if (next.first != run.first + run.bytes) return false;
  run.bytes += next.bytes;
  return true;
}

MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  check_mpi(PMPI_Type_get_extent_x(type, &lower, &extent), "MPI_Type_get_extent_x");
  return static_cast<MPI_Aint>(extent);
}

MaybeRun run_of(MPI_Datatype type);

/// `count` elements, `stride` bytes apart, from `offset` on.
MaybeRun repeat(const MaybeRun& element, MPI_Aint count, MPI_Aint stride, MPI_Aint offset) {
  if (count == 0) return Run{};
  if (!element || (count > 1 && element->bytes > 0 && stride != element->bytes)) return std::nullopt;
  return Run{element->first + offset, element->bytes * count};
}

/// A list of blocks of one or several types: block i is `count(i)` elements of `child(i)` at `offset(i)`.
template <class Count, class Child, class Offset>
MaybeRun listed(int blocks, Count count, Child child, Offset offset) {
  Run all;
  for (int i = 0; i < blocks; ++i) {
    if (count(i) == 0) continue;
    const MaybeRun block = repeat(run_of(child(i)), count(i), extent_of(child(i)), offset(i));
    if (!block || !append(all, *block)) return std::nullopt;
  }
  return all;
}

MaybeRun run_of_named(MPI_Datatype type) {
  MPI_Count size = 0;
  MPI_Count first = 0;
  MPI_Count span = 0;
  check_mpi(PMPI_Type_size_x(type, &size), "MPI_Type_size_x");
  check_mpi(PMPI_Type_get_true_extent_x(type, &first, &span), "MPI_Type_get_true_extent_x");
  if (size != span) return std::nullopt;  // a pair such as MPI_SHORT_INT has a gap
  return Run{static_cast<MPI_Aint>(first), static_cast<MPI_Aint>(size)};
}

MaybeRun run_of_vector(const Contents& c, MPI_Aint stride) {
  const MaybeRun block = repeat(run_of(c.type(0)), c.integer(1), extent_of(c.type(0)), 0);
  return repeat(block, c.integer(0), stride, 0);
}

MaybeRun run_of_list(const Contents& c, int combiner) {
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

// Types it does not know (subarray, darray, Fortran's numeric ones, large counts) count as not dense: they
// are packed.
MaybeRun run_of(MPI_Datatype type) {
  const Envelope envelope = envelope_of(type);
  if (envelope.named()) return run_of_named(type);
  if (envelope.large) return std::nullopt;
  const Contents c(type, envelope);
  switch (envelope.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return run_of(c.type(0));
    case MPI_COMBINER_CONTIGUOUS:
      return repeat(run_of(c.type(0)), c.integer(0), extent_of(c.type(0)), 0);
    case MPI_COMBINER_VECTOR:
      return run_of_vector(c, c.integer(2) * extent_of(c.type(0)));
    case MPI_COMBINER_HVECTOR:
      return run_of_vector(c, c.address(0));
    case MPI_COMBINER_STRUCT:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED_BLOCK:
    case MPI_COMBINER_INDEXED_BLOCK:
      return run_of_list(c, envelope.combiner);
    default:
      return std::nullopt;
  }
}

/// Runs of equal length at equal distances.
struct Comb {
  Run run;
  MPI_Aint count = 0;
  MPI_Aint stride = 0;
};

/// Vectors of what is one run; of other types that are not one run it is not tried.
std::optional<Comb> comb_of(MPI_Datatype type) {
  const Envelope envelope = envelope_of(type);
  const int combiner = envelope.combiner;
  if (envelope.named() || envelope.large) return std::nullopt;
  const Contents c(type, envelope);
  const bool same = combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_RESIZED ||
                    (combiner == MPI_COMBINER_CONTIGUOUS && c.integer(0) == 1);
  if (same) return comb_of(c.type(0));
  if (combiner != MPI_COMBINER_VECTOR && combiner != MPI_COMBINER_HVECTOR) return std::nullopt;
  const MPI_Aint extent = extent_of(c.type(0));
  const MaybeRun block = repeat(run_of(c.type(0)), c.integer(1), extent, 0);
  if (!block) return std::nullopt;
  return Comb{*block, c.integer(0), combiner == MPI_COMBINER_VECTOR ? c.integer(2) * extent : c.address(0)};
}

TypeInfo decode(MPI_Datatype type) {
  MPI_Count size = 0;
  MPI_Count first = 0;
  MPI_Count span = 0;
  check_mpi(PMPI_Type_size_x(type, &size), "MPI_Type_size_x");
  if (size == MPI_UNDEFINED || size < 0)
    throw CallError(MPI_ERR_TYPE, "size of a datatype is too large to be known");
  check_mpi(PMPI_Type_get_true_extent_x(type, &first, &span), "MPI_Type_get_true_extent_x");
  TypeInfo info{static_cast<std::size_t>(size), extent_of(type), static_cast<MPI_Aint>(first), false};
  if (size <= span) {  // more data than memory: elements overlap
    const MaybeRun run = size == 0 ? MaybeRun(Run{}) : run_of(type);
    info.one_run = run && run->bytes == static_cast<MPI_Aint>(size);
    if (info.one_run && size > 0) info.first = run->first;
    if (info.one_run) {
      info.runs = 1;
    } else if (const auto comb = comb_of(type)) {
      info.runs = static_cast<std::size_t>(comb->count);
      info.stride = comb->stride;
    }
  }
  return info;
}

int delete_info(MPI_Datatype, int, void* value, void*) {
  freed_handles.fetch_add(1, std::memory_order_release);
  delete static_cast<TypeInfo*>(value);
  return MPI_SUCCESS;
}

std::mutex keyval_mutex;  // guards the keyval and the attributes under it
int keyval = MPI_KEYVAL_INVALID;

/// Decoded once, then kept with the type.
TypeInfo info_of_derived(MPI_Datatype type) {
  const std::lock_guard lock(keyval_mutex);
  if (keyval == MPI_KEYVAL_INVALID) {
    check_mpi(PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_info, &keyval, nullptr),
              "MPI_Type_create_keyval");
  }
  void* value = nullptr;
  int found = 0;
  check_mpi(PMPI_Type_get_attr(type, keyval, &value, &found), "MPI_Type_get_attr");
  if (found != 0) return *static_cast<TypeInfo*>(value);
  const TypeInfo info = decode(type);
  check_mpi(PMPI_Type_set_attr(type, keyval, new TypeInfo(info)), "MPI_Type_set_attr");
  return info;
}

/// Calls `step(elements, bytes before it)` for portions that fit MPI_Pack's int sizes.
template <class Step>
void in_portions(MPI_Count count, const TypeInfo& info, Step step) {
  constexpr std::size_t limit = std::numeric_limits<int>::max();
  if (count == 0 || info.size == 0) return;
  if (info.size > limit) {
    throw CallError(MPI_ERR_TYPE,
                    "one element has " + std::to_string(info.size) +
                        " bytes and gaps between them, expected at most 2147483647 for such types");
  }
  const auto portion = static_cast<MPI_Count>(limit / info.size);
  for (MPI_Count done = 0; done < count; done += portion)
    step(done, static_cast<int>(std::min(portion, count - done)));
}

/// Copies `count` elements whose runs are known between memory and dense bytes. Runs of the length of a
/// number become single instructions; 0: any length.
template <std::size_t length, bool packs>
void copy_runs(const std::byte* from, std::byte* to, MPI_Count count, const TypeInfo& info) {
  const std::size_t bytes = length == 0 ? info.size / info.runs : length;
  const MPI_Aint below = std::min<MPI_Aint>(0, info.stride * static_cast<MPI_Aint>(info.runs - 1));
  std::size_t done = 0;
  for (MPI_Count element = 0; element < count; ++element) {
    MPI_Aint at = element * info.extent + info.first - below;
    for (std::size_t run = 0; run < info.runs; ++run, at += info.stride, done += bytes) {
      if constexpr (packs) {
        std::memcpy(to + done, address_at(from, at), bytes);
      } else {
        std::memcpy(address_at(to, at), from + done, bytes);
      }
    }
  }
}

/// False when the runs of the type are not known.
template <bool packs>
bool copy_known(const void* from, void* to, MPI_Count count, const TypeInfo& info) {
  if (info.runs == 0) return false;
  const auto copy = [&](auto length) {
    copy_runs<length(), packs>(static_cast<const std::byte*>(from), static_cast<std::byte*>(to), count, info);
    return true;
  };
  switch (info.size / info.runs) {
    case 4:
      return copy(std::integral_constant<std::size_t, 4>());
    case 8:
      return copy(std::integral_constant<std::size_t, 8>());
    case 16:
      return copy(std::integral_constant<std::size_t, 16>());
    default:
      return copy(std::integral_constant<std::size_t, 0>());
  }
}

}  // namespace

TypeInfo type_info(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) throw CallError(MPI_ERR_TYPE, "datatype is MPI_DATATYPE_NULL");
  // The last types that this thread saw: those of two sides. Handles of named types are never freed; one of a
  // derived type that was freed may come again for another type.
  struct Seen {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    bool named = false;
    std::uint64_t freed = 0;
    TypeInfo info;
  };
  thread_local std::array<Seen, 2> seen;
  thread_local std::size_t oldest = 0;
  const std::uint64_t before = freed_handles.load(std::memory_order_acquire);
  for (const Seen& s : seen) {
    if (s.type == type && (s.named || s.freed == before)) return s.info;
  }
  const bool named = envelope_of(type).named();
  const TypeInfo info = named ? decode(type) : info_of_derived(type);
  seen[oldest] = {type, named, before, info};
  oldest = (oldest + 1) % seen.size();
  return info;
}

void pack(const void* from, MPI_Count count, MPI_Datatype type, const TypeInfo& info, std::byte* to,
          MPI_Comm comm) {
  if (copy_known<true>(from, to, count, info)) return;
  in_portions(count, info, [&](MPI_Count done, int elements) {
    const std::byte* const source = address_at(from, done * info.extent);
    const auto bytes = static_cast<int>(static_cast<std::size_t>(elements) * info.size);
    int position = 0;
    check_mpi(PMPI_Pack(source, elements, type, to + static_cast<std::size_t>(done) * info.size, bytes,
                        &position, comm),
              "MPI_Pack");
  });
}

void unpack(const std::byte* from, void* to, MPI_Count count, MPI_Datatype type, const TypeInfo& info,
            MPI_Comm comm) {
  if (copy_known<false>(from, to, count, info)) return;
  in_portions(count, info, [&](MPI_Count done, int elements) {
    std::byte* const target = address_at(to, done * info.extent);
    const auto bytes = static_cast<int>(static_cast<std::size_t>(elements) * info.size);
    int position = 0;
    check_mpi(PMPI_Unpack(from + static_cast<std::size_t>(done) * info.size, bytes, &position, target,
                          elements, type, comm),
              "MPI_Unpack");
  });
}

void free_type_keyval() {
  const std::lock_guard lock(keyval_mutex);
  if (keyval != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&keyval);
}

}  // namespace tapa
