#include "device/handle_post.hpp"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <thread>

namespace tapa::device {

namespace {

using Clock = std::chrono::steady_clock;

/// The kernel lets 253 descriptors travel in a message, and as many of a user be under way as one process may
/// open: by default 1024, 15 messages of this length. So ranks send in turn.
constexpr std::size_t kOfMessage = 64;
/// How long a rank tries to send where the system has no room: other jobs of its user may send, too.
constexpr auto kTimeout = std::chrono::seconds(2);

/// Name of a socket that is no file and ends with its owner; empty: there is none. Nobody can guess it, but
/// the kernel tells it (/proc/net/unix).
using Name = std::array<char, 38>;

/// The sockets of a rank. Strangers can write to both. What is in the first is never read; the second is
/// connected to the sender's first one before anything is sent: the kernel then takes messages of no other.
struct Names {
  Name sends, receives;
};

struct Letter {
  std::uint64_t first;  ///< number of the first handle
  std::array<std::uint64_t, kOfMessage> bytes;
};

/// Room for the descriptors of a message and who has sent it, aligned as the kernel's headers want it.
union Control {
  cmsghdr header;
  std::array<char, CMSG_SPACE(kOfMessage * sizeof(int)) + CMSG_SPACE(sizeof(ucred))> bytes;
};

struct SocketName {
  sockaddr_un address{};
  socklen_t length;
  explicit SocketName(const Name& name)
      : length(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(name.data()))) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), std::strlen(name.data()));
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};

