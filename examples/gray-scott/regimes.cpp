#include "gray_scott.hpp"

namespace dit::gray_scott {

const std::vector<GrayScottRegime>& gray_scott_regimes() {
  static const std::vector<GrayScottRegime> regimes = {
      {"spots", 0.034, 0.063},     // eta: a crowd at rest
      {"mitosis", 0.022, 0.059},   // epsilon: spots that divide and die
      {"solitons", 0.054, 0.067},  // nu: a few spots that stay apart
      {"chaos", 0.018, 0.051},     // between epsilon and gamma: colliding rings
      {"waves", 0.014, 0.041},     // xi: fronts and spirals
      {"maze", 0.029, 0.057},      // theta
      {"worms", 0.058, 0.065},     // mu
      {"dashes", 0.046, 0.065},    // mu, short
      {"loops", 0.058, 0.063},     // kappa
      {"holes", 0.039, 0.058},     // delta: the negative of spots
      {"bubbles", 0.046, 0.0594},  // iota: a few holes in a plain
      {"pores", 0.062, 0.061},     // pi: the negative of worms
  };
  return regimes;
}

}  // namespace dit::gray_scott
