#include "models/patches.hpp"

namespace dit {

at::Tensor patchify(const at::Tensor& images, std::int64_t patch) {
  const std::int64_t channels = images.size(1);
  const std::int64_t rows = images.size(2) / patch;
  const std::int64_t columns = images.size(3) / patch;
  return images.reshape({images.size(0), channels, rows, patch, columns, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({images.size(0), rows * columns, channels * patch * patch});
}

at::Tensor unpatchify(const at::Tensor& patches, std::int64_t patch, std::int64_t height,
                      std::int64_t width) {
  const std::int64_t channels = patches.size(2) / (patch * patch);
  return patches.reshape({patches.size(0), height / patch, width / patch, channels, patch, patch})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape({patches.size(0), channels, height, width});
}

}  // namespace dit
