/// @file
/// Detection of the machine: topology/detect.hpp where it is built, else hosts by name.
#pragma once

#if __has_include("topology/detect.hpp")
#include "topology/detect.hpp"
#else
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace tapa {

inline std::string local_record() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

inline Topology merge_records(const std::vector<std::string>& records) {
  Topology t = make_uniform_topology({1, static_cast<int>(records.size())});
  std::vector<int>& group = t.levels.front().group;
  for (std::size_t r = 0; r < records.size(); ++r) {
    group[r] = static_cast<int>(std::find(records.begin(), records.end(), records[r]) - records.begin());
  }
  t.levels.front().groups = number_by_first_rank(group);
  t.nics.clear();
  t.rails.clear();
  for (int node = 0; node < t.levels.front().groups; ++node)
    t.nics.push_back({"nic0", node, {}, {}, {}, {}, -1});
  for (const int node : group) t.rails.push_back({node});
  t.name = "hosts";
  return t;
}

}  // namespace tapa
#endif
