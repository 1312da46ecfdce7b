// Communicators that are made, changed and freed.
#include <algorithm>

#include "steps.hpp"

namespace random_program {

void keep_comm(const Line& line, MPI_Comm made, bool second, MPI_Comm whole) {
  Comm& c = object(comms, line.word("to"));
  c = Comm{};
  c.comm = made;
  if (made == MPI_COMM_NULL) return;
  int inter = 0;
  MPI_Comm_test_inter(made, &inter);
  c.inter = inter != 0;
  c.second = second;
  c.whole = whole;
  MPI_Comm_rank(made, &c.rank);
  MPI_Comm_size(made, &c.size);
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Comm_group(c.inter ? whole : made, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  const int first = 0;
  int there = 0;
  MPI_Group_translate_ranks(group, 1, &first, world, &there);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  c.name = mixed(mixed(seed, static_cast<std::uint64_t>(line.number)), static_cast<std::uint64_t>(there + 7));
}

namespace {

/// The ranks of `numbers`, of the job, that are in `comm`, in that order.
MPI_Group group_of(MPI_Comm comm, const std::vector<int>& numbers) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group made = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &all);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  std::vector<int> there(numbers.size());
  MPI_Group_translate_ranks(world, static_cast<int>(numbers.size()), numbers.data(), all, there.data());
  std::erase(there, MPI_UNDEFINED);
  MPI_Group_incl(all, static_cast<int>(there.size()), there.data(), &made);
  MPI_Group_free(&all);
  MPI_Group_free(&world);
  return made;
}

void make_from_group(const Line& line, const Comm& from) {
  MPI_Group group = group_of(from.comm, line.numbers("members"));
  MPI_Comm made = MPI_COMM_NULL;
  int mine = MPI_UNDEFINED;
  MPI_Group_rank(group, &mine);
  if (line.verb == "create") {
    MPI_Comm_create(from.comm, group, &made);
  } else if (mine != MPI_UNDEFINED) {
    MPI_Comm_create_group(from.comm, group, line.number % 1000, &made);
  }
  MPI_Group_free(&group);
  keep_comm(line, made);
}

void make_inter(const Line& line, const Comm& from) {
  const int color = line.numbers("colors")[static_cast<std::size_t>(world_rank)];
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_split(from.comm, color, from.rank, &local);
  std::vector<int> all(static_cast<std::size_t>(from.size));
  MPI_Allgather(&color, 1, MPI_INT, all.data(), 1, MPI_INT, from.comm);
  const auto other = std::find(all.begin(), all.end(), 1 - color);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm whole = MPI_COMM_NULL;
  if (other != all.end()) {
    MPI_Intercomm_create(local, 0, from.comm, static_cast<int>(other - all.begin()), line.number % 1000,
                         &made);
    MPI_Comm_dup(from.comm, &whole);
  }
  MPI_Comm_free(&local);
  keep_comm(line, made, color == 1, whole);
}

/// At most one edge from each rank to each. Both ends list theirs in an order of their own.
MPI_Comm make_graph(const Line& line, const Comm& from) {
  Random common = common_of(line);
  Random own = own_of(line);
  const int share = 1 + below(&common, 5);
  std::vector<int> in;
  std::vector<int> out;
  for (int source = 0; source < from.size; ++source) {
    for (int to = 0; to < from.size; ++to) {
      if (once_in(&common, share) == 0) continue;
      if (source == from.rank) out.insert(out.begin() + below(&own, static_cast<int>(out.size()) + 1), to);
      if (to == from.rank) in.insert(in.begin() + below(&own, static_cast<int>(in.size()) + 1), source);
    }
  }
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Dist_graph_create_adjacent(from.comm, static_cast<int>(in.size()), in.data(), MPI_UNWEIGHTED,
                                 static_cast<int>(out.size()), out.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &made);
  return made;
}

int copy_attribute(MPI_Comm, int, void*, void* in, void* out, int* flag) {
  ++copies;
  *static_cast<void**>(out) = in;
  *flag = 1;
  return MPI_SUCCESS;
}

int delete_attribute(MPI_Comm, int, void*, void*) {
  ++deletions;
  return MPI_SUCCESS;
}

}  // namespace

bool step_communicators(const Line& line) {
  if (line.verb == "free") {
    Comm& c = object(comms, line.word("comm"));
    if (c.whole != MPI_COMM_NULL) MPI_Comm_free(&c.whole);
    if (c.comm != MPI_COMM_NULL)
      line.word("how") == "disconnect" ? MPI_Comm_disconnect(&c.comm) : MPI_Comm_free(&c.comm);
    drop(comms, line.word("comm"));
    return true;
  }
  const auto at = static_cast<std::size_t>(world_rank);
  const Comm& from = object(comms, line.word("from"));
  if (from.comm == MPI_COMM_NULL) return line.words.contains("from");
  MPI_Comm made = MPI_COMM_NULL;
  if (line.verb == "dup") {
    MPI_Comm_dup(from.comm, &made);
    MPI_Comm whole = MPI_COMM_NULL;
    if (from.inter) MPI_Comm_dup(from.whole, &whole);
    keep_comm(line, made, from.second, whole);
  } else if (line.verb == "idup") {
    Comm& to = object(comms, line.word("to"));
    Pending& p = object(requests, line.word("req"));
    MPI_Comm_idup(from.comm, &to.comm, &p.request);
    p.active = true;
    p.finished = [&to, line] { keep_comm(line, to.comm); };
  } else if (line.verb == "split") {
    const int color = line.numbers("colors")[at];
    MPI_Comm_split(from.comm, color < 0 ? MPI_UNDEFINED : color, line.numbers("keys")[at], &made);
    keep_comm(line, made);
  } else if (line.verb == "split_shared") {
    MPI_Comm_split_type(from.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
    keep_comm(line, made);
  } else if (line.verb == "create" || line.verb == "create_group") {
    make_from_group(line, from);
  } else if (line.verb == "inter") {
    make_inter(line, from);
  } else if (line.verb == "merge") {
    MPI_Intercomm_merge(from.comm, from.second ? 1 : 0, &made);
    keep_comm(line, made);
  } else if (line.verb == "ring") {
    const int periodic = 1;
    MPI_Cart_create(from.comm, 1, &from.size, &periodic, 0, &made);
    keep_comm(line, made);
  } else if (line.verb == "graph") {
    keep_comm(line, make_graph(line, from));
  } else if (line.verb == "attribute") {
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, nullptr);
    MPI_Comm_set_attr(from.comm, key, nullptr);
    MPI_Comm_free_keyval(&key);
  } else if (line.verb == "errors_return") {
    MPI_Comm_set_errhandler(from.comm, MPI_ERRORS_RETURN);
  } else {
    return false;
  }
  return true;
}

}  // namespace random_program
