/// What all ranks of a context do together on the host, one after the other in each channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/caller_functions.hpp"
#include "bootstrap/rounds.hpp"
#include "exchange/plugin_guard.hpp"

namespace dit {

/// One of them. Who waits for it and the line that does it share it.
class Step {
 public:
  Step(StepKind kind, int channel, std::string name)
      : kind_(kind), channel_(channel), name_(std::move(name)) {}
  virtual ~Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  [[nodiscard]] StepKind kind() const { return kind_; }
  [[nodiscard]] int channel() const { return channel_; }
  [[nodiscard]] const std::string& name() const { return name_; }  ///< "the exchange 'v'"

  /// Of a gather: what each rank gives.
  [[nodiscard]] virtual std::size_t bytes() const { return 0; }
  /// Of an exchange: what it sends to each rank, then what it expects from each.
  [[nodiscard]] virtual std::span<const std::uint64_t> blocks() const { return {}; }
  /// By the line's thread, once all ranks have come and agree on it. `blocks` are those of all ranks, of an
  /// exchange. What goes wrong is thrown, and ends the line.
  virtual void run(CallerFunctions& functions, std::span<const std::uint64_t> blocks) = 0;

 private:
  friend class Line;
  StepKind kind_;
  int channel_;
  std::string name_;
  // Guarded by the line's mutex.
  std::uint64_t number_ = 0;
  bool ended_ = false;
  std::optional<PluginFailure> failure_;
};

/// What every rank gives, in order of ranks.
class GatherStep final : public Step {
 public:
  GatherStep(std::string name, const void* mine, std::size_t bytes, int size)
      : Step(StepKind::gather, 0, std::move(name)),
        mine_(static_cast<const std::byte*>(mine), static_cast<const std::byte*>(mine) + bytes),
        all_(static_cast<std::size_t>(size) * bytes) {}

  [[nodiscard]] std::size_t bytes() const override { return mine_.size(); }
  void run(CallerFunctions& functions, std::span<const std::uint64_t>) override {
    functions.allgather(mine_.data(), all_.data(), mine_.size());
  }
  /// Once it has ended.
  [[nodiscard]] std::span<const std::byte> all() const { return all_; }

 private:
  std::vector<std::byte> mine_, all_;
};

/// The bootstrap of a part, on its members.
class PartStep final : public Step {
 public:
  explicit PartStep(std::vector<int> ranks)
      : Step(StepKind::part, 0, "make_part"), ranks_(std::move(ranks)) {}

  // A program that cannot make a part has told nobody: the ranks agree on it afterwards.
  void run(CallerFunctions& functions, std::span<const std::uint64_t>) override {
    try {
      part_ = functions.make_part(ranks_);
    } catch (const PluginFailure& failure) {
      problem_ = failure.what();
    }
  }
  /// Once it has ended.
  [[nodiscard]] const std::optional<dit_bootstrap>& part() const { return part_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::vector<int> ranks_;
  std::optional<dit_bootstrap> part_;
  std::string problem_;
};

}  // namespace dit
