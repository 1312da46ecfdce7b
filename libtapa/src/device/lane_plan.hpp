/// @file
/// All-to-alls between nodes: who relays for whom, and the steps of one rank as data. Pure.
///
/// Equal blocks take the way of the `tapa` plan, fast first (plan/route.hpp): in each node a block goes to
/// the member with its destination's index, modulo the node's size; that relay sends one message to each rank
/// it serves, with the blocks of its whole node. Where nodes are equal, that is one message for each lane and
/// pair of nodes. A node of one rank gathers nothing and sends right from the caller's memory.
///
/// Blocks of own sizes go straight to each rank of other nodes: a relay would have to know the sizes of
/// others, and to ask for them is to wait on the host, or to know no sizes when messages are put on a stream.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "plan/partition.hpp"

namespace tapa::device {

/// Ranks with equal names share a node. Nodes are numbered by their first ranks.
[[nodiscard]] Partition nodes_of_names(const std::vector<std::string>& names);

/// The member of a node that sends to `dst` (a rank of another node) and gathers for it.
[[nodiscard]] inline int relay_of(const Partition& nodes, int node, int dst) {
  return nodes.member(node, nodes.index_of(dst));
}

/// Memory of a rank. All but the caller's two buffers is the communicator's; sizes in rows of a chunk.
enum class Area {
  send,
  receive,
  packed,      ///< this rank's blocks for other nodes, in order of their relays
  gathered,    ///< the node's blocks for the ranks that this one serves, by source
  outgoing,    ///< the same by destination: messages; kLaneSlots times
  landing,     ///< messages from nodes of several ranks; kLaneSlots times
  pieces_out,  ///< pieces of strided blocks, one after the other; kLaneSlots times
  pieces_in
};
struct Place {
  Area area = Area::send;
  std::size_t at = 0;  ///< bytes
};

/// Order of rows on one side of a copy; which row of that side comes next.
enum class RowOrder { as_is, packed, transposed, landed };

/// Rows of `bytes` bytes from one place to another; row r begins at index(r) * pitch.
struct RowCopy {
  struct Side {
    Place place;
    std::size_t pitch = 0;
    RowOrder order = RowOrder::as_is;
  };
  Side from, to;
  std::size_t rows = 0;
  std::size_t bytes = 0;
};

/// An all-to-all between the ranks of this node: a block for each of its members, in order.
struct NodeExchange {
  struct Block {
    Place send, receive;
    std::size_t send_bytes = 0, receive_bytes = 0;
  };
  std::vector<Block> blocks;
};

/// A message to or from a rank of another node.
struct Message {
  int peer = -1;
  Place place;
  std::size_t bytes = 0;
};
/// Messages that begin when all steps before are done; steps behind do not wait for them.
struct Start {
  int slot = 0;
  std::vector<Message> sends, receives;
};
/// Waits for the last Start of this slot, and for all before it.
struct Wait {
  int slot = 0;
};
/// Pieces of the caller's strided blocks, to where their bytes lie together, or from there.
struct PieceCopy {
  struct Piece {
    int peer = -1;
    std::size_t begin = 0;  ///< in the block, in order of its bytes
    std::size_t bytes = 0;
    Place together;
  };
  int slot = 0;
  bool sends = true;  ///< out of blocks to send, or into blocks to receive
  std::vector<Piece> pieces;
};
/// The all-to-all of the caller's strided blocks between the ranks of this node.
struct NodeBlocks {};
using LaneStep = std::variant<RowCopy, NodeExchange, Start, Wait, PieceCopy, NodeBlocks>;

inline constexpr int kLaneSlots = 3;  ///< chunks that can be under way between nodes

/// What one rank does for equal blocks, whatever their size.
struct LanePlan {
  struct Source {
    int relay = -1;        ///< who sends
    int node = -1;         ///< whose blocks
    std::size_t rows = 0;  ///< ranks of that node
    std::size_t row = 0;   ///< first row in the landing; none for a node of one rank
  };
  int rank = 0;
  std::size_t node_ranks = 0;
  std::vector<int> packed;              ///< destination of each packed row
  std::vector<std::size_t> rows_to;     ///< packed rows for each member of the node
  std::vector<int> served;              ///< ranks that this one sends messages to
  std::vector<Source> sources;          ///< ranks that it gets messages from
  std::vector<int> landed;              ///< source of each row of the landing
  std::vector<std::size_t> transposed;  ///< row of `gathered` for each row of `outgoing`

  [[nodiscard]] bool gathers() const { return node_ranks > 1; }
  /// Whether gathered blocks lie as they are sent.
  [[nodiscard]] bool gathers_in_order() const { return served.size() <= 1; }
  /// Rows that an area must hold, all slots together; 0 for the caller's.
  [[nodiscard]] std::size_t rows_of(Area area) const;
};
[[nodiscard]] LanePlan plan_lanes(const Partition& nodes, int rank);

/// Bytes of a block that travel at once when blocks have `bytes` bytes: few enough that gathering one chunk
/// overlaps sending another, and that chunks of all blocks fill no more than `chunk` bytes.
[[nodiscard]] std::size_t lane_row_bytes(std::size_t bytes, int ranks, std::size_t chunk);

/// The steps of an all-to-all of blocks of `bytes` bytes, cut into rows of at most `row` bytes.
[[nodiscard]] std::vector<LaneStep> alltoall_steps(const Partition& nodes, const LanePlan& plan,
                                                   std::size_t bytes, std::size_t row);

/// Sizes and places of the blocks of one rank, by rank, in bytes.
struct BlockCounts {
  std::span<const std::size_t> send_bytes, send_displs, receive_bytes, receive_displs;
};
/// The steps of an all-to-all of blocks of own sizes.
[[nodiscard]] std::vector<LaneStep> alltoallv_steps(const Partition& nodes, int rank,
                                                    const BlockCounts& counts);

/// The steps of an all-to-all of strided blocks, of which the sizes matter: they go straight to each rank, in
/// pieces of at most `piece` bytes. The first ones use slot `first_slot`, the others those behind it in turn.
[[nodiscard]] std::vector<LaneStep> strided_steps(const Partition& nodes, int rank,
                                                  std::span<const std::size_t> send_bytes,
                                                  std::span<const std::size_t> receive_bytes,
                                                  std::size_t piece, int first_slot);
/// Bytes of a piece where all pieces of a chunk fill no more than `chunk` bytes.
[[nodiscard]] std::size_t piece_bytes(int ranks, std::size_t chunk);

}  // namespace tapa::device
