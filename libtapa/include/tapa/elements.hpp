/** @file
 * Errors and element types of the C++ header; included by tapa.hpp.
 */
#ifndef TAPA_ELEMENTS_HPP
#define TAPA_ELEMENTS_HPP

#include <tapa/tapa.h>

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace tapa {

/** A call that failed. what() is the library's message: argument, value, and what would have been right. */
class Error : public std::runtime_error {
 public:
  /** @param code MPI error code
   *  @param what the message */
  Error(int code, const std::string& what) : std::runtime_error(what), code_(code) {}

  /** The MPI error code. */
  [[nodiscard]] int code() const { return code_; }

  /** Its class: MPI_ERR_COUNT, MPI_ERR_ARG, ... */
  [[nodiscard]] int error_class() const {
    int result = code_;
    MPI_Error_class(code_, &result);
    return result;
  }

 private:
  int code_;
};

/** Throws Error with TAPA_Last_error()'s text unless `code` is MPI_SUCCESS. For calls of tapa.h. */
inline void check(int code) {
  if (code != MPI_SUCCESS) throw Error(code, TAPA_Last_error());
}

/** @cond INTERNAL */
namespace detail {

/** Stand for buffers of empty ranges: never null and never one, as MPICH refuses both. */
inline std::byte nothing_sent{};
inline std::byte nothing_received{}; /**< likewise */

/** Where a range to send begins. */
template <class Range>
const void* sent(const Range& range) {
  const void* const begin = std::ranges::data(range);
  return begin != nullptr ? begin : &nothing_sent;
}
/** Where a range to receive into begins. */
template <class Range>
void* received(Range& range) {
  void* const begin = std::ranges::data(range);
  return begin != nullptr ? begin : &nothing_received;
}

inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(code, std::string(call) + ": " + std::string(text, static_cast<std::size_t>(length)));
}

inline void require(bool condition, int code, const std::string& what) {
  if (!condition) throw Error(code, what);
}

/** The MPI datatype of an arithmetic or complex type, or MPI_DATATYPE_NULL for other types. */
template <class T>
MPI_Datatype named_type() {
  if constexpr (std::same_as<T, bool>)
    return MPI_CXX_BOOL;
  else if constexpr (std::same_as<T, std::byte>)
    return MPI_BYTE;
  else if constexpr (std::same_as<T, char>)
    return MPI_CHAR;
  else if constexpr (std::same_as<T, float>)
    return MPI_FLOAT;
  else if constexpr (std::same_as<T, double>)
    return MPI_DOUBLE;
  else if constexpr (std::same_as<T, long double>)
    return MPI_LONG_DOUBLE;
  else if constexpr (std::same_as<T, std::complex<float>>)
    return MPI_C_FLOAT_COMPLEX;
  else if constexpr (std::same_as<T, std::complex<double>>)
    return MPI_C_DOUBLE_COMPLEX;
  else if constexpr (std::signed_integral<T>) {
    return sizeof(T) == 1   ? MPI_INT8_T
           : sizeof(T) == 2 ? MPI_INT16_T
           : sizeof(T) == 4 ? MPI_INT32_T
                            : MPI_INT64_T;
  } else if constexpr (std::unsigned_integral<T>) {
    return sizeof(T) == 1   ? MPI_UINT8_T
           : sizeof(T) == 2 ? MPI_UINT16_T
           : sizeof(T) == 4 ? MPI_UINT32_T
                            : MPI_UINT64_T;
  } else {
    return MPI_DATATYPE_NULL;
  }
}

/** A datatype for T: a named one, or bytes, which then belong to this object. */
template <class T>
class ElementType {
 public:
  ElementType() : type_(named_type<T>()), owned_(type_ == MPI_DATATYPE_NULL) {
    if (!owned_) return;
    check_mpi(MPI_Type_contiguous(static_cast<int>(sizeof(T)), MPI_BYTE, &type_), "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~ElementType() {
    if (owned_) MPI_Type_free(&type_);
  }
  ElementType(const ElementType&) = delete;
  ElementType& operator=(const ElementType&) = delete;
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_;
  bool owned_;
};

/** Whether every block lies inside `elements` elements. */
template <class Count, class Offset>
bool inside(std::span<const Count> counts, std::span<const Offset> displs, std::size_t elements) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    if (counts[i] < 0 || displs[i] < 0) return false;
    const auto end = static_cast<std::uintmax_t>(counts[i]) + static_cast<std::uintmax_t>(displs[i]);
    if (end > elements) return false;
  }
  return true;
}

}  // namespace detail
/** @endcond */

/** Contiguous elements that may be moved as bytes: std::vector<double>, std::span<int>, std::array<Pixel, 4>,
 * ... */
template <class Range>
concept Elements = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;

/** Elements that can be written. */
template <class Range>
concept WritableElements =
    Elements<Range> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

/** A pair of ranges that hold elements of one type, the second writable. */
template <class Send, class Recv>
concept Exchangeable = Elements<Send> && WritableElements<Recv> &&
    std::same_as<std::ranges::range_value_t<Send>, std::ranges::range_value_t<Recv>>;

}  // namespace tapa

#endif /* TAPA_ELEMENTS_HPP */
