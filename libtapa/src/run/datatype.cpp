#include "run/datatype.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/long_elements.hpp"
#include "run/per_thread.hpp"
#include "run/private_comm.hpp"
#include "run/type_layout.hpp"

namespace tapa {

namespace {

/// What is kept with a derived type.
struct Kept {
  TypeInfo info;
  bool brief = false;  ///< its recipe was not read yet
};

int delete_info(MPI_Datatype, int, void* value, void*) {
  freed_types.fetch_add(1, std::memory_order_release);
  delete static_cast<Kept*>(value);
  return MPI_SUCCESS;
}

std::mutex keyval_mutex;  // guards the keyval and the attributes under it
int keyval = MPI_KEYVAL_INVALID;

/// MPI tells by refusing to pack what is not.
bool is_committed(MPI_Datatype type) {
  char byte = 0;
  int position = 0;
  return PMPI_Pack(&byte, 0, type, &byte, 1, &position, alone_comm()) == MPI_SUCCESS;
}

/// Decoded once, or twice where that was brief. `whole`: not briefly.
Kept info_of_derived(MPI_Datatype type, bool whole) {
  const std::lock_guard lock(keyval_mutex);
  if (keyval == MPI_KEYVAL_INVALID) {
    check_mpi(PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_info, &keyval, nullptr),
              "MPI_Type_create_keyval");
  }
  void* value = nullptr;
  int found = 0;
  check_mpi(PMPI_Type_get_attr(type, keyval, &value, &found), "MPI_Type_get_attr");
  if (found != 0) {
    Kept& kept = *static_cast<Kept*>(value);
    if (whole && kept.brief) kept = {decode_type(type)};
    return kept;
  }
  Kept kept{decode_type(type, !whole)};
  kept.brief = !whole && kept.info.runs == 0;
  kept.info.committed = is_committed(type);
  if (!kept.info.committed) return kept;  // it may become so
  check_mpi(PMPI_Type_set_attr(type, keyval, new Kept(kept)), "MPI_Type_set_attr");
  return kept;
}

constexpr unsigned kFewLooks = 256;  ///< at a type whose recipe was not read: those of some calls

/// From what the thread remembers. `whole`: with the recipe.
TypeInfo known_info(MPI_Datatype type, bool whole) {
  const std::uint64_t before = freed_types.load(std::memory_order_acquire);
  PerThread::Type* found = nullptr;
  for (PerThread::Type& seen : per_thread.types) {
    if (!seen.known || seen.type != type || !(seen.permanent || seen.freed == before)) continue;
    if (!seen.brief || (!whole && ++seen.looks < kFewLooks)) return seen.info;
    found = &seen;
    whole = true;
  }
  const bool permanent = is_permanent(type);
  const Kept kept = permanent ? Kept{decode_type(type)} : info_of_derived(type, whole);
  if (!kept.info.committed) return kept.info;
  if (found == nullptr) {
    per_thread.types[1] = per_thread.types[0];
    found = per_thread.types.data();
  }
  *found = {true, permanent, kept.brief, 0, type, before, kept.info};
  return kept.info;
}

constexpr std::size_t kMostPacked = std::numeric_limits<int>::max();

/// Calls `step(elements before it, elements)` for portions that fit MPI_Pack's int sizes.
template <class Step>
void in_portions(MPI_Count count, const TypeInfo& info, Step step) {
  if (count == 0 || info.size == 0) return;
  const auto portion = static_cast<MPI_Count>(std::max<std::size_t>(1, kMostPacked / info.size));
  for (MPI_Count done = 0; done < count; done += portion)
    step(done, static_cast<int>(std::min(portion, count - done)));
}

/// How far the lowest run lies from the first: 0, or less where the runs go backwards.
MPI_Aint below(const TypeInfo& info) {
  return std::min<MPI_Aint>(0, info.stride * static_cast<MPI_Aint>(info.runs - 1));
}

/// Copies `runs` runs, each `to_stride` and `from_stride` bytes behind the one before. Runs of the length of
/// a number become single instructions; 0: `bytes` each.
template <std::size_t length>
void copy_runs(std::byte* to, MPI_Aint to_stride, const std::byte* from, MPI_Aint from_stride,
               std::size_t runs, std::size_t bytes) {
  for (std::size_t run = 0; run < runs; ++run) {
    const auto i = static_cast<MPI_Aint>(run);
    std::memcpy(address_at(to, i * to_stride), address_at(from, i * from_stride),
                length == 0 ? bytes : length);
  }
}

/// Calls `step` with the length of runs that is best known to the compiler: 0 stands for any.
template <class Step>
void with_length(std::size_t bytes, const Step& step) {
  switch (bytes) {
    case 4:
      return step(std::integral_constant<std::size_t, 4>());
    case 8:
      return step(std::integral_constant<std::size_t, 8>());
    case 16:
      return step(std::integral_constant<std::size_t, 16>());
    default:
      return step(std::integral_constant<std::size_t, 0>());
  }
}

/// The distance of runs that go on from element to element, if they do.
struct Pace {
  MPI_Aint stride;
  bool goes_on;
};
Pace pace_of(const TypeInfo& info) {
  const MPI_Aint stride = info.runs == 1 ? info.extent : info.stride;
  return {stride, info.extent == static_cast<MPI_Aint>(info.runs) * stride};
}

/// Copies `count` elements between memory and dense bytes. False when the runs of the type are not known.
template <bool packs>
bool copy_known(const void* from, void* to, MPI_Count count, const TypeInfo& info) {
  if (info.runs == 0) return false;
  if (info.size == 0) return true;
  const std::size_t bytes = info.part();
  const auto dense = static_cast<MPI_Aint>(bytes);
  const Pace pace = pace_of(info);
  const MPI_Count groups = pace.goes_on ? std::min<MPI_Count>(count, 1) : count;
  const std::size_t runs = pace.goes_on ? static_cast<std::size_t>(count) * info.runs : info.runs;
  with_length(bytes, [&](auto length) {
    for (MPI_Count group = 0; group < groups; ++group) {
      const MPI_Aint at = group * info.extent + info.first - below(info);
      const auto packed = static_cast<MPI_Aint>(info.size) * group;
      if constexpr (packs) {
        copy_runs<length()>(address_at(to, packed), dense, address_at(from, at), pace.stride, runs, bytes);
      } else {
        copy_runs<length()>(address_at(to, at), pace.stride, address_at(from, packed), dense, runs, bytes);
      }
    }
  });
  return true;
}

/// Where the next data lies of elements whose runs are known, or of dense bytes.
class RunCursor {
 public:
  /// At byte `begin` of the data, where a run begins.
  RunCursor(const void* origin, const TypeInfo& info, std::size_t begin)
      : length_(info.part()),
        stride_(pace_of(info).stride),
        extent_(info.extent),
        runs_(info.runs),
        runs_left_(info.runs - begin % info.size / length_),
        left_(length_) {
    const auto elements = static_cast<MPI_Aint>(begin / info.size);
    element_ = address_at(origin, info.first - below(info) + elements * extent_);
    run_ = address_at(element_, static_cast<MPI_Aint>(runs_ - runs_left_) * stride_);
    if (pace_of(info).goes_on) runs_left_ = kEndless;
  }
  /// Dense bytes as runs of `length` bytes, without end.
  RunCursor(const void* data, std::size_t length)
      : length_(length),
        stride_(static_cast<MPI_Aint>(length)),
        runs_left_(kEndless),
        left_(length),
        run_(address_at(data, 0)) {}

