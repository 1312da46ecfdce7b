/// Which block travels how: rules for tensors, levels, layers, steps and guidance branches. Pure; the same on
/// all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/layout.hpp"
#include "wire/wire_mode.hpp"

namespace dit {

[[nodiscard]] const char* to_string(AttentionTensor tensor);  ///< q, k, v, o
[[nodiscard]] const char* to_string(TokenPart tokens);        ///< all, text, image

inline constexpr int kBranches = 2;  ///< of guidance

/// First and last, both included; below 0: counted from the end, -1 is the last one.
struct WireRange {
  int first = 0;
  int last = -1;
  bool operator==(const WireRange&) const = default;
};

/// What it says of which blocks. Empty or default: of all.
struct WireRule {
  std::vector<AttentionTensor> tensors;
  std::string level;  ///< links of this level or a slower one; empty: all that leave a node
  WireRange layers, steps;
  int every = 1;                      ///< of the steps: the first one, and every so manieth after it
  int branch = -1;                    ///< guidance branch: 0 conditional, 1 not; -1: both
  TokenPart tokens = TokenPart::all;  ///< of the joint sequence
  WireMode mode;
  bool operator==(const WireRule&) const = default;
};

/// Of several rules for a block the last one counts; without one it travels in full. Blocks that nobody has
/// seen yet (the first step) travel in full where a rule says skip, with all rows where it says rows or
/// v-major, and at once where it says late; transfers look up step 0 for what comes for the first time in a
/// later one. V-Major's rows are the same of Q, K and V on all levels: one ratio for a layer, step and
/// branch. Of the output all rows travel. Where rules tell text tokens from image tokens both are blocks of
/// their own, and no rule is V-Major's.
struct WirePolicy {
  std::string name;
  float momentum =
      0;  ///< how far what moved is expected to move on, 0 to 1; takes memory, a third of what the values do
  /// A skipped tensor that would be so many steps old travels in full; rows that old travel before all
  /// others. 0: any age.
  int most_age = 0;
  /// Where any rank would leave more than this of a tensor behind (relative L2, after decoding), all ranks
  /// send this tensor of this layer in bf16 in this step; 0: nobody looks. Takes a word of all ranks before
  /// each exchange, and of device memory a wait of the host for its stream.
  double guard = 0;
  /// Levels whose links carry everything in full, whatever the rules say: those on which coding would take
  /// longer than it saves (predict/coding_gain.hpp).
  std::vector<std::string> off;
  std::vector<WireRule> rules;
  bool operator==(const WirePolicy&) const = default;
};

/// "exact"; "bf16", "int8", "fp8" (each step, nothing remembered); a ladder of residuals, fewer bytes and
/// lower quality with each: "fine", "good", "balanced", "fast", "draft"; or "displaced": bf16, and from the
/// fifth step on K and V of the step before are used while the new ones travel. V-Major as published
/// ("paper") is wire/v_major.hpp's.
[[nodiscard]] std::vector<std::string> wire_preset_names();
/// For a run of so many steps: the fewer there are, the farther tensors move in each, and the more bits they
/// get. Throws std::invalid_argument that lists the names.
[[nodiscard]] WirePolicy wire_preset(std::string_view name, int steps);
/// The momentum that suits a run of so many steps: the longer the steps, the less the last one tells of the
/// next.
[[nodiscard]] float suitable_momentum(int steps);

/// Throws std::invalid_argument that names the rule, the field, its value and what was expected.
void check(const WirePolicy& policy);
/// Whether some rule is for text or for image tokens alone.
[[nodiscard]] bool knows_tokens(const WirePolicy& policy);

/// A policy for one run: levels and ranges as numbers.
class WirePlan {
 public:
  struct Shape {
    int layers = 0;
    int steps = 0;
    std::vector<std::string> levels;  ///< names, fast to slow
    int slow_level = 0;               ///< the first that leaves a node
  };
  /// Takes time and memory as tensors x levels x layers x steps, but layers that no rule tells apart count
  /// once. Throws std::invalid_argument as check, also for levels that are not there and for two ratios of
  /// V-Major in one layer and step; rules for layers or steps that this run has not are no error.
  WirePlan(const WirePolicy& policy, const Shape& shape);

