/// @file
/// What a datatype looks like in memory, and packing of those whose data is not one run of bytes.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

namespace tapa {

/// The address `bytes` behind `base`, which may be MPI_BOTTOM (null) or an address that was reckoned from it:
/// arithmetic on such pointers is not defined, on integers it is.
[[nodiscard]] inline std::byte* address_at(const void* base, MPI_Aint bytes) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) +
                                      static_cast<std::uintptr_t>(bytes));
}

/// The memory of one element of a datatype.
struct TypeInfo {
  std::size_t size = 0;   ///< bytes of data
  MPI_Aint extent = 0;    ///< distance of consecutive elements; may be negative
  MPI_Aint first = 0;     ///< offset of the lowest data byte (true lower bound); may be negative
  bool one_run = false;   ///< data bytes lie in type map order without gaps from `first` on
  std::size_t runs = 0;   ///< if not 0: the data are so many runs of equal length in type map order,
  MPI_Aint stride = 0;    ///< each so many bytes behind the one before
  bool committed = true;  ///< whether MPI takes it in communication

  /// Data can be copied in parts of a multiple of so many bytes.
  [[nodiscard]] std::size_t part() const { return runs != 0 ? size / runs : size; }
  /// Whether `count` elements in a row are one run of bytes in order.
  [[nodiscard]] bool dense(MPI_Count count) const { return count <= 1 ? one_run : always_dense(); }
  /// The same whatever their number is.
  [[nodiscard]] bool always_dense() const { return one_run && extent == static_cast<MPI_Aint>(size); }
};

/// Decodes a datatype; the result is kept with derived types, as an attribute. Throws CallError
/// (MPI_ERR_TYPE) for MPI_DATATYPE_NULL and types whose size MPI does not know.
[[nodiscard]] TypeInfo type_info(MPI_Datatype type);

/// Copies the data of `count` elements at `from` to the dense bytes at `to` (count * info.size of them), with
/// MPI_Pack. The bytes of packed data are those of the elements in type map order, as in every MPI for one
/// kind of machine.
void pack(const void* from, MPI_Count count, MPI_Datatype type, const TypeInfo& info, std::byte* to,
          MPI_Comm comm);

/// The reverse; gaps of the layout at `to` are not touched.
void unpack(const std::byte* from, void* to, MPI_Count count, MPI_Datatype type, const TypeInfo& info,
            MPI_Comm comm);

/// The same for `bytes` bytes from byte `begin` of the packed data on, of a type that has data. Both are
/// multiples of info.part(); what is unpacked may also end within it.
void pack_part(const void* from, std::size_t begin, std::size_t bytes, MPI_Datatype type,
               const TypeInfo& info, std::byte* to, MPI_Comm comm);
void unpack_part(const std::byte* from, void* to, std::size_t begin, std::size_t bytes, MPI_Datatype type,
                 const TypeInfo& info, MPI_Comm comm);

/// Copies `bytes` bytes of data from elements to others, which share no memory with them, without a packed
/// copy between. False when the runs of one of the types are not known; then nothing is copied.
[[nodiscard]] bool copy_elements(const void* from, const TypeInfo& from_info, void* to,
                                 const TypeInfo& to_info, std::size_t bytes);

/// Frees the keyval that holds decoded types; called at finalize.
void free_type_keyval();

}  // namespace tapa
