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
  constexpr std::size_t most = ShmSegment::kMaxCapacity;
  return members <= 16 ? most : members <= 32 ? most / 2 : most / 4;
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
                                          const std::vector<std::string>& tokens, std::string& why) {
  std::unique_ptr<ShmNode> node(new ShmNode);
  node->segment_ = std::make_unique<ShmSegment>(std::move(segment));
  node->capacity_ = capacity_for(members.size());
  node->buffers_at_ = ShmSegment::slot_offset(members.size(), node->capacity_);
  node->own_map_ = Mapping(node->segment_->fd(), 0, node->buffers_at_ + extra_bytes());
  if (!node->own_map_.ok()) {
    why = "cannot map the own segment";
    return nullptr;
  }
  node->own_doorbell_ = static_cast<Doorbell*>(node->own_map_.address());
  node->link_of_.assign(static_cast<std::size_t>(ranks), -1);
  node->links_.reserve(members.size());
  const auto own = static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == rank) continue;
    Link& link = node->links_.emplace_back();
    link.peer = members[i];
    if (!node->open_link(link, tokens[i], own, i)) {
      why = "cannot open the segment of rank " + std::to_string(members[i]) + " (" + tokens[i] + ")";
      return nullptr;
    }
    node->link_of_[static_cast<std::size_t>(members[i])] = static_cast<int>(node->links_.size()) - 1;
  }
  if (members.size() > 1 && members.size() <= ShmBuffers::kMostMembers) node->make_buffers(own);
  return node;
}

/// Region `lane` of each member's segment makes buffers `lane`.
void ShmNode::make_buffers(std::size_t own_index) {
  auto* const own = static_cast<std::byte*>(own_map_.address()) + buffers_at_;
  for (std::size_t lane = 0; lane < kChannels; ++lane) {
    std::vector<std::byte*> regions;
    std::vector<Doorbell*> bells;
    for (const Link& link : links_) {
      regions.push_back(static_cast<std::byte*>(link.buffers_map.address()) +
                        lane * ShmBuffers::region_bytes());
      bells.push_back(link.doorbell);
    }
    const auto at = static_cast<std::ptrdiff_t>(own_index);
    regions.insert(regions.begin() + at, own + lane * ShmBuffers::region_bytes());
    bells.insert(bells.begin() + at, own_doorbell_);
    buffers_.push_back(std::make_unique<ShmBuffers>(own_index, std::move(regions), std::move(bells)));
  }
}

void ShmNode::expect_sleepers(bool sleepers) {
  for (const auto& buffers : buffers_) buffers->expect_sleepers(sleepers);
}

void ShmNode::agreed(bool attach, std::size_t attach_from) {
  segment_->close_file();
  const std::size_t from = attach && attach_from > 0 ? attach_from : std::numeric_limits<std::size_t>::max();
  std::vector<pid_t> pids;
  for (const Link& link : links_) pids.push_back(link.pid);
  for (const auto& buffers : buffers_) {
    auto with_own = pids;
    with_own.insert(with_own.begin() + static_cast<std::ptrdiff_t>(buffers->self()), getpid());
    buffers->let_stay(std::move(with_own), from);
  }
}

/// Slot i of a segment is the ring that the i-th member writes.
bool ShmNode::open_link(Link& link, const std::string& token, std::size_t own_index, std::size_t peer_index) {
  const int fd = ShmSegment::open_token(token);
  if (fd < 0) return false;
  link.pid = ShmSegment::process(token);
  can_attach_ = can_attach_ && ShmSegment::readable(token);
  link.doorbell_map = Mapping(fd, 0, ShmSegment::kHeader);
  link.out_map =
      Mapping(fd, ShmSegment::slot_offset(own_index, capacity_), ShmSegment::slot_bytes(capacity_));
  link.buffers_map = Mapping(fd, buffers_at_, extra_bytes());
  close(fd);
  if (!link.doorbell_map.ok() || !link.out_map.ok() || !link.buffers_map.ok()) return false;
  link.doorbell = static_cast<Doorbell*>(link.doorbell_map.address());
  link.out = ShmRing(link.out_map.address(), capacity_);
  auto* own = static_cast<std::byte*>(own_map_.address());
  link.in = ShmRing(own + ShmSegment::slot_offset(peer_index, capacity_), capacity_);
  return true;
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
bool ShmNode::push(Link& link) {
  bool moved = false;
  while (link.queue_head < link.queue.size()) {
    Outgoing& o = link.queue[link.queue_head];
    if (o.sent == 0) {
      if (link.out.writable() < sizeof(Header)) break;
      link.out.write(std::as_bytes(std::span(&o.header, 1)));
      o.sent = sizeof(Header);
      moved = true;
    }
    const std::size_t n = link.out.write(o.rest);
    o.sent += n;
    moved = moved || n > 0;
    if (o.sent < sizeof(Header) + o.header.bytes) break;
    if (o.done != nullptr) o.done->push_back(o.slot);
    ++link.queue_head;
  }
  if (link.queue_head == link.queue.size()) {
    link.queue.clear();
    link.queue_head = 0;
  } else {
    link.out.wait_for_room();
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
