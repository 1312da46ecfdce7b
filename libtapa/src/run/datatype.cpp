#include "run/datatype.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>

#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/type_layout.hpp"

namespace tapa {

namespace {

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
  const TypeInfo info = decode_type(type);
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

/// How far the lowest run lies from the first: 0, or less where the runs go backwards.
MPI_Aint below(const TypeInfo& info) {
  return std::min<MPI_Aint>(0, info.stride * static_cast<MPI_Aint>(info.runs - 1));
}

/// Copies `count` elements whose runs are known between memory and dense bytes. Runs of the length of a
/// number become single instructions; 0: any length.
template <std::size_t length, bool packs>
void copy_runs(const std::byte* from, std::byte* to, MPI_Count count, const TypeInfo& info) {
  const std::size_t bytes = length == 0 ? info.size / info.runs : length;
  std::size_t done = 0;
  for (MPI_Count element = 0; element < count; ++element) {
    MPI_Aint at = element * info.extent + info.first - below(info);
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

/// Where the next data of elements lies whose runs are known.
class RunCursor {
 public:
  /// At byte `begin` of the data.
  RunCursor(const void* origin, const TypeInfo& info, std::size_t begin = 0)
      : info_(info), length_(info.part()), number_(begin % info.size / length_) {
    const auto element = static_cast<MPI_Aint>(begin / info.size) * info.extent;
    const std::size_t into = begin % length_;
    element_ = address_at(origin, info.first - below(info) + element);
    run_ = address_at(element_, static_cast<MPI_Aint>(number_) * info.stride);
    at_ = address_at(run_, static_cast<MPI_Aint>(into));
    left_ = length_ - into;
  }

  [[nodiscard]] std::byte* at() const { return at_; }
  [[nodiscard]] std::size_t left() const { return left_; }  // bytes of this run

  void advance(std::size_t bytes) {
    at_ = address_at(at_, static_cast<MPI_Aint>(bytes));
    left_ -= bytes;
    if (left_ == 0) next();
  }

 private:
  void next() {
    if (++number_ == info_.runs) {
      number_ = 0;
      run_ = element_ = address_at(element_, info_.extent);
    } else {
      run_ = address_at(run_, info_.stride);
    }
    at_ = run_;
    left_ = length_;
  }

  const TypeInfo& info_;
  std::size_t length_;
  std::size_t number_;  // of the run in its element
  std::byte* element_ = nullptr;
  std::byte* run_ = nullptr;
  std::byte* at_ = nullptr;
  std::size_t left_ = 0;
};

/// Runs of one or two numbers become single instructions.
void copy_run(std::byte* to, const std::byte* from, std::size_t bytes) {
  switch (bytes) {
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    default:
      std::memcpy(to, from, bytes);
  }
}

bool in_elements(std::size_t begin, std::size_t bytes, const TypeInfo& info) {
  return info.size == 0 || (begin % info.size == 0 && bytes % info.size == 0);
}

/// The address of the element in which byte `begin` of the data lies.
std::byte* element_at(const void* origin, std::size_t begin, const TypeInfo& info) {
  return info.size == 0 ? address_at(origin, 0)
                        : address_at(origin, static_cast<MPI_Aint>(begin / info.size) * info.extent);
}

MPI_Count elements_of(std::size_t bytes, const TypeInfo& info) {
  return info.size == 0 ? 0 : static_cast<MPI_Count>(bytes / info.size);
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
  const bool named = is_named(type);
  const TypeInfo info = named ? decode_type(type) : info_of_derived(type);
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

void pack_part(const void* from, std::size_t begin, std::size_t bytes, MPI_Datatype type,
               const TypeInfo& info, std::byte* to, MPI_Comm comm) {
  if (in_elements(begin, bytes, info))
    return pack(element_at(from, begin, info), elements_of(bytes, info), type, info, to, comm);
  for (RunCursor source(from, info, begin); bytes > 0;) {
    const std::size_t n = std::min(source.left(), bytes);
    copy_run(to, source.at(), n);
    source.advance(n);
    to += n;
    bytes -= n;
  }
}

void unpack_part(const std::byte* from, void* to, std::size_t begin, std::size_t bytes, MPI_Datatype type,
                 const TypeInfo& info, MPI_Comm comm) {
  if (in_elements(begin, bytes, info))
    return unpack(from, element_at(to, begin, info), elements_of(bytes, info), type, info, comm);
  for (RunCursor target(to, info, begin); bytes > 0;) {
    const std::size_t n = std::min(target.left(), bytes);
    copy_run(target.at(), from, n);
    target.advance(n);
    from += n;
    bytes -= n;
  }
}

bool copy_elements(const void* from, const TypeInfo& from_info, void* to, const TypeInfo& to_info,
                   std::size_t bytes) {
  if (from_info.runs == 0 || to_info.runs == 0) return false;
  if (bytes == 0) return true;
  RunCursor source(from, from_info);
  RunCursor target(to, to_info);
  while (bytes > 0) {
    const std::size_t n = std::min({source.left(), target.left(), bytes});
    copy_run(target.at(), source.at(), n);
    source.advance(n);
    target.advance(n);
    bytes -= n;
  }
  return true;
}

void free_type_keyval() {
  const std::lock_guard lock(keyval_mutex);
  if (keyval != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&keyval);
}

}  // namespace tapa
