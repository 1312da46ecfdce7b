/// @file
/// The blocks of one side of a call whose data are runs of bytes, one for each rank at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "run/arguments.hpp"
#include "run/shm_exchange.hpp"

namespace tapa {

/// Reusable. As most blocks may be empty, a call touches those alone that are not, or were not in the last.
class DenseBlocks {
 public:
  /// Takes the memory that calls among so many ranks need.
  void reserve(std::size_t ranks) {
    blocks_.reserve(ranks);
    others_.reserve(ranks);
  }
  /// Whether a side of a call has such blocks only. Of one without blocks the type is not looked at.
  [[nodiscard]] static bool suit(const Arguments& a, const Side& side) {
    if (a.form == Form::w || (a.neighbours ? a.edges_of(side).repeats : a.form != Form::v)) return false;
    return is_nothing(a, side) || side.info().always_dense();
  }
  /// Describes the blocks of a side, as rank `own` of `ranks`; false where they are not such.
  [[nodiscard]] bool describe(const Arguments& arguments, const Side& side, std::size_t own,
                              std::size_t ranks);
  [[nodiscard]] ShmSide side() const { return {blocks_, &others_}; }

 private:
  void put(std::size_t peer, std::byte* data, std::size_t bytes) {
    if (peer != own_) others_.push_back(static_cast<std::uint32_t>(peer));
    blocks_[peer] = {data, bytes};
  }
  [[nodiscard]] static bool is_nothing(const Arguments& a, const Side& side) {
    return a.neighbours && a.edges_of(side).peers.empty();
  }
  /// Equal blocks along edges.
  struct Row {
    const Edges::Side* edges = nullptr;
    const std::byte* first = nullptr;
    std::size_t bytes = 0;
    bool operator==(const Row&) const = default;
  };
  template <class Count, class Displ>
  void put_counted(std::byte* first, const TypeInfo& info, const Count* counts, const Displ* displs);
  void put_edges(std::byte* first, const TypeInfo& info, Form form, const Side& side,
                 const Edges::Side& edges);

  std::vector<ShmBlock> blocks_;
  std::vector<std::uint32_t> others_;  // whose blocks are not empty
  std::size_t own_ = 0;
  Row row_;  // of the last call, if it had such
};

}  // namespace tapa
