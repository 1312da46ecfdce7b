#include "device/socket_messenger.hpp"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "device/device_error.hpp"

namespace tapa::device {

namespace {

/// Instead of a channel: nothing follows.
constexpr std::uint32_t kGoodbye = ~std::uint32_t{0};
constexpr std::size_t kGather = 8;  ///< messages given to the system in one call
/// Messages taken from one connection before the others have their turn.
constexpr int kTurn = 8;
/// How long the end of a connection waits for what was sent to be taken.
constexpr auto kTimeout = std::chrono::seconds(2);

}  // namespace

void SocketStream::fail(const std::string& what) const {
  throw DeviceError(TAPA_DEVICE_ERR_ARG, "connection to rank " + std::to_string(peer_) + ": " + what);
}

void SocketStream::send(std::size_t request, int channel, const void* memory, std::size_t bytes) {
  outgoing_.push_back(
      {{static_cast<std::uint32_t>(channel), static_cast<std::uint32_t>(bytes)}, memory, request});
}

void SocketStream::receive(std::size_t request, int channel, void* memory, std::size_t bytes) {
  posted_.push_back({channel, static_cast<std::byte*>(memory), bytes, request});
}

void SocketStream::write(Done& done) {
  if (ended_) forget(done);
  while (!outgoing_.empty() && !broken_) {
    const std::size_t bytes = give();
    if (bytes == 0) return;
    written(bytes, done);
  }
}

/// Bytes that the system has taken, 0 when it takes none now.
std::size_t SocketStream::give() {
  std::array<iovec, 2 * kGather> parts;
  std::size_t count = 0;
  std::size_t skip = written_;
  const auto add = [&](const void* memory, std::size_t bytes) {
    const std::size_t begin = std::min(skip, bytes);
    skip -= begin;
    if (begin == bytes) return;
    parts[count++] = {static_cast<char*>(const_cast<void*>(memory)) + begin, bytes - begin};
  };
  for (std::size_t at = 0; at < std::min(outgoing_.size(), kGather); ++at) {
    add(&outgoing_[at].header, sizeof(Header));
    add(outgoing_[at].memory, outgoing_[at].header.bytes);
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t put = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  broken_ = put < 0 && !must_wait();
  return put > 0 ? static_cast<std::size_t>(put) : 0;
}

void SocketStream::forget(Done& done) {
  for (const Outgoing& each : outgoing_) done[each.request] = true;
  outgoing_.clear();
  written_ = 0;
}

void SocketStream::written(std::size_t bytes, Done& done) {
  written_ += bytes;
  while (!outgoing_.empty()) {
    const std::size_t whole = sizeof(Header) + outgoing_.front().header.bytes;
    if (written_ < whole) return;
    written_ -= whole;
    done[outgoing_.front().request] = true;
    outgoing_.pop_front();
  }
}

bool SocketStream::read(Done& done) {
  for (int message = 0; message < kTurn; ++message) {
    if (ended_) return false;
    if (!in_message_ && !(read_header() && begin_message())) break;
    if (!read_message(done)) break;
  }
  return !ended_;
}

/// What has arrived into some places, 0 when nothing has.
std::size_t SocketStream::arrive(std::span<iovec> parts) {
  const ssize_t got = ::readv(socket_.get(), parts.data(), static_cast<int>(parts.size()));
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) fail("closed by its other end");
  if (!must_wait()) fail(std::strerror(errno));
  return 0;
}

bool SocketStream::read_header() {
  if (header_bytes_ < sizeof(Header)) {
    iovec part{reinterpret_cast<char*>(&header_) + header_bytes_, sizeof(Header) - header_bytes_};
    header_bytes_ += arrive({&part, 1});
  }
  return header_bytes_ == sizeof(Header);
}

/// False when nobody is ready for the message.
bool SocketStream::begin_message() {
  if (header_.channel == kGoodbye) {
    ended_ = true;
    return false;
  }
  const auto found = std::find_if(posted_.begin(), posted_.end(), [&](const Posted& each) {
    return static_cast<std::uint32_t>(each.channel) == header_.channel;
  });
  if (found == posted_.end()) return false;
  if (header_.bytes > found->bytes) fail("a message is longer than its receiver expects");
  current_ = *found;
  posted_.erase(found);
  in_message_ = true;
  arrived_ = 0;
  return true;
}

/// True when the message is whole. The next one's header comes along.
bool SocketStream::read_message(Done& done) {
  const std::size_t bytes = header_.bytes;
  Header next{};
  std::size_t next_bytes = 0;
  if (arrived_ < bytes) {
    std::array<iovec, 2> parts{iovec{current_.memory + arrived_, bytes - arrived_},
                               iovec{&next, sizeof(next)}};
    const std::size_t got = arrive(parts);
    const std::size_t own = std::min(got, bytes - arrived_);
    arrived_ += own;
    next_bytes = got - own;
  }
  if (arrived_ < bytes) return false;
  done[current_.request] = true;
  in_message_ = false;
  header_ = next;
  header_bytes_ = next_bytes;
  return true;
}

void SocketStream::begin_leaving() {
  // Of what nobody waits for, only a message that is half gone.
  if (!outgoing_.empty()) outgoing_.erase(outgoing_.begin() + (written_ > 0 ? 1 : 0), outgoing_.end());
  send(0, static_cast<int>(kGoodbye), nullptr, 0);
}

bool SocketStream::leave(std::size_t& left) {
  std::size_t requests = 1;
  for (const Outgoing& each : outgoing_) requests = std::max(requests, each.request + 1);
  Done ignored(requests);
  write(ignored);
  if (outgoing_.empty() && !shut_) shut_ = ::shutdown(socket_.get(), SHUT_WR) == 0;
  // Closing with bytes that nobody has read would reset the connection, and what is under way would be lost.
  std::array<char, 4096> unread;
  ssize_t got = 0;
  while ((got = ::recv(socket_.get(), unread.data(), unread.size(), MSG_DONTWAIT)) > 0) continue;
  broken_ = broken_ || (got < 0 && !must_wait());
  int queued = 0;
  if (::ioctl(socket_.get(), SIOCOUTQ, &queued) != 0) broken_ = true;
  left = static_cast<std::size_t>(queued) + outgoing_.size();
  if (left > 0 && !broken_) return true;
  socket_.close();
  return false;
}

SocketMessenger::SocketMessenger(std::vector<PeerSocket> peers, std::string interfaces)
    : interfaces_(std::move(interfaces)), ready_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!ready_.is_open())
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, std::string("epoll_create1: ") + std::strerror(errno));
  for (PeerSocket& peer : peers) {
    of_peer_.resize(std::max(of_peer_.size(), static_cast<std::size_t>(peer.peer) + 1));
    of_peer_[static_cast<std::size_t>(peer.peer)] = streams_.size();
    streams_.emplace_back(std::move(peer));
    watch(streams_.size() - 1);
  }
}

