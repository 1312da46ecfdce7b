/// What one rank has found during one check.
#pragma once

#include <string>

namespace dit::conformance {

/// Collects instead of throwing: after a rank has found something wrong, it must still take part in the
/// exchanges of the check, or the others wait for ever.
class Findings {
 public:
  /// Something is wrong, in words; the first counts.
  void problem(const std::string& words) {
    if (problem_.empty()) problem_ = words;
  }
  void expect(bool right, const std::string& words) {
    if (!right) problem(words);
  }
  /// Something to tell that is neither right nor wrong: a time, something that this plugin does not support.
  void note(const std::string& words) { note_ += (note_.empty() ? "" : "; ") + words; }

  [[nodiscard]] const std::string& problem() const { return problem_; }  ///< "" when all is well
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  std::string problem_;
  std::string note_;
};

}  // namespace dit::conformance
