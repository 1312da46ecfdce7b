#include "wire/block_loss.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace dit {
namespace {

constexpr std::size_t kGroups = kWireSegment / kWireGroup;

template <std::size_t lanes>
BlockLoss sum_by_halves(std::array<BlockLoss, lanes>& of) {
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) {
      of[lane] = sum_of(of[lane], of[lane + half]);
    }
  }
  return of[0];
}

BlockLoss loss_of_segment(std::span<const float> numbers, std::span<const float> remembered) {
  std::array<BlockLoss, kGroups> groups;
  for (std::size_t group = 0; group * kWireGroup < numbers.size(); ++group) {
    const std::size_t first = group * kWireGroup;
    const std::size_t count = std::min(kWireGroup, numbers.size() - first);
    groups[group] =
        loss_of_group(numbers.data() + first, remembered.data() + first, static_cast<std::uint32_t>(count));
  }
  return sum_by_halves(groups);
}

}  // namespace

double relative(const BlockLoss& loss) {
  return loss.error == 0 ? 0 : std::sqrt(loss.error / loss.whole);
}

BlockLoss loss_of(std::span<const std::byte> block, WireElement element, const WireReference& remembered,
                  const CodecKernels& kernels) {
  const std::size_t bytes = bytes_of(element);
  std::array<BlockLoss, kLossLanes> lanes;
  std::array<float, kWireSegment> numbers, came;
  std::array<std::byte, kWireSegment * sizeof(float)> elements;
  for (std::size_t at = 0; at < remembered.value.size(); at += kWireSegment) {
    const std::size_t count = std::min(kWireSegment, remembered.value.size() - at);
    const std::span<std::byte> there = std::span(elements).first(count * bytes);
    recall({remembered.value.subspan(at, count), remembered.digits.subspan(at, count), {}, 0}, element, there,
           kernels);
    load_elements(there, element, std::span(came).first(count), kernels);
    load_elements(block.subspan(at * bytes, count * bytes), element, std::span(numbers).first(count),
                  kernels);
    BlockLoss& lane = lanes[at / kWireSegment % kLossLanes];
    lane = sum_of(lane, loss_of_segment(std::span(numbers).first(count), std::span(came).first(count)));
  }
  return sum_by_halves(lanes);
}

}  // namespace dit