void SocketMessenger::watch(std::size_t stream) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = stream;
  if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, streams_[stream].descriptor(), &event) != 0)
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, std::string("epoll_ctl: ") + std::strerror(errno));
}

void SocketMessenger::at_end(std::function<void()> begin, std::function<void()> end) {
  end_.reset();
  if (begin) end_ = std::make_unique<AtExit>(std::move(begin), std::move(end));
}

void SocketMessenger::send(std::size_t request, Address address, const void* memory, std::size_t bytes) {
  done_[request] = false;
  stream_of(address.peer).send(request, address.channel, memory, bytes);
}

void SocketMessenger::receive(std::size_t request, Address address, void* memory, std::size_t bytes) {
  done_[request] = false;
  stream_of(address.peer).receive(request, address.channel, memory, bytes);
}

void SocketMessenger::progress() {
  for (SocketStream& stream : streams_) stream.write(done_);
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(ready_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int at = 0; at < count; ++at) read(streams_[events[static_cast<std::size_t>(at)].data.u64]);
  // Of a message without bytes nothing is left that the system could tell of.
  for (SocketStream& stream : streams_)
    if (stream.holds_message() && !stream.has_ended()) read(stream);
}

void SocketMessenger::read(SocketStream& stream) {
  if (!stream.read(done_)) ::epoll_ctl(ready_.get(), EPOLL_CTL_DEL, stream.descriptor(), nullptr);
}

/// Waits for those that still take what was sent, all at once.
void SocketMessenger::abandon() {
  std::vector<SocketStream*> leaving;
  for (SocketStream& stream : streams_) {
    stream.begin_leaving();
    leaving.push_back(&stream);
  }
  std::size_t before = ~std::size_t{0};
  for (auto until = std::chrono::steady_clock::now() + kTimeout; !leaving.empty();) {
    std::size_t all = 0;
    std::erase_if(leaving, [&all](SocketStream* stream) {
      std::size_t left = 0;
      const bool goes_on = stream->leave(left);
      all += left;
      return !goes_on;
    });
    const auto now = std::chrono::steady_clock::now();
    if (all < before) until = now + kTimeout;
    before = std::min(before, all);
    if (now >= until) break;
    if (!leaving.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (SocketStream& stream : streams_) stream.close();
}

}  // namespace tapa::device
