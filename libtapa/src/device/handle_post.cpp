#include "device/handle_post.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <span>

namespace tapa::device {

namespace {

/// The kernel lets 253 descriptors travel in a message, and as many of a user be under way as one process may
/// open: by default 1024, 15 messages of this length. So ranks send in turn.
constexpr std::size_t kOfMessage = 64;

/// Where a rank is written to. The kernel chooses the name, which is no file and ends with the socket.
struct Address {
  sockaddr_un name;
  socklen_t length;     ///< 0: this rank has no socket
  std::uint64_t token;  ///< that its messages carry, so that no other process is taken for it
};

struct Letter {
  std::uint64_t token;
  std::uint64_t first;  ///< number of the first handle
  std::array<std::uint64_t, kOfMessage> bytes;
};

/// Room for the descriptors of a message, aligned as the kernel's headers want it.
union Control {
  cmsghdr header;
  std::array<char, CMSG_SPACE(kOfMessage * sizeof(int))> bytes;
};

std::uint64_t random_token() {
  std::random_device random;
  return std::uint64_t{random()} << 32U | random();
}

/// A socket that receives from anybody; none where there cannot be one.
Descriptor open_socket(Address& address) {
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un any{};
  any.sun_family = AF_UNIX;
  address = {};
  socklen_t length = sizeof(address.name);
  auto* const name = reinterpret_cast<sockaddr*>(&address.name);
  if (!socket.is_open() || bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof(sa_family_t)) != 0 ||
      getsockname(socket.get(), name, &length) != 0) {
    return {};
  }
  address.length = length;
  address.token = random_token();
  return socket;
}

/// What cannot be sent is missed by the receiver.
void send_letter(const Descriptor& socket, const Address& to, Letter& letter,
                 std::span<const Handle> handles) {
  if (to.length == 0) return;
  std::array<int, kOfMessage> files{};
  std::transform(handles.begin(), handles.end(), files.begin(), [](const Handle& h) { return h.file.get(); });
  Control control{};
  iovec part{&letter, sizeof(letter)};
  msghdr message{};
  sockaddr_un name = to.name;
  message.msg_name = &name;
  message.msg_namelen = to.length;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = CMSG_SPACE(handles.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(handles.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), files.data(), handles.size() * sizeof(int));
  (void)sendmsg(socket.get(), &message, MSG_NOSIGNAL);
}

/// The descriptors of a message; they are this process's from now on.
std::vector<Descriptor> files_of(msghdr& message) {
  std::vector<Descriptor> files;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; i < (at->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
      files.emplace_back(file);
    }
  }
  return files;
}

/// Adds what the letter of a rank brings; letters of others are dropped.
void receive_letter(const Descriptor& socket, std::uint64_t token, std::size_t count,
                    std::vector<Handle>& to) {
  for (;;) {
    Letter letter{};
    Control control{};
    iovec part{&letter, sizeof(letter)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof(control);
    const ssize_t length = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
    if (length < 0) return;  // nothing is there
    std::vector<Descriptor> files = files_of(message);
    if (length != sizeof(letter) || letter.token != token || letter.first != to.size()) continue;
    if (files.size() != count) return;  // more than this process may open
    for (std::size_t i = 0; i < count; ++i) to.push_back({std::move(files[i]), letter.bytes[i]});
    return;
  }
}

/// How many handles a rank has, and its place among the ranks of its node.
struct Announcement {
  std::uint64_t handles;
  int index;
};

std::size_t letters_for(std::uint64_t handles) {
  return static_cast<std::size_t>((handles + kOfMessage - 1) / kOfMessage);
}

/// How many letters the ranks of each index send, of whatever node. In a turn of an index every node's rank
/// sends, so that all make the same collective calls.
std::vector<std::size_t> turns_of(const std::vector<Announcement>& everywhere) {
  std::vector<std::size_t> turns;
  for (const Announcement& each : everywhere) {
    const auto index = static_cast<std::size_t>(each.index);
    turns.resize(std::max(turns.size(), index + 1));
    turns[index] = std::max(turns[index], letters_for(each.handles));
  }
  return turns;
}

/// This rank's part of one delivery.
class Post {
 public:
  Post(const Agreement& agreement, const std::vector<Handle>& mine) : agreement_(agreement), mine_(mine) {
    Address own{};
    socket_ = open_socket(own);
    addresses_ = agreement.gather(own);
  }

  /// Letter number `letter` of the rank `from`, if it has so many.
  void turn(std::size_t from, std::size_t letter, std::uint64_t handles, std::vector<Handle>& to) {
    const std::size_t first = letter * kOfMessage;
    const std::size_t count = first < handles ? std::min<std::size_t>(kOfMessage, handles - first) : 0;
    const bool sends = from == static_cast<std::size_t>(agreement_.rank());
    if (sends && count != 0) send(first, count);
    agreement_.meet();  // what was sent is there
    if (!sends && count != 0 && socket_.is_open()) {
      receive_letter(socket_, addresses_[from].token, count, to);
    }
  }

 private:
  void send(std::size_t first, std::size_t count) const {
    const auto handles = std::span(mine_).subspan(first, count);
    Letter letter{addresses_[static_cast<std::size_t>(agreement_.rank())].token, first, {}};
    std::transform(handles.begin(), handles.end(), letter.bytes.begin(),
                   [](const Handle& h) { return h.bytes; });
    for (std::size_t rank = 0; rank < addresses_.size(); ++rank) {
      if (static_cast<int>(rank) != agreement_.rank())
        send_letter(socket_, addresses_[rank], letter, handles);
    }
  }

  const Agreement& agreement_;
  const std::vector<Handle>& mine_;
  Descriptor socket_;
  std::vector<Address> addresses_;
};

}  // namespace

std::vector<std::vector<Handle>> post_handles(const Agreement& agreement, std::vector<Handle> mine) {
  const Announcement own{mine.size(), agreement.rank()};
  const std::vector<Announcement> everywhere = agreement.gather_everywhere(own);
  const std::vector<std::size_t> turns = turns_of(everywhere);
  std::vector<std::vector<Handle>> all(static_cast<std::size_t>(agreement.size()));
  if (std::any_of(turns.begin(), turns.end(), [](std::size_t letters) { return letters != 0; })) {
    Post post(agreement, mine);
    std::vector<Handle> nothing;
    for (std::size_t index = 0; index < turns.size(); ++index) {
      const bool here = index < all.size();
      const std::uint64_t handles =
          here ? everywhere[static_cast<std::size_t>(agreement.name(static_cast<int>(index)))].handles : 0;
      for (std::size_t letter = 0; letter < turns[index]; ++letter) {
        post.turn(index, letter, handles, here ? all[index] : nothing);
      }
      if (here && all[index].size() != handles) all[index].clear();
    }
  }
  all[static_cast<std::size_t>(agreement.rank())] = std::move(mine);
  return all;
}

}  // namespace tapa::device