  [[nodiscard]] std::byte* at() const { return address_at(run_, static_cast<MPI_Aint>(length_ - left_)); }
  [[nodiscard]] std::size_t length() const { return length_; }
  [[nodiscard]] MPI_Aint stride() const { return stride_; }
  /// Bytes of this run.
  [[nodiscard]] std::size_t left() const { return left_; }
  /// Runs of this element, with this one.
  [[nodiscard]] std::size_t runs_left() const { return runs_left_; }

  void skip_bytes(std::size_t bytes) {
    left_ -= bytes;
    if (left_ > 0) return;
    left_ = length_;
    skip_runs(1);
  }
  void skip_runs(std::size_t runs) {
    runs_left_ -= runs;
    run_ = address_at(run_, static_cast<MPI_Aint>(runs) * stride_);
    if (runs_left_ > 0) return;
    runs_left_ = runs_;
    run_ = element_ = address_at(element_, extent_);
  }

 private:
  static constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max();

  std::size_t length_;
  MPI_Aint stride_;
  MPI_Aint extent_ = 0;
  std::size_t runs_ = 0;  // of an element
  std::size_t runs_left_;
  std::size_t left_;
  std::byte* element_ = nullptr;
  std::byte* run_ = nullptr;
};

/// Both begin with a whole run. Runs of one length go together as far as both elements reach, others in
/// pieces.
void copy_data(RunCursor to, RunCursor from, std::size_t bytes) {
  const std::size_t length = from.length();
  const bool alike = to.length() == length;
  while (bytes > 0) {
    if (const std::size_t runs = alike ? std::min({from.runs_left(), to.runs_left(), bytes / length}) : 0) {
      with_length(length, [&](auto known) {
        copy_runs<known()>(to.at(), to.stride(), from.at(), from.stride(), runs, length);
      });
      to.skip_runs(runs);
      from.skip_runs(runs);
      bytes -= runs * length;
    } else {
      const std::size_t n = std::min({from.left(), to.left(), bytes});
      std::memcpy(to.at(), from.at(), n);
      to.skip_bytes(n);
      from.skip_bytes(n);
      bytes -= n;
    }
  }
}

/// Whether a part of the data is some whole elements.
bool in_elements(std::size_t begin, std::size_t bytes, const TypeInfo& info) {
  return begin % info.size == 0 && bytes % info.size == 0;
}

/// The element in which byte `begin` of the data lies.
std::byte* element_at(const void* origin, std::size_t begin, const TypeInfo& info) {
  return address_at(origin, static_cast<MPI_Aint>(begin / info.size) * info.extent);
}

}  // namespace

