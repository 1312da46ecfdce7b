/// Things by name, as operators are given them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace dit::operators {

/// By any threads.
template <typename Thing>
class Names {
 public:
  /// `kind`: "group", for messages.
  explicit Names(const char* kind) : kind_(kind) {}

  /// Keeps a name for what is about to be made. Throws std::invalid_argument when it is in use, or empty.
  void reserve(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (name.empty()) throw std::invalid_argument(std::string(kind_) + " is \"\": expected a name");
    if (!things_.emplace(name, nullptr).second)
      throw std::invalid_argument(std::string(kind_) + " = \"" + name + "\" is in use: expected a new name");
  }
  void put(const std::string& name, std::shared_ptr<Thing> thing) {
    const std::lock_guard lock(mutex_);
    things_[name] = std::move(thing);
  }
  /// What had the name, or null.
  std::shared_ptr<Thing> take(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto at = things_.find(name);
    if (at == things_.end()) return nullptr;
    std::shared_ptr<Thing> thing = std::move(at->second);
    things_.erase(at);
    return thing;
  }
  [[nodiscard]] bool has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto at = things_.find(name);
    return at != things_.end() && at->second != nullptr;
  }
  /// Throws std::invalid_argument for a name that is not known.
  [[nodiscard]] std::shared_ptr<Thing> get(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto at = things_.find(name);
    if (at != things_.end() && at->second != nullptr) return at->second;
    std::string known;
    for (const auto& [other, thing] : things_) known += (known.empty() ? "" : ", ") + other;
    throw std::invalid_argument(std::string(kind_) + " = \"" + name + "\" is not known: expected one of: " +
                                (known.empty() ? "(there is none)" : known));
  }

 private:
  const char* kind_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Thing>, std::less<>> things_;
};

}  // namespace dit::operators
