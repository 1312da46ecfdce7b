/// @file
/// How one message moves between two ranks. The executor knows nothing else about the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "transport/pieces.hpp"

namespace tapa {

/// A transport could not move a message; what() names the peer and the cause.
class TransportError : public std::runtime_error {
 public:
  explicit TransportError(const std::string& what, int mpi_code = 0)
      : std::runtime_error(what), mpi_code_(mpi_code) {}
  /// A message that is longer than what was expected.
  [[nodiscard]] static TransportError truncation(const std::string& what) { return {what, Kind::truncation}; }
  /// This rank has none.
  [[nodiscard]] static TransportError no_memory(const std::string& what) { return {what, Kind::no_memory}; }
  /// The same, for which none is needed but the first time.
  [[nodiscard]] static const TransportError& no_memory() {
    static const auto& error = *new TransportError(no_memory("out of memory"));  // not destroyed
    return error;
  }
  /// The MPI error code when MPI reported it, else 0.
  [[nodiscard]] int mpi_code() const { return mpi_code_; }
  [[nodiscard]] bool truncated() const { return kind_ == Kind::truncation; }
  [[nodiscard]] bool out_of_memory() const { return kind_ == Kind::no_memory; }

 private:
  enum class Kind : std::uint8_t { other, truncation, no_memory };
  TransportError(const std::string& what, Kind kind) : std::runtime_error(what), kind_(kind) {}

  int mpi_code_ = 0;
  Kind kind_ = Kind::other;
};

/// One way to move bytes. Not thread-safe; each execution has one of its own.
/// Slots are small integers chosen by the executor (0 .. slots-1), reused from run to run.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Room for this many messages in flight. Called once, before any post; nothing is allocated afterwards.
  virtual void reserve(int slots) = 0;

  /// Whether a message of so many bytes to or from `peer` may lie in several pieces. Always the same.
  [[nodiscard]] virtual bool takes_pieces(int peer, std::size_t bytes) const = 0;

  /// Starts sending what lies in `data`: one piece, or several where takes_pieces(). The caller keeps the
  /// list and leaves the memory untouched until the slot completes. A piece at null (see nothing()): an empty
  /// message goes in the place of one of so many bytes. Throws TransportError.
  virtual void post_send(int slot, int peer, int tag, Pieces data) = 0;

  /// Starts receiving as many bytes as `data` has, or a shorter message; at null what comes is dropped.
  /// Otherwise as post_send.
  virtual void post_recv(int slot, int peer, int tag, Pieces data) = 0;

  /// Appends the slots that completed since the last call to `completed`; `~slot` where an empty message came
  /// in the place of another. With `block`, waits for one, but
  /// not for ever: it may return with none. Throws TransportError.
  virtual void poll(std::vector<int>& completed, bool block) = 0;

  /// Told of bytes that the executor has gathered, scattered or copied: a simulated machine charges them to
  /// its clock.
  virtual void copied(std::size_t) {}

  /// Whether buffers hold data. A simulated machine may have addresses only, so that large exchanges of many
  /// ranks fit into one process: then nothing is to be read or written. Always the same.
  [[nodiscard]] virtual bool has_data() const { return true; }
};

}  // namespace tapa
