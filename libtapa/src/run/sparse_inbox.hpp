/// @file
/// Messages whose sources and sizes nobody knew before they came.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "run/shm_exchange.hpp"

namespace tapa {

/// At most one message from each rank. Reusable: of the memory of messages it keeps at most kKeptBytes. What
/// is sent lies in one piece, so that nothing is gathered.
class SparseInbox final : public BlockPacker {
 public:
  /// Forgets all messages; others may come from so many ranks.
  void clear(std::size_t ranks);

  /// Memory of a message of so many bytes, which has come. Throws TransportError where there is none.
  std::byte* open(std::size_t source, std::size_t bytes);

  /// Puts the sources in order. Before the next three.
  void close();
  [[nodiscard]] const std::vector<std::size_t>& sources() const { return sources_; }
  [[nodiscard]] std::span<const std::byte> from(std::size_t source) const { return messages_[source].data; }
  [[nodiscard]] std::size_t bytes() const;

  void gather(std::size_t, std::size_t, std::size_t, std::byte*) override {}
  void scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) override;
  void copy(std::size_t) override {}
  std::byte* room(std::size_t member, bool sent, std::size_t bytes) override;
  [[nodiscard]] bool keeps_rooms() const override { return true; }
  void release_rooms() override {}

  static constexpr std::size_t kKeptBytes = std::size_t{4} << 20;

 private:
  struct Message {
    std::vector<std::byte> data;
    bool came = false;
  };
  void note(std::size_t source);

  std::vector<Message> messages_;  // by source
  std::vector<std::size_t> sources_;
};

}  // namespace tapa
