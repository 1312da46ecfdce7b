/// What all functions of dit.h share: no exception leaves them, and words for what was wrong.
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "dit/dit.h"
#include "exchange/exchange.hpp"
#include "exchange/struct_sizes.hpp"
#include "memory/reserve.hpp"

namespace dit::c_interface {

/// Keeps "FUNCTION: WHAT" for dit_last_error of this thread. Returns the status.
dit_status fail(dit_status status, const char* function, const char* what) noexcept;

/// The status of the exception that is being handled; keeps its words.
dit_status fail_with_current_exception(const char* function) noexcept;

/// Runs the body of a function of the interface.
template <typename Body>
dit_status guarded(const char* function, Body body) noexcept {
  memory::keep_reserve();  // others would wait for a rank that turns back for want of a small piece
  try {
    body();
    return DIT_OK;
  } catch (...) {
    return fail_with_current_exception(function);
  }
}

/// Throws std::invalid_argument for a size that no version had, and for bytes beyond `known` that are not
/// zero
/// (`from` null: none are looked at).
void require_struct_size(std::size_t given, std::size_t known, const void* from, const char* name,
                         const char* type);

/// Throws std::invalid_argument that names a null pointer.
template <typename T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) {
    throw std::invalid_argument(std::string(name) + " is null");
  }
  return *pointer;
}

/// A struct of the caller's that begins with struct_size: what a smaller one lacks is zero. What a larger one
/// has more must be zero, or std::invalid_argument says that this library does not know it.
template <typename T>
T read_struct(const T* pointer, const char* name, const char* type) {
  const T& given = required(pointer, name);
  require_struct_size(given.struct_size, sizeof(T), &given, name, type);
  return completed(given);
}

/// The caller's struct gets what it has room for, and keeps its struct_size.
template <typename T>
void write_struct(const T& value, T* pointer, const char* name, const char* type) {
  T& to = required(pointer, name);
  const std::size_t size = to.struct_size;
  require_struct_size(size, sizeof(T), nullptr, name, type);
  give(value, to);
  to.struct_size = size;
}

/// Throws std::invalid_argument when something still uses a handle that is to be freed.
void require_none(const char* what, int count, const char* of);

/// Text for a caller's buffer of `bytes`, cut off where it is longer, with a final zero; the full length to
/// *length, which may be null.
void write_text(const std::string& full, char* text, std::size_t bytes, std::size_t* length);

}  // namespace dit::c_interface
