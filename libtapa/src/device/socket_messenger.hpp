/// @file
/// Messages between nodes over TCP: no MPI and no NCCL is needed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/at_exit.hpp"
#include "device/messenger.hpp"
#include "device/socket_mesh.hpp"

namespace tapa::device {

/// Messages of all channels on one connection, in the order in which they are sent. One that nobody is ready
/// for waits, and all behind it.
class SocketStream {
 public:
  /// Messages under way, by the numbers of their requests.
  using Done = std::vector<bool>;

  explicit SocketStream(PeerSocket end) : peer_(end.peer), socket_(std::move(end.socket)) {}

  [[nodiscard]] int descriptor() const { return socket_.get(); }

  void send(std::size_t request, int channel, const void* memory, std::size_t bytes);
  void receive(std::size_t request, int channel, void* memory, std::size_t bytes);
  /// Gives the system what it takes now. An error shows when this connection is read: what has arrived
  /// counts.
  void write(Done& done);
  /// Takes from it what has arrived. False when there is nothing more to come on this connection.
  [[nodiscard]] bool read(Done& done);
  /// Whether a message has begun to arrive that nobody was ready for.
  [[nodiscard]] bool holds_message() const { return header_bytes_ == sizeof(Header) && !in_message_; }
  /// Whether the other end has said that nothing follows.
  [[nodiscard]] bool has_ended() const { return ended_; }
  /// Says that nothing follows. Then leave() is called again and again.
  void begin_leaving();
  /// False when the other end has taken all, or takes nothing any more; the connection is closed then.
  /// `left`: bytes that it has not taken.
  [[nodiscard]] bool leave(std::size_t& left);
  void close() { socket_.close(); }

 private:
  struct Header {
    std::uint32_t channel;
    std::uint32_t bytes;
  };
  struct Outgoing {
    Header header;
    const void* memory;
    std::size_t request;
  };
  struct Posted {
    int channel;
    std::byte* memory;
    std::size_t bytes;
    std::size_t request;
  };
  [[nodiscard]] std::size_t give();
  void written(std::size_t bytes, Done& done);
  void forget(Done& done);
  bool read_header();
  bool begin_message();
  bool read_message(Done& done);
  [[nodiscard]] std::size_t arrive(std::span<struct iovec> parts);
  [[noreturn]] void fail(const std::string& what) const;

  int peer_;
  Descriptor socket_;
  std::deque<Outgoing> outgoing_;
  std::size_t written_ = 0;  ///< bytes of the first of them, its header included
  std::vector<Posted> posted_;
  Header header_{};
  std::size_t header_bytes_ = 0;  ///< that have arrived
  bool in_message_ = false;       ///< the header belongs to `current_`
  Posted current_{};
  std::size_t arrived_ = 0;  ///< bytes of it
  bool ended_ = false;       ///< the other end has said that nothing follows, and needs nothing
  bool broken_ = false;      ///< it takes nothing any more
  bool shut_ = false;        ///< it has been told that nothing follows
};

class SocketMessenger final : public Messenger {
 public:
  /// A connection to each peer. `interfaces`: of this rank, in words.
  SocketMessenger(std::vector<PeerSocket> peers, std::string interfaces);

  [[nodiscard]] std::string describe() const override { return interfaces_; }
  [[nodiscard]] bool takes_device_memory() const override { return false; }
  /// When the process exits.
  void at_end(std::function<void()> begin, std::function<void()> end) override;
  void provide(std::size_t requests) override { done_.assign(requests, true); }
  void send(std::size_t request, Address address, const void* memory, std::size_t bytes) override;
  void receive(std::size_t request, Address address, void* memory, std::size_t bytes) override;
  void progress() override;
  [[nodiscard]] bool done(std::size_t request) const override { return done_[request]; }
  [[nodiscard]] bool has_left(int peer) const override { return stream_of(peer).has_ended(); }
  void abandon() override;

 private:
  [[nodiscard]] SocketStream& stream_of(int peer) { return streams_[index_of(peer)]; }
  [[nodiscard]] const SocketStream& stream_of(int peer) const { return streams_[index_of(peer)]; }
  [[nodiscard]] std::size_t index_of(int peer) const { return of_peer_[static_cast<std::size_t>(peer)]; }
  void watch(std::size_t stream);
  void read(SocketStream& stream);

  std::string interfaces_;
  std::vector<SocketStream> streams_;
  std::vector<std::size_t> of_peer_;  ///< index of its stream
  Descriptor ready_;                  ///< epoll: which streams can be read
  SocketStream::Done done_;
  std::unique_ptr<AtExit> end_;
};

}  // namespace tapa::device
