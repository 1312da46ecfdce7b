#include "transport/mpi_transport.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "transport/dropped_message.hpp"

namespace tapa {

namespace {

constexpr std::size_t kMostPieces = 64;  // in flight for one message, so that polling stays cheap

void check(int code, const char* call, int peer) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  PMPI_Error_string(code, text, &length);
  const std::string with = peer >= 0 ? " with rank " + std::to_string(peer) : std::string();
  throw TransportError(std::string(call) + with + ": " + std::string(text, static_cast<std::size_t>(length)),
                       code);
}

}  // namespace

void MpiTransport::reserve(int slots) {
  const auto n = static_cast<std::size_t>(slots);
  pieces_left_.assign(n, 0);
  empty_.assign(n, 0);
  active_.reserve(n);
  slot_of_.reserve(n);
  expected_.reserve(n);
  indices_.reserve(n);
  statuses_.reserve(n);
}

/// Both ends cut alike: the size of the pieces follows from the size of the message.
template <typename Post>
void MpiTransport::cut(int slot, std::size_t bytes, Expected expected, const Post& post) {
  const std::size_t piece = std::clamp((bytes + kMostPieces - 1) / kMostPieces, piece_, kIntMax);
  std::size_t at = 0;
  do {
    const std::size_t n = std::min(piece, bytes - at);
    MPI_Request request = MPI_REQUEST_NULL;
    post(at, static_cast<int>(n), &request);
    active_.push_back(request);
    slot_of_.push_back(slot);
    expected_.push_back(expected);
    ++pieces_left_[static_cast<std::size_t>(slot)];
    at += n;
  } while (at < bytes);
  indices_.resize(active_.size());
  statuses_.resize(active_.size());
}

void MpiTransport::post_send(int slot, int peer, int tag, Pieces pieces) {
  const Piece data = pieces.front();
  cut(slot, data.size(), Expected::nothing, [&](std::size_t at, int n, MPI_Request* request) {
    const bool empty = data.data() == nullptr;
    check(PMPI_Isend(empty ? nullptr : data.data() + at, empty ? 0 : n, MPI_BYTE, peer, tag, comm_, request),
          "MPI_Isend", peer);
  });
}

void MpiTransport::post_recv(int slot, int peer, int tag, Pieces pieces) {
  const Piece data = pieces.front();
  const bool drops = data.data() == nullptr;
  cut(slot, data.size(), drops ? Expected::too_much : Expected::bytes,
      [&](std::size_t at, int n, MPI_Request* request) {
        const int code = drops ? start_dropping(peer, tag, comm_, request)
                               : PMPI_Irecv(data.data() + at, n, MPI_BYTE, peer, tag, comm_, request);
        check(code, "MPI_Irecv", peer);
      });
}

void MpiTransport::complete(std::size_t at, const MPI_Status& status, std::vector<int>& completed) {
  const auto slot = static_cast<std::size_t>(slot_of_[at]);
  if (expected_[at] == Expected::bytes) {
    int bytes = 0;
    PMPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes == 0) empty_[slot] = 1;
  }
  if (--pieces_left_[slot] > 0) return;
  completed.push_back(std::exchange(empty_[slot], std::uint8_t{0}) != 0 ? ~slot_of_[at] : slot_of_[at]);
}

void MpiTransport::poll(std::vector<int>& completed, bool block) {
  if (active_.empty()) return;
  const auto count = static_cast<int>(active_.size());
  int done = 0;
  const int code = block ? PMPI_Waitsome(count, active_.data(), &done, indices_.data(), statuses_.data())
                         : PMPI_Testsome(count, active_.data(), &done, indices_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check(code, block ? "MPI_Waitsome" : "MPI_Testsome", -1);
  if (done <= 0) return;
  for (int i = 0; i < done; ++i) {
    const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    const bool dropped = expected_[at] == Expected::too_much;
    if (code == MPI_ERR_IN_STATUS && !(dropped && is_cut_short(status.MPI_ERROR)))
      check(status.MPI_ERROR, "message", -1);
    complete(at, status, completed);
  }
  // Close the gaps from the back, so that an index still names the entry that it named.
  std::sort(indices_.begin(), indices_.begin() + done, std::greater<>());
  for (int i = 0; i < done; ++i) {
    const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    active_[at] = active_.back();
    slot_of_[at] = slot_of_.back();
    expected_[at] = expected_.back();
    active_.pop_back();
    slot_of_.pop_back();
    expected_.pop_back();
  }
}

}  // namespace tapa
