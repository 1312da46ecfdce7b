// Ranks as threads of this process.
#include <vector>

#include "c_interface/error.hpp"
#include "exchange/local/local_ranks.hpp"

struct dit_local_group {
  std::vector<dit_local_member> members;
};

using namespace dit::c_interface;

extern "C" {

dit_status dit_local_group_create(int ranks, int ranks_per_node, dit_local_group** group) {
  return guarded(__func__, [&] {
    dit_local_group*& result = required(group, "group");
    dit::LocalGroupOptions options;
    options.ranks = ranks;
    options.ranks_per_node = ranks_per_node;
    result = new dit_local_group{dit::make_local_group(options)};
  });
}

dit_status dit_local_group_member(dit_local_group* group, int rank, void** communicator) {
  return guarded(__func__, [&] {
    dit_local_group& of = required(group, "group");
    void*& result = required(communicator, "communicator");
    if (rank < 0 || static_cast<std::size_t>(rank) >= of.members.size()) {
      throw std::invalid_argument("rank = " + std::to_string(rank) + ": expected 0 to " +
                                  std::to_string(of.members.size() - 1));
    }
    result = &of.members[static_cast<std::size_t>(rank)];
  });
}

dit_status dit_local_group_free(dit_local_group** group) {
  return guarded(__func__, [&] {
    delete required(group, "group");
    *group = nullptr;
  });
}

}  // extern "C"
