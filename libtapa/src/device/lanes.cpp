#include "device/lanes.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>

#include "device/choose_wire.hpp"
#include "device/current_device.hpp"
#include "device/device_error.hpp"
#include "device/failure.hpp"
#include "device/lane_kernels.hpp"

namespace tapa::device {

namespace {

/// Bytes of a chunk of all blocks: long enough that the line does not notice where one ends.
constexpr std::size_t kChunkBytes = std::size_t{16} << 20;
/// The same for strided blocks.
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;
constexpr std::array kAreas = {Area::packed,  Area::gathered,   Area::outgoing,
                               Area::landing, Area::pieces_out, Area::pieces_in};

std::size_t as_size(int number) {
  return static_cast<std::size_t>(number);
}

std::vector<int> ranks_of_other_nodes(const Partition& nodes, int rank) {
  std::vector<int> others;
  for (std::size_t other = 0; other < nodes.group.size(); ++other) {
    if (nodes.group[other] != nodes.group_of(rank)) others.push_back(static_cast<int>(other));
  }
  return others;
}

bool some_node_gathers(const Partition& nodes) {
  return std::any_of(nodes.members.begin(), nodes.members.end(),
                     [](const std::vector<int>& members) { return members.size() > 1; });
}

}  // namespace

Lanes::Lanes(const Agreement& agreement, const Islands& islands, Communicator& node,
             const TAPA_Device_options& options, const MessageOffer& offer)
    : agreement_(agreement),
      nodes_(islands.groups),
      one_host_(islands.one_host),
      node_(node),
      gathers_(some_node_gathers(nodes_)),
      plan_(plan_lanes(nodes_, agreement.rank())),
      timeout_(options.timeout == 0 ? 60 : options.timeout),
      most_row_(lane_row_bytes(std::size_t{1} << 60, agreement.size(), kChunkBytes)),
      piece_(piece_bytes(agreement.size(), kPieceBytes)) {
  agreement_.together([&] {
    check_cuda(load_lane_kernels(), "loading the kernels");
    ends_.emplace(kLaneSlots + 1);
    provide_areas();
    upload_orders();
  });
  if (gathers_) {
    window_ = node_.windows().add(areas_->get(), area_at_.back(), 0);
  }
  const auto failed = agreement_.failure_of([&] {
    wire_ = choose_wire(agreement_, {ranks_of_other_nodes(nodes_, agreement_.rank()), one_host_},
                        options.wire, offer, node_.state(), static_cast<Word>(timeout_ * 1e9));
  });
  if (!failed) return;
  if (window_ >= 0) node_.windows().remove(window_);  // others close the areas before they are freed
  throw CommonError(*failed);
}

Lanes::~Lanes() {
  try {
    const CurrentDevice current(node_.device());
    (void)cudaDeviceSynchronize();
    if (has_failed()) node_.abandon();
    const TornDown parted =
        wire_->part(node_.part(), std::chrono::nanoseconds(static_cast<Word>(timeout_ * 1e9)));
    if (parted.missing >= 0) say_not_freed(agreement_.name(parted.missing), timeout_);
    if (!parted.well) {
      node_.abandon();
      wire_->abandon();
      if (areas_) areas_->abandon();
      return;
    }
    if (window_ >= 0) node_.windows().remove(window_);
    agreement_.meet();  // messages have arrived everywhere
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tapa: freeing a device communicator: %s\n", error.what());
  }
}

void Lanes::provide_areas() {
  area_at_.assign(1, 0);
  const std::size_t pieces = as_size(kLaneSlots) * ranks_of_other_nodes(nodes_, plan_.rank).size() * piece_;
  for (const Area area : kAreas) {
    const bool strided = area == Area::pieces_out || area == Area::pieces_in;
    area_at_.push_back(area_at_.back() + (strided ? pieces : plan_.rows_of(area) * most_row_));
  }
  areas_.emplace(area_at_.back());
}

void Lanes::upload_orders() {
  std::vector<std::uint32_t> all;
  const auto append = [&](const auto& order) {
    for (const auto row : order) all.push_back(static_cast<std::uint32_t>(row));
  };
  append(plan_.packed);
  append(plan_.transposed);
  append(plan_.landed);
  if (all.empty()) return;
  orders_.emplace(all.size() * sizeof(std::uint32_t));
  PrivateStream().copy(orders_->get(), all.data(), all.size() * sizeof(std::uint32_t));
}

const std::uint32_t* Lanes::order(RowOrder order) const {
  if (!orders_) return nullptr;
  const auto* const first = reinterpret_cast<const std::uint32_t*>(orders_->get());
  switch (order) {
    case RowOrder::packed:
      return first;
    case RowOrder::transposed:
      return first + plan_.packed.size();
    case RowOrder::landed:
      return first + plan_.packed.size() + plan_.transposed.size();
    case RowOrder::as_is:
      break;
  }
  return nullptr;
}

std::byte* Lanes::find(Place place, const Buffers& buffers) const {
  // Nothing is written to what is sent.
  if (place.area == Area::send)
    return const_cast<std::byte*>(static_cast<const std::byte*>(buffers.send)) + place.at;
  if (place.area == Area::receive) return static_cast<std::byte*>(buffers.receive) + place.at;
  const auto index = as_size(static_cast<int>(place.area) - static_cast<int>(Area::packed));
  return areas_->get() + area_at_[index] + place.at;
}

/// Blocks are cut so that gathering overlaps sending, and into what the areas hold. Wires cut for themselves.
std::size_t Lanes::row_bytes(std::size_t block) const {
  if (!gathers_) return std::max<std::size_t>(block, 1);
  return lane_row_bytes(block, agreement_.size(), kChunkBytes);
}

void Lanes::alltoall(const void* send, void* receive, std::size_t bytes, cudaStream_t stream) {
  if (steps_.empty() || bytes != bytes_of_steps_) {
    steps_ = alltoall_steps(nodes_, plan_, bytes, row_bytes(bytes));
    bytes_of_steps_ = bytes;
  }
  run(steps_, {send, receive}, stream);
}

void Lanes::alltoallv(const void* send, void* receive, const BlockCounts& counts, cudaStream_t stream,
                      cudaEvent_t done) {
  run_apart(alltoallv_steps(nodes_, agreement_.rank(), counts), {send, receive}, stream, done);
}

void Lanes::alltoall_strided(const void* send, void* receive, const StridedLayout& layout,
                             cudaStream_t stream, cudaEvent_t done) {
  std::vector<std::size_t> send_bytes, receive_bytes;
  for (std::size_t peer = 0; peer < layout.send.size(); ++peer) {
    send_bytes.push_back(bytes_of(layout.send[peer].strides));
    receive_bytes.push_back(bytes_of(layout.receive[peer].strides));
  }
  const auto steps = strided_steps(nodes_, agreement_.rank(), send_bytes, receive_bytes, piece_, next_slot_);
  const auto starts = std::count_if(steps.begin(), steps.end(),
                                    [](const LaneStep& step) { return std::holds_alternative<Start>(step); });
  next_slot_ = static_cast<int>((next_slot_ + starts) % kLaneSlots);
  run_apart(steps, {send, receive, layout.send, layout.receive}, stream, done);
}

// Before messages go to other nodes, who would take them for those of an earlier call.
void Lanes::require_ready(cudaStream_t stream) const {
  node_.check_failure();
  check_failure();
  wire_->require_free_for(stream);
  ends_->require_free_for(stream);
}

void Lanes::run(const std::vector<LaneStep>& steps, const Buffers& buffers, cudaStream_t stream) {
  const CurrentDevice current(node_.device());
  require_ready(stream);
  for (const LaneStep& step : steps) {
    std::visit([&](const auto& each) { do_step(each, buffers, stream); }, step);
  }
}

// What waits for messages is put on a stream of its own, so that the caller's goes on to start more.
void Lanes::run_apart(const std::vector<LaneStep>& steps, const Buffers& buffers, cudaStream_t stream,
                      cudaEvent_t done) {
  const CurrentDevice current(node_.device());
  require_ready(stream);
  const bool in_areas = std::any_of(steps.begin(), steps.end(), [](const LaneStep& step) {
    return std::holds_alternative<PieceCopy>(step);
  });
  bool on_stream = false;      // something that messages do not come behind
  bool behind_stream = false;  // the ends are, as messages are that they wait for
  for (const LaneStep& step : steps) {
    const auto* const copy = std::get_if<PieceCopy>(&step);
    const auto* const start = std::get_if<Start>(&step);
    const auto* const wait = std::get_if<Wait>(&step);
    int slot = -1;  // none
    if (copy != nullptr) slot = copy->slot;
    if (start != nullptr) slot = start->slot;
    if (wait != nullptr) slot = wait->slot;
    const bool behind = wait != nullptr || (copy != nullptr && !copy->sends);
    if (!behind && in_areas && slot >= 0) await_slot(slot, stream);
    std::visit([&](const auto& each) { do_step(each, buffers, behind ? ends_->get() : stream); }, step);
    if (behind && in_areas) mark_slot(slot, stream);
    behind_stream = behind_stream || wait != nullptr;
    on_stream = on_stream || (!behind && start == nullptr);
  }
  if (on_stream || !behind_stream) ends_->follow(stream);
  if (done != nullptr) return ends_->record(done);
  ends_->mark(kLaneSlots);
  ends_->wait(kLaneSlots, stream);
}

void Lanes::mark_slot(int slot, cudaStream_t stream) {
  ends_->mark(slot);
  used_[as_size(slot)] = capture_of(stream);
}

// The pieces of the slot's last use have gone to where they belong. What ran before a capture, or is recorded
// in another one, the program keeps apart.
void Lanes::await_slot(int slot, cudaStream_t stream) {
  if (used_[as_size(slot)] == capture_of(stream)) ends_->wait(slot, stream);
}

void Lanes::do_step(const RowCopy& copy, const Buffers& buffers, cudaStream_t stream) {
  const RowsToCopy rows = {
      find(copy.from.place, buffers), find(copy.to.place, buffers), copy.from.pitch, copy.to.pitch,
      order(copy.from.order),         order(copy.to.order),         copy.rows,       copy.bytes};
  check_cuda(launch_row_copy(rows, stream), "launch of a copy of rows");
}

void Lanes::do_step(const NodeExchange& exchange, const Buffers& buffers, cudaStream_t stream) {
  std::array<std::size_t, kMaxRanks> send_bytes{}, send_at{}, receive_bytes{}, receive_at{};
  for (std::size_t member = 0; member < exchange.blocks.size(); ++member) {
    const NodeExchange::Block& block = exchange.blocks[member];
    send_bytes[member] = block.send_bytes;
    send_at[member] = block.send.at;
    receive_bytes[member] = block.receive_bytes;
    receive_at[member] = block.receive.at;
  }
  const std::size_t ranks = exchange.blocks.size();
  const Layout layout{{send_bytes.data(), ranks},
                      {send_at.data(), ranks},
                      {receive_bytes.data(), ranks},
                      {receive_at.data(), ranks}};
  // All blocks of a side lie in one area.
  node_.alltoallv(find({exchange.blocks[0].send.area, 0}, buffers),
                  find({exchange.blocks[0].receive.area, 0}, buffers), layout, stream);
}

void Lanes::do_step(const Start& start, const Buffers& buffers, cudaStream_t stream) {
  const auto messages = [&](const std::vector<Message>& all) {
    std::vector<WireMessage> made;
    for (const Message& message : all)
      made.push_back({message.peer, find(message.place, buffers), message.bytes});
    return made;
  };
  wire_->start(messages(start.sends), messages(start.receives), stream, start.slot);
}

void Lanes::do_step(const Wait& wait, const Buffers&, cudaStream_t stream) {
  wire_->wait(wait.slot, stream);
}

void Lanes::do_step(const PieceCopy& copy, const Buffers& buffers, cudaStream_t stream) {
  const auto& blocks = copy.sends ? buffers.sent : buffers.received;
  std::byte* const base = find({copy.sends ? Area::send : Area::receive, 0}, buffers);
  PiecesToCopy pieces{};
  pieces.gathers = copy.sends;
  const auto launch = [&] {
    check_cuda(launch_piece_copy(pieces, stream), "launch of a copy of pieces");
    pieces.count = 0;
  };
  for (const PieceCopy::Piece& piece : copy.pieces) {
    const PlacedBlock& block = blocks[as_size(piece.peer)];
    pieces.piece[pieces.count++] = {rows_at(base + block.offset, block.strides),
                                    find(piece.together, buffers), static_cast<std::uint32_t>(piece.begin),
                                    static_cast<std::uint32_t>(piece.bytes)};
    if (pieces.count == kMaxPieces) launch();
  }
  launch();
}

void Lanes::do_step(const NodeBlocks&, const Buffers& buffers, cudaStream_t stream) {
  StridedLayout layout;
  for (const int member : nodes_.members_of(nodes_.group_of(agreement_.rank()))) {
    layout.send.push_back(buffers.sent[as_size(member)]);
    layout.receive.push_back(buffers.received[as_size(member)]);
  }
  node_.alltoall_strided(buffers.send, buffers.receive, layout, stream);
}

void Lanes::check_failure() const {
  int rank = -1;
  check_failure(rank);
}

void Lanes::check_failure(int& rank) const {
  rank = -1;
  std::string names;
  unsigned long long exchange = 0;
  for (int peer = 0; peer < agreement_.size(); ++peer) {
    if (wire_->missing(peer) == 0) continue;
    if (rank < 0) rank = peer;
    exchange = wire_->missing(peer);
    names += (names.empty() ? "" : ", ") + std::to_string(peer);
  }
  const std::string failure = wire_->failure();
  if (!failure.empty()) throw DeviceError(TAPA_DEVICE_ERR_TIMEOUT, "messages between nodes: " + failure);
  if (rank < 0) return;
  if (wire_->has_left(rank)) {
    throw DeviceError(TAPA_DEVICE_ERR_TIMEOUT, "rank " + std::to_string(rank) +
                                                   ", of another node, has left before exchange " +
                                                   std::to_string(wire_->missing(rank)));
  }
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%g", timeout_);
  throw DeviceError(TAPA_DEVICE_ERR_TIMEOUT,
                    "rank " + names + ", of another node, did not arrive at exchange " +
                        std::to_string(exchange) + " within " + seconds.data() + " seconds");
}

bool Lanes::has_failed() const {
  try {
    check_failure();
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

void Lanes::finish() {
  wire_->finish(!has_failed());
}

// The wire first: it may refuse.
void Lanes::restart() {
  const CurrentDevice current(node_.device());
  agreement_.together([&] {
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    wire_->settle();
  });
  agreement_.together([&] { wire_->restart(); });
  node_.restart();
  agreement_.meet();
}

std::string Lanes::describe() const {
  std::string sizes;
  for (const std::vector<int>& members : nodes_.members) {
    sizes += (sizes.empty() ? "" : " + ") + std::to_string(members.size());
  }
  const std::string groups = one_host_ ? "one node, whose GPUs reach each other in groups of " + sizes
                                       : std::to_string(nodes_.groups()) + " nodes of " + sizes;
  return groups + " ranks, joined by " + wire_->describe();
}

}  // namespace tapa::device
