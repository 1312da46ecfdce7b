#include "evaluation_sheet.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace dit::gray_scott {
namespace {

constexpr std::int64_t kShown = 4;
constexpr float kDarkest = 0.0F;  // of v
constexpr float kBrightest = 0.45F;

}  // namespace

Image field_picture(const at::Tensor& field) {
  const at::Tensor v = field.select(0, field.size(0) - 1).to(at::kFloat).contiguous();
  return colour_map({v.data_ptr<float>(), static_cast<std::size_t>(v.numel())}, v.size(0), v.size(1),
                    kDarkest, kBrightest);
}

Image comparison_sheet(const at::Tensor& held_out, const EvaluationReport& report) {
  const std::int64_t shown = std::min(kShown, report.per_class);
  std::vector<Image> rows;
  for (std::int64_t label = 0; label < static_cast<std::int64_t>(report.classes.size()); ++label) {
    std::vector<Image> sides;
    for (const at::Tensor& fields : {held_out, report.generated}) {
      std::vector<Image> pictures;
      for (std::int64_t i = 0; i < shown; ++i) {
        pictures.push_back(field_picture(fields[label * report.per_class + i]));
      }
      sides.push_back(grid(pictures, shown));
    }
    rows.push_back(grid(sides, 2, 16));
  }
  return grid(rows, 1);
}

}  // namespace dit::gray_scott
