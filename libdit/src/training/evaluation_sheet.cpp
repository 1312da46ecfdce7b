#include "training/evaluation_sheet.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace dit {
namespace {

constexpr std::int64_t kShown = 4;
constexpr float kDarkest = 0.0F;  // of v
constexpr float kBrightest = 0.45F;

Image picture(const at::Tensor& fields, std::int64_t index) {
  const at::Tensor v = fields[index].select(0, fields.size(1) - 1).to(at::kFloat).contiguous();
  return colour_map({v.data_ptr<float>(), static_cast<std::size_t>(v.numel())}, v.size(0), v.size(1),
                    kDarkest, kBrightest);
}

}  // namespace

Image comparison_sheet(const at::Tensor& held_out, const EvaluationReport& report) {
  const std::int64_t shown = std::min(kShown, report.per_class);
  std::vector<Image> rows;
  for (std::int64_t label = 0; label < static_cast<std::int64_t>(report.classes.size()); ++label) {
    std::vector<Image> sides;
    for (const at::Tensor& fields : {held_out, report.generated}) {
      std::vector<Image> pictures;
      for (std::int64_t i = 0; i < shown; ++i) {
        pictures.push_back(picture(fields, label * report.per_class + i));
      }
      sides.push_back(grid(pictures, shown));
    }
    rows.push_back(grid(sides, 2, 16));
  }
  return grid(rows, 1);
}

}  // namespace dit
