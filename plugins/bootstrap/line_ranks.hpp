/// The ranks of a line: what they gather is in order with the exchanges of channel 0.
#pragma once

#include <memory>
#include <string>

#include "bootstrap/line.hpp"
#include "common/ranks.hpp"

namespace dit {

class LineRanks final : public Ranks {
 public:
  /// `doing`: for messages, "register_memory". `limit` in seconds, 0: none.
  LineRanks(std::shared_ptr<Line> line, std::string doing, double limit)
      : line_(std::move(line)), doing_(std::move(doing)), limit_(limit) {}

  [[nodiscard]] int rank() const override { return line_->rank(); }
  [[nodiscard]] int size() const override { return line_->size(); }
  /// When not all come within the limit the line fails, as they would come to something else.
  void allgather(const void* mine, void* all, std::size_t bytes) override;
  [[nodiscard]] std::optional<int> greatest_within(int mine, double limit) override;

 private:
  /// What was wrong when not all have come: the line has failed with it.
  [[nodiscard]] std::optional<PluginFailure> gather_within(const void* mine, void* all, std::size_t bytes,
                                                           double limit);

  std::shared_ptr<Line> line_;
  std::string doing_;
  double limit_;
};

/// The failure of a step for which not all ranks have come within the limit.
[[nodiscard]] PluginFailure overdue(const Line& line, const Step& step, double limit);

}  // namespace dit
