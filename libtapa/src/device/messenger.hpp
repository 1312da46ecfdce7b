/// @file
/// Messages between nodes, as a proxy sends them: an interface, so that the device engine knows no MPI.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace tapa::device {

/// One direction between this rank and another, on one channel. Messages arrive in the order in which they
/// were sent.
struct Address {
  int peer = -1;  ///< rank in the communicator
  int channel = 0;
};

/// Messages that are under way are known by numbers that the caller gives out, 0 to requests - 1. After
/// construction one thread at a time uses it. All functions throw DeviceError.
class Messenger {
 public:
  Messenger() = default;
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;
  virtual ~Messenger() = default;

  /// What moves messages, in words: "Open MPI 4.1.6".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Whether messages may lie in memory of a device.
  [[nodiscard]] virtual bool takes_device_memory() const = 0;

  /// Both are called, one after the other, when the program ends what carries messages while this lives;
  /// after `end` no thread may use it any more. Where there are several messengers all begin before one ends.
  /// Without functions: none is called any more, nor running.
  virtual void at_end(std::function<void()> begin, std::function<void()> end) = 0;

  /// Numbers that will be used. Called once, before all others.
  virtual void provide(std::size_t requests) = 0;
  virtual void send(std::size_t request, Address address, const void* memory, std::size_t bytes) = 0;
  /// At most `bytes` bytes.
  virtual void receive(std::size_t request, Address address, void* memory, std::size_t bytes) = 0;
  /// Moves messages on; afterwards done() is up to date.
  virtual void progress() = 0;
  /// Whether a message is done, since the last progress(). True for a number that is not under way.
  [[nodiscard]] virtual bool done(std::size_t request) const = 0;
  /// Whether a rank has said that it sends nothing more, and all that it sent is done. What is sent to it is
  /// done, too.
  [[nodiscard]] virtual bool has_left(int /*peer*/) const { return false; }
  /// Ends receives that nobody will send for. Sends must be done, or are given up with their memory.
  virtual void abandon() = 0;
};

}  // namespace tapa::device
