#include "transport/shm_node.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "transport/transport.hpp"

namespace tapa {

namespace {

/// As in MPI, a message may be shorter than what is expected.
void refuse_longer(int peer, std::size_t bytes, std::size_t expected) {
  if (bytes <= expected) return;
  throw TransportError::truncation("message from rank " + std::to_string(peer) + " has " +
                                   std::to_string(bytes) + " bytes, expected at most " +
                                   std::to_string(expected));
}

}  // namespace

ShmNode::Unexpected::Unexpected(std::int64_t its_tag, std::size_t its_bytes)
    : tag(its_tag), bytes(its_bytes), piece(nothing(its_bytes)) {
  try {
    memory = std::make_unique<OwnMemory>(bytes);
    piece = memory->piece;
  } catch (const std::bad_alloc&) {  // whoever wants it is told
  }
}

ShmNode::ShmNode(const std::vector<RingEnds>& ends, std::size_t own, Doorbell* bell)
    : own_doorbell_(bell), own_(own), links_(ends.size()) {
  for (std::size_t peer = 0; peer < ends.size(); ++peer) {
    Link& link = links_[peer];
    link.peer = static_cast<int>(peer);
    link.doorbell = ends[peer].bell;
    link.out = ends[peer].out;
    link.in = ends[peer].in;
  }
}

void ShmNode::send(int peer, int tag, Pieces data, int slot, Completions* done) {
  Link& link = links_[static_cast<std::size_t>(peer)];
  const std::lock_guard lock(mutex_);
  if (is_nothing(data)) data = {};
  link.queue.push_back({{tag, bytes_of(data)}, PieceCursor(data), 0, slot, done, {}});
  push(link);
}

void ShmNode::recv(int peer, int tag, Pieces data, int slot, Completions* done) {
  Link& link = links_[static_cast<std::size_t>(peer)];
  const std::lock_guard lock(mutex_);
  const Posted posted{tag, data, bytes_of(data), slot, done};
  const auto early = std::find_if(link.unexpected.begin(), link.unexpected.end(),
                                  [&](const auto& u) { return u->tag == tag && !u->claimed; });
  if (early == link.unexpected.end()) {
    link.posted.push_back(posted);
    return;
  }
  Unexpected* stray = early->get();
  refuse_longer(peer, stray->bytes, posted.bytes);
  stray->claimed = true;
  stray->claim = posted;
  if (stray->got == stray->bytes) finish_stray(link, stray);
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
  if (!link.has_header) {
    if (link.in.readable() < sizeof(Header)) return false;
    link.in.read_some(std::as_writable_bytes(std::span(&link.header, 1)));
    link.has_header = true;
  }
  const auto posted = std::find_if(link.posted.begin(), link.posted.end(),
                                   [&](const Posted& p) { return p.tag == link.header.tag; });
  const bool expected = posted != link.posted.end();
  if (!expected) {
    try {
      link.unexpected.push_back(std::make_unique<Unexpected>(link.header.tag, link.header.bytes));
    } catch (const std::bad_alloc&) {  // it waits in the ring until there is some, or it is expected
      return false;
    }
  }
  link.has_header = false;
  link.got = 0;
  link.receiving = true;
  link.stray = expected ? nullptr : link.unexpected.back().get();
  if (!expected) {
    link.rest = PieceCursor({&link.stray->piece, 1});
    return true;
  }
  link.current = *posted;
  link.posted.erase(posted);
  refuse_longer(link.peer, link.header.bytes, link.current.bytes);
  link.rest = PieceCursor(link.current.data, link.header.bytes);
  return true;
}

void ShmNode::complete(const Posted& posted, std::size_t bytes) {
  posted.done->push_back(bytes == 0 && posted.bytes > 0 ? ~posted.slot : posted.slot);
}

void ShmNode::end_message(Link& link) {
  link.receiving = false;
  if (link.stray == nullptr) {
    complete(link.current, link.header.bytes);
  } else if (link.stray->claimed) {
    finish_stray(link, link.stray);
  }
}

void ShmNode::finish_stray(Link& link, Unexpected* stray) {
  std::span<const std::byte> rest;
  if (stray->memory) rest = stray->memory->data;
  for (const Piece& piece : stray->claim.data) {
    const std::size_t count = std::min(piece.size(), rest.size());
    if (piece.data() != nullptr) std::ranges::copy(rest.first(count), piece.begin());
    rest = rest.subspan(count);
  }
  complete(stray->claim, stray->memory ? stray->bytes : 0);
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
  link.rest = PieceCursor({&link.stray->piece, 1});
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
    if (&link == &links_[own_]) continue;
    if (link.queue_head < link.queue.size()) moved = push(link) || moved;
    if (link.has_header || link.in.readable() > 0) moved = pull(link) || moved;
  }
  return moved;
}

}  // namespace tapa