  /// `level`: at which the peer is reached. All within the shape. `tokens`: text or image; most are image's.
  [[nodiscard]] WireMode mode(AttentionTensor tensor, int level, int layer, int step, int branch,
                              TokenPart tokens = TokenPart::image) const;
  /// The first of the neighbouring layers that all rules treat like this one: modes are the same there.
  [[nodiscard]] int first_alike(int layer) const {
    return first_of_group_[static_cast<std::size_t>(group_of_[static_cast<std::size_t>(layer)])];
  }
  /// Whether any mode is not exact, whatever the step.
  [[nodiscard]] bool touches(AttentionTensor tensor, int level, int layer) const;
  /// Whether an end must remember the tensor in this layer; all: any of its tokens.
  [[nodiscard]] bool remembers(AttentionTensor tensor, int level, int layer, WireEnd end,
                               TokenPart tokens = TokenPart::all) const;
  /// V-Major's ratio on any level; nothing where no tensor's rows stay by it.
  [[nodiscard]] std::optional<double> v_major(int layer, int step, int branch) const;
  /// Whether V-Major ever chooses rows of this layer.
  [[nodiscard]] bool uses_v_major(int layer) const;
  [[nodiscard]] bool uses_v_major() const;
  /// Whether V travels with all its rows wherever V-Major is used in other steps.
  [[nodiscard]] bool brings_all_values(int layer, int step, int branch) const;
  /// Of the rows of Q, K and V those that V-Major sends in a step: the mean of layers and branches.
  [[nodiscard]] double active_fraction(int step) const;
  [[nodiscard]] bool knows_branches() const;  ///< some rule is for one branch only
  /// Text and image where some rule is for one of them only; else all. Blocks of each peer, in this order.
  [[nodiscard]] std::span<const TokenPart> parts() const;
  [[nodiscard]] const WirePolicy& policy() const { return policy_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  /// Whether rows or whole tensors may stay behind or come late.
  [[nodiscard]] bool ages() const;

 private:
  struct Place {
    int level = 0;
    WireRange layers, steps;
  };
  [[nodiscard]] int level_named(const std::string& where, const std::string& name) const;
  [[nodiscard]] bool covers(std::size_t rule, AttentionTensor tensor, int level, int layer,
                            TokenPart tokens) const;
  [[nodiscard]] bool has_v_major(int level, int layer) const;
  void check_ratios() const;
  void group_layers();
  void paint();
  void paint(std::size_t rule, AttentionTensor tensor, int level, TokenPart tokens);
  [[nodiscard]] std::size_t index_of(AttentionTensor tensor, int level, int layer, int step, int branch,
                                     TokenPart tokens) const;

  /// What counts at a place.
  struct Cell {
    std::uint32_t rule = 0;  ///< number of the last one that covers it, from 1 on; 0: none
    int age = 1;             ///< steps, of what a skip would use if nobody asked how old that is
  };

  WirePolicy policy_;
  Shape shape_;
  std::vector<Place> places_;         // of each rule
  std::vector<std::uint8_t> is_off_;  // of each level
  std::vector<int> group_of_;         // of each layer: those of a group are alike to all rules
  std::vector<int> first_of_group_;   // layers
  bool knows_tokens_ = false;         // text from image
  std::vector<Cell> cells_;           // by part of the tokens, tensor, level, group, branch, step
};

/// A policy for links that all its rules mean, whatever their level: those of level kFarLevel.
inline constexpr int kFarLevel = 1;
[[nodiscard]] WirePlan far_plan(WirePolicy policy, int layers, int steps);

}  // namespace dit
