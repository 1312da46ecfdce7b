/// @file
/// The parts of the verifier; internal to it. Each adds what it finds to a Report. check_shape must be clean
/// before anything else may look at the plan, check_messages before it is replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "explain/verify.hpp"

namespace tapa::verifier {

/// Collects defects up to a limit.
class Report {
 public:
  explicit Report(std::size_t limit) : limit_(limit) {}

  void add(Defect::Kind kind, std::string what) {
    if (!full()) defects_.push_back({kind, std::move(what)});
  }
  [[nodiscard]] bool full() const { return defects_.size() >= limit_; }
  [[nodiscard]] bool clean() const { return defects_.empty(); }
  std::vector<Defect> take() { return std::move(defects_); }

 private:
  std::size_t limit_;
  std::vector<Defect> defects_;
};

/// "rank 3 step 12 (recv from 5, channel 2)".
std::string name_of(const Plan& plan, std::size_t rank, std::size_t step);

/// "bytes 16..32".
std::string bytes_text(std::size_t begin, std::size_t end);

/// Where each block of a rank's receive buffer begins when the blocks are laid out one after the other:
/// start[src], and the total at the end.
std::vector<std::size_t> receive_starts(const Counts& counts, int rank);

/// Indices, ranges, sizes and bounds of everything; writes to the send buffer.
void check_shape(const Plan& plan, const Counts& counts, Report& report);

/// The other end's step of every message, partner[rank][step]. Complete only when nothing was reported.
using Partners = std::vector<std::vector<std::uint32_t>>;
Partners check_messages(const Plan& plan, Report& report);

/// Steps of one rank that touch the same bytes, one of them writing, without an order between them.
void check_races(const Plan& plan, const Counts& counts, Report& report);

/// Runs the plan on names of bytes instead of bytes: deadlock, reads before writes, what arrives where.
void replay(const Plan& plan, const Counts& counts, const Partners& partners, Report& report);

}  // namespace tapa::verifier
