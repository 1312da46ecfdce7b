#include "transport/shm_node.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "transport/transport.hpp"

namespace tapa {

namespace {

/// Smaller rings where many ranks share a node: their number grows with the square.
std::size_t capacity_for(std::size_t members) {
  constexpr std::size_t most = ShmRing::kMaxCapacity;
  return members <= 16 ? most : members <= 32 ? most / 2 : most / 4;
}

SegmentLayout layout_for(std::size_t members, bool with_buffers, std::size_t page) {
  const bool some = with_buffers && members > 1 && members <= ShmBuffers::kMostMembers;
  return {members, capacity_for(members), ShmBuffers::region_bytes(), some ? ShmNode::kChannels : 0, page};
}

/// As in MPI, a message may be shorter than what is expected.
void refuse_longer(int peer, std::size_t bytes, std::size_t expected) {
  if (bytes <= expected) return;
  throw TransportError::truncation("message from rank " + std::to_string(peer) + " has " +
                                   std::to_string(bytes) + " bytes, expected at most " +
                                   std::to_string(expected));
}

}  // namespace

std::unique_ptr<ShmNode> ShmNode::connect(ShmSegment segment, int rank, int ranks,
                                          const std::vector<int>& members,
                                          const std::vector<std::string>& tokens, std::string& why,
                                          std::size_t page) {
  std::unique_ptr<ShmNode> node(new ShmNode);
  node->segment_ = std::make_unique<ShmSegment>(std::move(segment));
  node->own_ = static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
  node->layout_ = layout_for(members.size(), members.size() == static_cast<std::size_t>(ranks), page);
  if (!node->segment_->resize(node->layout_.file_bytes(), why)) return nullptr;
  if (!node->map_beginning(members, tokens, why)) return nullptr;
  for (std::size_t i = 0; i < members.size(); ++i)
    node->bells_.push_back(reinterpret_cast<Doorbell*>(node->beginning_of(i, node->layout_.doorbell())));
  node->own_doorbell_ = node->bells_[node->own_];
  node->link_of_.assign(static_cast<std::size_t>(ranks), -1);
  node->links_.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i != node->own_) node->open_link(members[i], i);
  }
  if (node->layout_.channels == 0) return node;
  std::vector<std::byte*> regions;
  for (std::size_t i = 0; i < members.size(); ++i)
    regions.push_back(node->beginning_of(i, node->layout_.channel(0)));
  node->add_channels(std::move(regions), 1);
  return node;
}

/// Of each peer the ring for this rank, the doorbell and the first channel; of the own segment all rings.
bool ShmNode::map_beginning(const std::vector<int>& members, const std::vector<std::string>& tokens,
                            std::string& why) {
  Part part;
  const std::size_t end = layout_.view_end();
  const std::size_t from_peer = end - layout_.view_begin(own_);
  if (!part.share.grow(members.size(), end + (members.size() - 1) * from_peer, why)) return false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == own_) {
      part.maps.emplace_back(segment_->fd(), 0, end);
      pids_.push_back(getpid());
    } else {
      const int fd = ShmSegment::open_token(tokens[i]);
      part.maps.push_back(fd < 0 ? Mapping() : Mapping(fd, layout_.view_begin(own_), from_peer));
      if (fd >= 0) close(fd);
      pids_.push_back(ShmSegment::process(tokens[i]));
      can_attach_ = can_attach_ && ShmSegment::readable(tokens[i]);
    }
    if (part.maps.back().ok()) continue;
    why = "cannot open the segment of rank " + std::to_string(members[i]) + " (" + tokens[i] + ")";
    return false;
  }
  parts_.push_back(std::move(part));
  return true;
}

/// Where a byte of a member's segment lies, of those that are mapped from the beginning.
std::byte* ShmNode::beginning_of(std::size_t member, std::size_t at) const {
  const std::size_t first = member == own_ ? 0 : layout_.view_begin(own_);
  return parts_.front().maps[member].address() + (at - first);
}

/// Ring i of a segment is the one that the i-th member writes.
void ShmNode::open_link(int peer, std::size_t index) {
  Link& link = links_.emplace_back();
  link.peer = peer;
  link_of_[static_cast<std::size_t>(peer)] = static_cast<int>(links_.size()) - 1;
  link.doorbell = bells_[index];
  link.out = ShmRing(beginning_of(index, layout_.ring(own_)), layout_.capacity);
  link.in = ShmRing(beginning_of(own_, layout_.ring(index)), layout_.capacity);
}

