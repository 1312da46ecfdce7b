/// @file
/// Who is within reach of whom, as groups. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tapa {

/// group[i] of so many: each joins, in order, the first group all of whose members it reaches.
/// `reaches(a, b)`: both ways.
template <class Reaches>
[[nodiscard]] std::vector<int> groups_by_reach(std::size_t count, const Reaches& reaches) {
  std::vector<int> group;
  for (std::size_t one = 0; one < count; ++one) {
    std::vector<bool> closed(count);
    for (std::size_t other = 0; other < one; ++other) {
      if (!reaches(one, other)) closed[static_cast<std::size_t>(group[other])] = true;
    }
    group.push_back(static_cast<int>(std::ranges::find(closed, false) - closed.begin()));
  }
  return group;
}

}  // namespace tapa
