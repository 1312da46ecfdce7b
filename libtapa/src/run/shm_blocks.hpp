/// @file
/// The blocks of a call as a shared-memory exchange wants them. Those that are not in one piece are packed
/// straight into shared memory and unpacked straight out of it.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "run/arguments.hpp"
#include "run/shm_exchange.hpp"
#include "transport/transport.hpp"

namespace tapa {

/// Reusable; of blocks that had to be packed as a whole it keeps at most kKeptBytes between exchanges.
class ShmBlocks final : public BlockPacker {
 public:
  /// `exchange` is used until the all-to-all ends, and `comm` for packing.
  void describe(const Exchange& exchange, MPI_Comm comm);

  /// Packs blocks elsewhere by `step`, before the exchange. False where that fails: then no block is packed
  /// or unpacked, so that the exchange ends with the error, on the receivers of this rank's blocks too.
  [[nodiscard]] bool prepare(const std::function<void()>& step);

  std::vector<ShmBlock> send;
  std::vector<ShmBlock> recv;

  void gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) override;
  void scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) override;
  void prepare_copy(std::size_t member) override;
  void copy(std::size_t member) override;
  std::byte* room(std::size_t member, bool sent, std::size_t bytes) override;
  void release_rooms() override;

  static constexpr std::size_t kKeptBytes = std::size_t{4} << 20;
  /// Bytes of packed blocks that are held now.
  [[nodiscard]] std::size_t held_bytes() const { return held_bytes_; }

 private:
  template <class Step>
  void packing(const Step& step) const;

  std::optional<TransportError> failure_;  // of prepare()
  const Exchange* exchange_ = nullptr;
  MPI_Comm comm_ = MPI_COMM_NULL;
  struct Room {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };
  std::vector<Room> rooms_;     // of blocks that are packed and travel in pieces
  std::size_t held_bytes_ = 0;  // of these
};

}  // namespace tapa
