#include "transport/mpi_transport.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace tapa {

namespace {

// MPI-3 counts are int: longer messages travel as elements of a contiguous type of this many bytes, plus a
// tail.
constexpr std::size_t kIntMax = static_cast<std::size_t>(std::numeric_limits<int>::max());

void check(int code, const char* call, int peer) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  const std::string with = peer >= 0 ? " with rank " + std::to_string(peer) : std::string();
  throw TransportError(std::string(call) + with + ": " + std::string(text, static_cast<std::size_t>(length)),
                       code);
}

/// A datatype that covers `bytes` bytes for messages over 2 GiB.
class LargeType {
 public:
  explicit LargeType(std::size_t bytes) {
    constexpr std::size_t chunk = std::size_t{1} << 30;
    const auto chunks = static_cast<int>(bytes / chunk);
    const auto tail = static_cast<int>(bytes % chunk);
    MPI_Datatype whole = MPI_DATATYPE_NULL;
    MPI_Type_vector(chunks, static_cast<int>(chunk), static_cast<int>(chunk), MPI_BYTE, &whole);
    int lengths[2] = {1, tail};
    MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(bytes - static_cast<std::size_t>(tail))};
    MPI_Datatype types[2] = {whole, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, offsets, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&whole);
  }
  ~LargeType() { MPI_Type_free(&type_); }
  LargeType(const LargeType&) = delete;
  LargeType& operator=(const LargeType&) = delete;
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace

void MpiTransport::reserve(int slots) {
  const auto n = static_cast<std::size_t>(slots);
  active_.reserve(n);
  slot_of_.reserve(n);
  indices_.resize(n);
  statuses_.resize(n);
}

void MpiTransport::track(int slot, MPI_Request request) {
  active_.push_back(request);
  slot_of_.push_back(slot);
}

void MpiTransport::post_send(int slot, int peer, int tag, std::span<const std::byte> data) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (data.size() <= kIntMax) {
    check(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, comm_, &request),
          "MPI_Isend", peer);
  } else {
    const LargeType type(data.size());
    check(MPI_Isend(data.data(), 1, type.get(), peer, tag, comm_, &request), "MPI_Isend", peer);
  }
  track(slot, request);
}

void MpiTransport::post_recv(int slot, int peer, int tag, std::span<std::byte> data) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (data.size() <= kIntMax) {
    check(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, comm_, &request),
          "MPI_Irecv", peer);
  } else {
    const LargeType type(data.size());
    check(MPI_Irecv(data.data(), 1, type.get(), peer, tag, comm_, &request), "MPI_Irecv", peer);
  }
  track(slot, request);
}

void MpiTransport::poll(std::vector<int>& completed, bool block) {
  if (active_.empty()) return;
  const auto count = static_cast<int>(active_.size());
  int done = 0;
  const int code = block ? MPI_Waitsome(count, active_.data(), &done, indices_.data(), statuses_.data())
                         : MPI_Testsome(count, active_.data(), &done, indices_.data(), statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < done; ++i) check(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, "message", -1);
  }
  check(code, block ? "MPI_Waitsome" : "MPI_Testsome", -1);
  if (done <= 0) return;
  for (int i = 0; i < done; ++i) {
    completed.push_back(slot_of_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])]);
  }
  // Close the gaps from the back, so that an index still names the entry that it named.
  std::sort(indices_.begin(), indices_.begin() + done, std::greater<>());
  for (int i = 0; i < done; ++i) {
    const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    active_[at] = active_.back();
    slot_of_[at] = slot_of_.back();
    active_.pop_back();
    slot_of_.pop_back();
  }
}

}  // namespace tapa
