/// @file
/// Values that several threads use, each with its lock.
#pragma once

#include <mutex>

namespace tapa {

/// A value that is locked as long as this lives.
template <class Value>
class Locked {
 public:
  Locked(std::mutex& mutex, Value& value) : lock_(mutex), value_(&value) {}
  Value* operator->() const { return value_; }
  Value& operator*() const { return *value_; }

 private:
  std::unique_lock<std::mutex> lock_;
  Value* value_;
};

/// The one of its type that the process has. Never destroyed: MPI may end after static objects do.
template <class Value>
[[nodiscard]] Locked<Value> locked() {
  struct Kept {
    std::mutex mutex;
    Value value;
  };
  static auto* const kept = new Kept;
  return {kept->mutex, kept->value};
}

}  // namespace tapa