/// A socket with a new name; none where there cannot be one, and errno says why.
Descriptor open_socket(Name& name) {
  name = {};
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  std::array<std::uint64_t, 2> number{};
  if (!socket.is_open() || ::getrandom(number.data(), sizeof(number), 0) != sizeof(number)) return {};
  Name made{};
  std::snprintf(made.data(), made.size(), "tapa-%016" PRIx64 "%016" PRIx64, number[0], number[1]);
  SocketName own(made);
  const int on = 1;
  if (::bind(socket.get(), own.get(), own.length) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
    return {};
  name = made;
  return socket;
}

/// 0, or why it is not sent. Waits for room until `late`.
int send_letter(const Descriptor& socket, const Name& to, Letter& letter, std::span<const Handle> handles,
                Clock::time_point late) {
  std::array<int, kOfMessage> files{};
  std::transform(handles.begin(), handles.end(), files.begin(), [](const Handle& h) { return h.file.get(); });
  Control control{};
  iovec part{&letter, sizeof(letter)};
  SocketName name(to);
  msghdr message{};
  message.msg_name = name.get();
  message.msg_namelen = name.length;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = CMSG_SPACE(handles.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(handles.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), files.data(), handles.size() * sizeof(int));
  while (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    const bool no_room = errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS;
    if (!no_room && errno != EINTR) return errno;
    if (Clock::now() > late) return errno;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

/// What came with a message; the descriptors are this process's from now on.
struct Enclosed {
  std::array<Descriptor, kOfMessage> files;
  std::size_t count = 0;
  bool of_own_user = false;
};

Enclosed enclosed_in(msghdr& message) {
  Enclosed found;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET) continue;
    if (at->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(at), sizeof(sender));
      found.of_own_user = sender.uid == ::getuid();
    }
    if (at->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; i < (at->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
      found.files.at(found.count++) = Descriptor(file);
    }
  }
  return found;
}

/// Adds the handles of the letter that is there. 0, or why not: EAGAIN: none is, EPERM: it is another user's,
/// EMFILE: this process may not open so many files.
int receive_letter(const Descriptor& socket, std::size_t count, std::vector<Handle>& to) {
  Letter letter{};
  Control control{};
  iovec part{&letter, sizeof(letter)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof(control);
  const ssize_t length = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (length < 0) return errno;
  Enclosed found = enclosed_in(message);
  if (!found.of_own_user) return EPERM;
  if (length != sizeof(letter) || letter.first != to.size()) return EBADMSG;
  if (found.count != count) return EMFILE;
  for (std::size_t i = 0; i < count; ++i) to.push_back({std::move(found.files[i]), letter.bytes[i]});
  return 0;
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

/// This rank's part of one delivery. Words are "" while all is well.
class Post {
 public:
  Post(const Agreement& agreement, const std::vector<Handle>& mine) : agreement_(agreement), mine_(mine) {
    Names own{};
    sends_ = open_socket(own.sends);
    receives_ = sends_.is_open() ? open_socket(own.receives) : Descriptor();
    if (!receives_.is_open()) no_socket_ = words_of("a socket", errno);
    names_ = agreement.gather(own);
  }

  /// All letters of the rank `from`, which has so many handles; `letters`: of any node's rank of this place.
  /// Collective.
  void turn(std::size_t from, std::size_t letters, std::uint64_t handles, Delivery& to) {
    const bool receives = handles != 0 && from != static_cast<std::size_t>(agreement_.rank());
    if (receives) to.missing = connect_to(names_[from].sends);
    agreement_.meet();
    for (std::size_t letter = 0; letter < letters; ++letter) {
      const std::size_t first = letter * kOfMessage;
      const std::size_t count = first < handles ? std::min<std::size_t>(kOfMessage, handles - first) : 0;
      const int error = receives || count == 0 ? 0 : send(first, count);
      const std::vector<int> errors = agreement_.gather(error);  // what was sent is there
      if (receives && count != 0 && to.missing.empty()) to.missing = receive(errors[from], count, to.handles);
    }
    if (!to.missing.empty()) to.handles.clear();
  }

 private:
  static std::string words_of(const char* what, int error) {
    return std::string(what) + ": " + std::strerror(error);
  }

  /// Takes messages of one socket from now on, and throws away what others have sent.
  [[nodiscard]] std::string connect_to(const Name& sender) const {
    if (!receives_.is_open()) return no_socket_;
    if (sender[0] == '\0') return "that rank has no socket";
    SocketName name(sender);
    if (::connect(receives_.get(), name.get(), name.length) != 0) return words_of("connect", errno);
    while (::recv(receives_.get(), nullptr, 0, MSG_DONTWAIT) >= 0) continue;
    return "";
  }

  /// To all others; the first error, or 0.
  [[nodiscard]] int send(std::size_t first, std::size_t count) const {
    const auto handles = std::span(mine_).subspan(first, count);
    Letter letter{first, {}};
    std::transform(handles.begin(), handles.end(), letter.bytes.begin(),
                   [](const Handle& h) { return h.bytes; });
    const auto late = Clock::now() + kTimeout;
    int error = 0;
    for (std::size_t rank = 0; rank < names_.size(); ++rank) {
      if (static_cast<int>(rank) == agreement_.rank() || names_[rank].receives[0] == '\0') continue;
      const int failed = send_letter(sends_, names_[rank].receives, letter, handles, late);
      if (error == 0) error = failed;
    }
    return error;
  }

  /// `sent`: the sender's error.
  [[nodiscard]] std::string receive(int sent, std::size_t count, std::vector<Handle>& to) const {
    const int error = receive_letter(receives_, count, to);
    if (error == EAGAIN && sent != 0) return words_of("sendmsg", sent);
    if (error == EPERM) return "another user has sent them";
    return error == 0 ? "" : words_of("recvmsg", error);
  }

  const Agreement& agreement_;
  const std::vector<Handle>& mine_;
  Descriptor sends_, receives_;
  std::string no_socket_;
  std::vector<Names> names_;
};

}  // namespace

std::vector<Delivery> post_handles(const Agreement& agreement, std::vector<Handle> mine) {
  const Announcement own{mine.size(), agreement.rank()};
  const std::vector<Announcement> everywhere = agreement.gather_everywhere(own);
  const std::vector<std::size_t> turns = turns_of(everywhere);
  std::vector<Delivery> all(static_cast<std::size_t>(agreement.size()));
  if (std::any_of(turns.begin(), turns.end(), [](std::size_t letters) { return letters != 0; })) {
    Post post(agreement, mine);
    Delivery nothing;
    for (std::size_t index = 0; index < turns.size(); ++index) {
      if (turns[index] == 0) continue;
      const bool here = index < all.size();
      const std::uint64_t handles =
          here ? everywhere[static_cast<std::size_t>(agreement.name(static_cast<int>(index)))].handles : 0;
      post.turn(index, turns[index], handles, here ? all[index] : nothing);
    }
  }
  all[static_cast<std::size_t>(agreement.rank())].handles = std::move(mine);
  return all;
}

}  // namespace tapa::device