/// The next `count` channels; `regions` are the members' of the first of them.
void ShmNode::add_channels(std::vector<std::byte*> regions, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto buffers = std::make_unique<ShmBuffers>(own_, regions, bells_);
    set_up(*buffers);
    buffers_[channels_++] = std::move(buffers);
    for (std::byte*& region : regions) region += layout_.channel_step();
  }
}

void ShmNode::set_up(ShmBuffers& buffers) const {
  if (!order_.empty()) buffers.set_order(order_);
  buffers.expect_sleepers(sleepers_);
  buffers.tell_together(together_);
  if (attach_from_ > 0) buffers.let_stay(pids_, attach_from_);
}

bool ShmNode::prepare_channel(std::size_t channel) {
  if (channel >= layout_.channels) return false;
  while (channels_ <= channel) {
    if (!map_more()) return false;
  }
  return true;
}

/// As many channels as there are, so that their mappings stay few.
bool ShmNode::map_more() {
  const std::size_t bytes = channels_ * layout_.channel_step();
  const std::size_t members = bells_.size();
  Part part;
  std::string why;
  if (!part.share.grow(members, members * (page_bytes() + bytes), why)) return false;
  std::vector<std::byte*> regions;
  for (const Mapping& before : parts_.back().maps) {
    part.maps.push_back(Mapping::behind(before, bytes));
    if (!part.maps.back().ok()) return false;
    regions.push_back(part.maps.back().address() + page_bytes());
  }
  parts_.push_back(std::move(part));
  add_channels(std::move(regions), channels_);
  return true;
}

void ShmNode::set_order(const std::vector<std::uint32_t>& others) {
  order_ = others;
  for (std::size_t i = 0; i < channels_; ++i) buffers_[i]->set_order(others);
}

void ShmNode::expect_sleepers(bool sleepers) {
  sleepers_ = sleepers;
  for (std::size_t i = 0; i < channels_; ++i) buffers_[i]->expect_sleepers(sleepers);
}

void ShmNode::tell_together(bool together) {
  together_ = together;
  for (std::size_t i = 0; i < channels_; ++i) buffers_[i]->tell_together(together);
}

void ShmNode::agreed(bool attach, std::size_t attach_from) {
  segment_->close_file();
  attach_from_ = attach && attach_from > 0 ? attach_from : std::numeric_limits<std::size_t>::max();
  for (std::size_t i = 0; i < channels_; ++i) buffers_[i]->let_stay(pids_, attach_from_);
}

void ShmNode::send(int peer, int tag, Pieces data, int slot, Completions* done) {
  Link& link = links_[static_cast<std::size_t>(link_of_[static_cast<std::size_t>(peer)])];
  const std::lock_guard lock(mutex_);
  link.queue.push_back({{tag, bytes_of(data)}, PieceCursor(data), 0, slot, done, {}});
  push(link);
}

void ShmNode::recv(int peer, int tag, Pieces data, int slot, Completions* done) {
  Link& link = links_[static_cast<std::size_t>(link_of_[static_cast<std::size_t>(peer)])];
  const std::lock_guard lock(mutex_);
  const Posted posted{tag, data, bytes_of(data), slot, done};
  const auto early = std::find_if(link.unexpected.begin(), link.unexpected.end(),
                                  [&](const auto& u) { return u->tag == tag && !u->claimed; });
  if (early == link.unexpected.end()) {
    link.posted.push_back(posted);
    return;
  }
  Unexpected* stray = early->get();
  refuse_longer(peer, stray->memory.data.size(), posted.bytes);
  stray->claimed = true;
  stray->claim = posted;
  if (stray->got == stray->memory.data.size()) finish_stray(link, stray);
}

/// Writes queued messages as far as there is room.
bool ShmNode::write_queued(Link& link) {
  bool moved = false;
  while (link.queue_head < link.queue.size()) {
    Outgoing& o = link.queue[link.queue_head];
    if (o.sent == 0) {
      if (link.out.writable() < sizeof(Header)) return moved;
      link.out.write(std::as_bytes(std::span(&o.header, 1)));
      o.sent = sizeof(Header);
      moved = true;
    }
    const std::size_t n = link.out.write(o.rest);
    o.sent += n;
    moved = moved || n > 0;
    if (o.sent < sizeof(Header) + o.header.bytes) return moved;
    if (o.done != nullptr) o.done->push_back(o.slot);
    ++link.queue_head;
  }
  link.queue.clear();
  link.queue_head = 0;
  return moved;
}

// Who has asked for room looks again: the reader may have answered an earlier request when there was none for
// a header yet, and made more before this one.
bool ShmNode::push(Link& link) {
  bool moved = write_queued(link);
  if (!link.queue.empty()) {
    link.out.wait_for_room();
    moved = write_queued(link) || moved;
  }
  if (moved) link.doorbell->ring();
  return moved;
}

