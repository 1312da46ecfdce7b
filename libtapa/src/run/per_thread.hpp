/// @file
/// What is kept of a thread: in one place, as looking it up takes time. Nothing of it needs a constructor or
/// a destructor: programs make calls while threads and the process begin and end.
#pragma once

#include <array>

#include "run/datatype.hpp"
#include "run/error.hpp"

namespace tapa {

/// What a call owns while MPI carries it out. MPI's error handler may jump over any owner on the stack, so
/// the thread has it: what was jumped over goes with its next such call.
class HandedToMpi {
 public:
  HandedToMpi() = default;
  HandedToMpi(const HandedToMpi&) = delete;
  HandedToMpi& operator=(const HandedToMpi&) = delete;
  virtual ~HandedToMpi() = default;
};

struct PerThread {
  ErrorNotes errors;
  /// The last datatypes, the newest first: those of two sides. Handles of MPI's own types are never freed;
  /// one of a derived type that was freed may come again for another type.
  struct Type {
    bool known = false;
    bool permanent = false;
    bool brief = false;  ///< its recipe was not read yet
    unsigned looks = 0;  ///< at a brief one
    MPI_Datatype type{};
    std::uint64_t freed = 0;
    TypeInfo info;
  };
  std::array<Type, 2> types;
  /// Whether it is inside the progress engine: what that calls in MPI may call the hook again.
  bool inside_engine = false;
  HandedToMpi* handed = nullptr;
};

extern thread_local constinit PerThread per_thread;

}  // namespace tapa
