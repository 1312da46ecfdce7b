/// What all functions of dit.h share: no exception leaves them, and words for what was wrong.
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "dit/dit.h"
#include "exchange/exchange.hpp"

namespace dit::c_interface {

/// Keeps "FUNCTION: WHAT" for dit_last_error of this thread. Returns the status.
dit_status fail(dit_status status, const char* function, const char* what) noexcept;

/// The status of the exception that is being handled; keeps its words.
dit_status fail_with_current_exception(const char* function) noexcept;

/// Runs the body of a function of the interface.
template <typename Body>
dit_status guarded(const char* function, Body body) noexcept {
  try {
    body();
    return DIT_OK;
  } catch (...) {
    return fail_with_current_exception(function);
  }
}

/// Throws std::invalid_argument that names a null pointer.
template <typename T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) {
    throw std::invalid_argument(std::string(name) + " is null");
  }
  return *pointer;
}

/// The same for a struct that begins with struct_size, which must be one that this library knows.
template <typename T>
T& required_struct(T* pointer, const char* name, const char* type) {
  T& value = required(pointer, name);
  if (value.struct_size < sizeof(T)) {
    throw std::invalid_argument(std::string(name) + "->struct_size = " + std::to_string(value.struct_size) +
                                ": expected sizeof(" + type + ") = " + std::to_string(sizeof(T)));
  }
  return value;
}

/// Memory that must have exactly so many bytes.
void require_memory(const char* name, const void* memory, std::size_t bytes, std::size_t expected);

}  // namespace dit::c_interface