bool ShmNode::begin_message(Link& link) {
  if (link.in.readable() < sizeof(Header)) return false;
  link.in.read_some(std::as_writable_bytes(std::span(&link.header, 1)));
  link.got = 0;
  link.receiving = true;
  link.stray = nullptr;
  const auto posted = std::find_if(link.posted.begin(), link.posted.end(),
                                   [&](const Posted& p) { return p.tag == link.header.tag; });
  if (posted == link.posted.end()) {
    link.unexpected.push_back(std::make_unique<Unexpected>(link.header.tag, link.header.bytes));
    link.stray = link.unexpected.back().get();
    link.rest = PieceCursor({&link.stray->memory.piece, 1});
    return true;
  }
  link.current = *posted;
  link.posted.erase(posted);
  refuse_longer(link.peer, link.header.bytes, link.current.bytes);
  link.rest = PieceCursor(link.current.data, link.header.bytes);
  return true;
}

void ShmNode::end_message(Link& link) {
  link.receiving = false;
  if (link.stray == nullptr) {
    link.current.done->push_back(link.current.slot);
  } else if (link.stray->claimed) {
    finish_stray(link, link.stray);
  }
}

void ShmNode::finish_stray(Link& link, Unexpected* stray) {
  std::span<const std::byte> rest(stray->memory.data);
  for (const Piece& piece : stray->claim.data) {
    const std::size_t count = std::min(piece.size(), rest.size());
    std::ranges::copy(rest.first(count), piece.begin());
    rest = rest.subspan(count);
  }
  stray->claim.done->push_back(stray->claim.slot);
  std::erase_if(link.unexpected, [&](const auto& u) { return u.get() == stray; });
}

/// Reads what has arrived, message by message.
bool ShmNode::pull(Link& link) {
  bool moved = false;
  while (link.receiving || begin_message(link)) {
    link.got += link.in.read_some(link.rest);
    moved = true;
    if (link.stray != nullptr) link.stray->got = link.got;
    if (link.got < link.header.bytes) break;
    end_message(link);
  }
  if (moved && link.in.take_request()) link.doorbell->ring();
  return moved;
}

bool ShmNode::progress() {
  const std::lock_guard lock(mutex_);
  return progress_locked();
}

bool ShmNode::progress_for(const Completions& done) {
  const std::lock_guard lock(mutex_);
  return progress_locked() || !done.empty();
}

void ShmNode::progress(Completions& done, Completions& to) {
  const std::lock_guard lock(mutex_);
  progress_locked();
  to.insert(to.end(), done.begin(), done.end());
  done.clear();
}

/// The rest of the message that is just coming in goes to memory of our own.
void ShmNode::orphan_current(Link& link) {
  link.unexpected.push_back(std::make_unique<Unexpected>(link.header.tag, link.header.bytes));
  link.stray = link.unexpected.back().get();
  link.stray->got = link.got;
  link.rest = PieceCursor({&link.stray->memory.piece, 1});
  link.rest.take(link.got);
}

void ShmNode::forget(const Completions* done) {
  const std::lock_guard lock(mutex_);
  for (Link& link : links_) {
    std::erase_if(link.posted, [&](const Posted& p) { return p.done == done; });
    for (auto& u : link.unexpected) u->claimed = u->claimed && u->claim.done != done;
    if (link.receiving && link.stray == nullptr && link.current.done == done) orphan_current(link);
    // What the peer has seen the beginning of must come to its end.
    for (std::size_t i = link.queue_head; i < link.queue.size(); ++i) {
      Outgoing& o = link.queue[i];
      if (o.done != done) continue;
      const std::size_t left = o.header.bytes - (o.sent > 0 ? o.sent - sizeof(Header) : 0);
      o.kept = std::make_unique<OwnMemory>(left);
      for (std::size_t at = 0; at < left;) {
        const Piece piece = o.rest.take(left - at);
        std::ranges::copy(piece, o.kept->data.begin() + static_cast<std::ptrdiff_t>(at));
        at += piece.size();
      }
      o.rest = PieceCursor({&o.kept->piece, 1});
      o.done = nullptr;
    }
  }
}

bool ShmNode::progress_locked() {
  bool moved = false;
  for (Link& link : links_) {
    if (link.queue_head < link.queue.size()) moved = push(link) || moved;
    if (link.in.readable() > 0) moved = pull(link) || moved;
  }
  return moved;
}

}  // namespace tapa