TypeInfo type_info(MPI_Datatype type) {
  for (const PerThread::Type& seen : per_thread.types) {
    if (seen.type == type && seen.permanent) return seen.info;
  }
  if (type == MPI_DATATYPE_NULL) throw CallError(MPI_ERR_TYPE, "datatype is MPI_DATATYPE_NULL");
  return known_info(type, false);
}

TypeInfo read_recipe(MPI_Datatype type) {
  return known_info(type, true);
}

void pack(const void* from, MPI_Count count, MPI_Datatype type, const TypeInfo& info, std::byte* to,
          MPI_Comm comm) {
  if (copy_known<true>(from, to, count, info)) return;
  in_portions(count, info, [&](MPI_Count done, int elements) {
    const std::byte* const source = address_at(from, done * info.extent);
    std::byte* const target = to + static_cast<std::size_t>(done) * info.size;
    if (info.size > kMostPacked) return pack_long(source, type, info.size, target, comm);
    const auto bytes = static_cast<int>(static_cast<std::size_t>(elements) * info.size);
    int position = 0;
    check_mpi(PMPI_Pack(source, elements, type, target, bytes, &position, comm), "MPI_Pack");
  });
}

void unpack(const std::byte* from, void* to, MPI_Count count, MPI_Datatype type, const TypeInfo& info,
            MPI_Comm comm) {
  if (copy_known<false>(from, to, count, info)) return;
  in_portions(count, info, [&](MPI_Count done, int elements) {
    const std::byte* const source = from + static_cast<std::size_t>(done) * info.size;
    std::byte* const target = address_at(to, done * info.extent);
    if (info.size > kMostPacked) return unpack_long(source, info.size, target, type, comm);
    const auto bytes = static_cast<int>(static_cast<std::size_t>(elements) * info.size);
    int position = 0;
    check_mpi(PMPI_Unpack(source, bytes, &position, target, elements, type, comm), "MPI_Unpack");
  });
}

void pack_part(const void* from, std::size_t begin, std::size_t bytes, MPI_Datatype type,
               const TypeInfo& info, std::byte* to, MPI_Comm comm) {
  if (bytes == 0) return;
  if (!in_elements(begin, bytes, info))
    return copy_data(RunCursor(to, info.part()), RunCursor(from, info, begin), bytes);
  pack(element_at(from, begin, info), static_cast<MPI_Count>(bytes / info.size), type, info, to, comm);
}

// The rest of a last element that is there in part stays as it was.
void unpack_part(const std::byte* from, void* to, std::size_t begin, std::size_t bytes, MPI_Datatype type,
                 const TypeInfo& info, MPI_Comm comm) {
  if (bytes == 0) return;
  if (info.runs != 0 && !in_elements(begin, bytes, info))
    return copy_data(RunCursor(to, info, begin), RunCursor(from, info.part()), bytes);
  const std::size_t whole = bytes / info.size * info.size;
  unpack(from, element_at(to, begin, info), static_cast<MPI_Count>(whole / info.size), type, info, comm);
  if (whole == bytes) return;
  std::byte* const last = element_at(to, begin + whole, info);
  std::vector<std::byte> element(info.size);
  pack(last, 1, type, info, element.data(), comm);
  std::memcpy(element.data(), from + whole, bytes - whole);
  unpack(element.data(), last, 1, type, info, comm);
}

bool copy_elements(const void* from, const TypeInfo& from_info, void* to, const TypeInfo& to_info,
                   std::size_t bytes) {
  if (from_info.runs == 0 || to_info.runs == 0) return false;
  if (bytes > 0) copy_data(RunCursor(to, to_info, 0), RunCursor(from, from_info, 0), bytes);
  return true;
}

void free_type_keyval() {
  const std::lock_guard lock(keyval_mutex);
  if (keyval != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&keyval);
}

}  // namespace tapa
