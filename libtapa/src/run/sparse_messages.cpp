#include "run/sparse_messages.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "run/error.hpp"
#include "transport/dropped_message.hpp"

namespace tapa {

namespace {

// Those of envelopes take turns: a rank that has left a call may send one of the next to a rank that has not.
// Two are enough, as nobody leaves the next call before all have begun it.
constexpr int kDataTag = 2;
constexpr int kSumTag = 3;

constexpr std::size_t kPiece = std::size_t{1} << 30;  // of long messages, which an int does not count

std::size_t pieces(std::size_t bytes) {
  return (bytes + kPiece - 1) / kPiece;
}

template <class Post>
void in_pieces(std::size_t bytes, const Post& post) {
  for (std::size_t at = 0; at < bytes; at += kPiece) post(at, static_cast<int>(std::min(kPiece, bytes - at)));
}

}  // namespace

/// The first message to a rank, with the data when they fit.
struct SparseMessages::Envelope {
  static constexpr std::size_t kRoom = 1008;
  std::uint64_t source;
  std::uint64_t bytes;
  std::array<std::byte, kRoom> data;

  [[nodiscard]] bool holds_all() const { return bytes <= kRoom; }
  [[nodiscard]] int length() const {
    return static_cast<int>(offsetof(Envelope, data) + (holds_all() ? bytes : 0));
  }
};

/// What MPI uses until requests are complete.
struct SparseMessages::Flight {
  std::vector<Envelope> envelopes;
  std::vector<MPI_Request> sends;  // of these
  std::vector<MPI_Request> data;
  std::unique_ptr<Flight> next;  // of those that were given up
};

SparseMessages::SparseMessages(std::size_t most_counted) : most_counted_(most_counted) {}

SparseMessages::~SparseMessages() {
  give_up();
}

void SparseMessages::start(const MessageSpace& space, int first_tag, int rank,
                           std::span<const SparseMessage> messages, std::uint64_t contribution,
                           SparseInbox& inbox) {
  give_up();
  if (!flight_) flight_ = std::make_unique<Flight>();
  space_ = space;
  tag_ = first_tag;
  rank_ = rank;
  inbox_ = &inbox;
  failure_ = nullptr;
  std::size_t data = 0;
  for (const SparseMessage& message : messages) data += pieces(message.data.size());
  flight_->envelopes.resize(messages.size());
  flight_->sends.reserve(messages.size());
  flight_->data.reserve(data);
  start_sums(messages, contribution);
  ++calls_;
  came_ = 0;
  stage_ = counted_ ? Stage::sum : Stage::send;
  for (std::size_t i = 0; i < messages.size(); ++i) send(messages[i], flight_->envelopes[i]);
}

void SparseMessages::start_sums(std::span<const SparseMessage> messages, std::uint64_t contribution) {
  const std::size_t ranks = space_.in_world.size();
  counted_ = ranks <= most_counted_;
  std::vector<std::uint64_t> numbers(counted_ ? 1 + ranks : 1);
  numbers[0] = contribution;
  for (const SparseMessage& message : messages)
    if (counted_) ++numbers[1 + static_cast<std::size_t>(message.to)];
  const std::vector<Combine> how(numbers.size(), Combine::sum);
  sums_.start(space_, tag_ + kSumTag, rank_, static_cast<int>(ranks), numbers, how);
}

void SparseMessages::send(const SparseMessage& message, Envelope& envelope) {
  const int to = space_.rank_of(message.to);
  envelope.source = static_cast<std::uint64_t>(rank_);
  envelope.bytes = message.data.size();
  if (envelope.holds_all()) std::ranges::copy(message.data, envelope.data.begin());
  const auto start = counted_ ? PMPI_Isend : PMPI_Issend;
  check_mpi(start(&envelope, envelope.length(), MPI_BYTE, to, tag_ + static_cast<int>(calls_ % 2),
                  space_.comm, &flight_->sends.emplace_back(MPI_REQUEST_NULL)),
            counted_ ? "MPI_Isend" : "MPI_Issend");
  if (envelope.holds_all()) return;
  in_pieces(message.data.size(), [&](std::size_t at, int bytes) {
    check_mpi(PMPI_Isend(message.data.data() + at, bytes, MPI_BYTE, to, tag_ + kDataTag, space_.comm,
                         &flight_->data.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
  });
}

/// Nothing: there is no memory for it.
std::optional<std::byte*> SparseMessages::room_for(const Envelope& envelope) {
  try {
    flight_->data.reserve(flight_->data.size() + pieces(envelope.bytes));
    return inbox_->open(envelope.source, envelope.bytes);
  } catch (const std::exception&) {
    if (!failure_) failure_ = std::current_exception();
    return std::nullopt;
  }
}

/// What an envelope announces. Its sender sends that at once, so that it may be waited for.
void SparseMessages::receive(const Envelope& envelope, int source) {
  const std::optional<std::byte*> to = room_for(envelope);
  if (envelope.holds_all()) {
    if (to) std::copy_n(envelope.data.begin(), envelope.bytes, *to);
    return;
  }
  in_pieces(envelope.bytes, [&](std::size_t at, int bytes) {
    if (!to) return check_mpi(drop_message(source, tag_ + kDataTag, space_.comm), "MPI_Recv");
    check_mpi(PMPI_Irecv(*to + at, bytes, MPI_BYTE, source, tag_ + kDataTag, space_.comm,
                         &flight_->data.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
  });
}

void SparseMessages::receive_envelopes() {
  for (;;) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(PMPI_Improbe(MPI_ANY_SOURCE, tag_ + static_cast<int>(calls_ % 2), space_.comm, &found, &message,
                           &status),
              "MPI_Improbe");
    if (found == 0) return;
    Envelope envelope;
    check_mpi(PMPI_Mrecv(&envelope, static_cast<int>(sizeof envelope), MPI_BYTE, &message, &status),
              "MPI_Mrecv");
    receive(envelope, status.MPI_SOURCE);
    ++came_;
  }
}

bool SparseMessages::complete(std::vector<MPI_Request>& requests) {
  int all = 1;
  if (!requests.empty())
    check_mpi(PMPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE),
              "MPI_Testall");
  if (all != 0) requests.clear();
  return all != 0;
}

bool SparseMessages::test() {
  if (stage_ < Stage::rest) receive_envelopes();
  if (stage_ == Stage::send && complete(flight_->sends)) stage_ = Stage::sum;
  if (stage_ == Stage::sum && sums_.test()) stage_ = Stage::receive;
  if (stage_ == Stage::receive && (!counted_ || came_ == expected())) stage_ = Stage::rest;
  if (stage_ == Stage::rest && complete(flight_->sends) && complete(flight_->data)) stage_ = Stage::done;
  if (stage_ != Stage::done) return false;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return true;
}

std::string SparseMessages::waits_for() const {
  switch (stage_) {
    case Stage::send:
      return "waits for ranks that it sends to, to make the call";
    case Stage::receive:
      return "has received " + std::to_string(came_) + " of " + std::to_string(expected()) +
             " messages that ranks send to it";
    case Stage::rest:
      return "waits for the data of long messages to come and go";
    case Stage::sum:
    case Stage::done:
      break;
  }
  return "waits for ranks to make the call";
}

/// Requests that an error has left behind still use their memory: it is never freed, and lies where leak
/// detectors find it.
void SparseMessages::give_up() {
  if (stage_ == Stage::done || !flight_) return;
  for (auto* const requests : {&flight_->sends, &flight_->data}) {
    for (MPI_Request& request : *requests) {
      if (request != MPI_REQUEST_NULL) PMPI_Request_free(&request);
    }
  }
  static std::mutex mutex;
  static auto* const kept = new std::unique_ptr<Flight>;
  const std::lock_guard lock(mutex);
  flight_->next = std::move(*kept);
  *kept = std::move(flight_);
  stage_ = Stage::done;
}

}  // namespace tapa
