/** @file
 * libtapa for C++20: ranges instead of pointers and counts, owners instead of handles, exceptions instead of
 * codes. A thin header over tapa.h; whatever it does not wrap can be called with the handles that it gives
 * out.
 *
 * Errors are thrown as tapa::Error when the communicator's error handler returns them, as that of
 * tapa::Communicator::duplicate does. MPI's default handler ends the program before anything can be thrown.
 */
#ifndef TAPA_TAPA_HPP
#define TAPA_TAPA_HPP

#include <tapa/tapa.h>

#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <tapa/elements.hpp>
#include <tapa/errors_return.hpp>
#include <utility>

namespace tapa {

/** An operation that runs, or, when persistent, that can be run again. Movable. The buffers and the arrays of
 * counts and displacements must live until it is complete (persistent: until it is destroyed). The destructor
 * completes it. */
class Request {
 public:
  /** No operation. */
  Request() = default;
  /** Takes over a request.
   *  @param handle     request from one of the TAPA_I* calls, or from a TAPA_*_init call
   *  @param persistent whether it is from a TAPA_*_init call */
  Request(MPI_Request handle, bool persistent) : handle_(handle), persistent_(persistent) {}
  /** Takes over the other's operation. */
  Request(Request&& other) noexcept
      : handle_(std::exchange(other.handle_, MPI_REQUEST_NULL)),
        persistent_(other.persistent_),
        fresh_(other.fresh_) {}
  /** Completes what this one holds, then takes over the other's operation. */
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      finish();
      handle_ = std::exchange(other.handle_, MPI_REQUEST_NULL);
      persistent_ = other.persistent_;
      fresh_ = other.fresh_;
    }
    return *this;
  }
  ~Request() { finish(); }

  /** Starts a persistent operation that is not running. */
  void start() {
    fresh_ = false;
    check(TAPA_Start(&handle_));
  }

  /** Waits until the operation is complete. No operation, or one that does not run, is complete. */
  void wait() {
    if (!never_started()) detail::check_mpi(MPI_Wait(&handle_, MPI_STATUS_IGNORE), "MPI_Wait");
  }

  /** Advances the operation.
   *  @return whether it is complete */
  [[nodiscard]] bool test() {
    if (never_started()) return true;
    int done = 0;
    detail::check_mpi(MPI_Test(&handle_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  /** The MPI request, for MPI_Waitall and its kin; stays this object's. */
  [[nodiscard]] MPI_Request* handle() {
    fresh_ = false;
    return &handle_;
  }

 private:
  // On such a persistent collective MPICH 4.0 waits for ever.
  [[nodiscard]] bool never_started() const { return persistent_ && fresh_; }
  void finish() noexcept {
    if (handle_ == MPI_REQUEST_NULL) return;
    if (!never_started()) MPI_Wait(&handle_, MPI_STATUS_IGNORE);
    if (persistent_) TAPA_Request_free(&handle_);
  }

  MPI_Request handle_ = MPI_REQUEST_NULL;
  bool persistent_ = false;
  bool fresh_ = true;  // neither started here nor handed out
};

/** How this rank reaches another one. */
struct PeerLevel {
  int level = 0;    /**< index, 0 is the fastest */
  std::string name; /**< "tile", "node", "world", ... */
};

/** What a sparse exchange has brought: messages in ascending order of the ranks that sent them. Movable. */
template <class T>
class Received {
 public:
  /** Takes over what TAPA_Sparse_exchange has made, whose elements are T's. */
  explicit Received(TAPA_Received handle) : handle_(handle) {
    check(TAPA_Received_get(handle, &sources_, &source_, &count_, &data_));
    for (const MPI_Count count : counts()) elements_ += static_cast<std::size_t>(count);
  }
  /** Takes over the other's messages. */
  Received(Received&& other) noexcept { *this = std::move(other); }
  /** Frees what this one holds, then takes over the other's messages. */
  Received& operator=(Received&& other) noexcept {
    if (this == &other) return *this;
    release();
    handle_ = std::exchange(other.handle_, TAPA_RECEIVED_NULL);
    sources_ = std::exchange(other.sources_, 0);
    source_ = other.source_;
    count_ = other.count_;
    data_ = other.data_;
    elements_ = std::exchange(other.elements_, 0);
    return *this;
  }
  ~Received() { release(); }

  /** Who sent each message. */
  [[nodiscard]] std::span<const int> sources() const { return {source_, number()}; }
  /** Elements of each message. */
  [[nodiscard]] std::span<const MPI_Count> counts() const { return {count_, number()}; }
  /** Their elements, one message after the other. */
  [[nodiscard]] std::span<const T> data() const { return {static_cast<const T*>(data_), elements_}; }

 private:
  [[nodiscard]] std::size_t number() const { return static_cast<std::size_t>(sources_); }
  void release() noexcept {
    if (handle_ != TAPA_RECEIVED_NULL) TAPA_Received_free(&handle_);
  }

  TAPA_Received handle_ = TAPA_RECEIVED_NULL;
  int sources_ = 0;
  const int* source_ = nullptr;
  const MPI_Count* count_ = nullptr;
  const void* data_ = nullptr;
  std::size_t elements_ = 0;
};

/** An intracommunicator and its all-to-alls. Blocks are ordered by rank. All calls are collective unless said
 * otherwise. Movable; either owns its MPI communicator or borrows it. */
class Communicator {
 public:
  /** A view of a communicator that outlives this object. Not collective. Whether errors are thrown or end the
   * program is up to its error handler. */
  [[nodiscard]] static Communicator borrow(MPI_Comm comm) { return Communicator(comm, false); }

  /** A duplicate, freed with this object (which must be before MPI_Finalize). Its errors are thrown. */
  [[nodiscard]] static Communicator duplicate(MPI_Comm comm) {
    MPI_Comm copy = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
    Communicator result(copy, true);
    detail::check_mpi(MPI_Comm_set_errhandler(copy, errors_return()), "MPI_Comm_set_errhandler");
    return result;
  }

  /** Takes over the other's communicator. */
  Communicator(Communicator&& other) noexcept
      : comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
        owned_(other.owned_),
        rank_(other.rank_),
        size_(other.size_) {}
  /** Frees what this one owns, then takes over the other's communicator. */
  Communicator& operator=(Communicator&& other) noexcept {
    if (this != &other) {
      release();
      comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
      owned_ = other.owned_;
      rank_ = other.rank_;
      size_ = other.size_;
    }
    return *this;
  }
  ~Communicator() { release(); }

  /** The MPI communicator; stays this object's. */
  [[nodiscard]] MPI_Comm handle() const { return comm_; }
  /** This process's rank. */
  [[nodiscard]] int rank() const { return rank_; }
  /** Number of ranks. */
  [[nodiscard]] int size() const { return size_; }

  /** Sets the communicator up now instead of in the first call that may synchronise: nonblocking calls before
   * that are MPI's own. */
  void setup() const { check(TAPA_Comm_setup(comm_)); }
  /** Sets an option; all ranks must pass the same key and value. */
  void set(const std::string& key, const std::string& value) const {
    check(TAPA_Comm_set(comm_, key.c_str(), value.c_str()));
  }
  /** Value of an option. */
  [[nodiscard]] std::string get(const std::string& key) const {
    return text([&](char* value, int size, int* length) {
      return TAPA_Comm_get(comm_, key.c_str(), value, size, length);
    });
  }
  /** The plan for blocks of `bytes`, in the text form of option "plan". */
  [[nodiscard]] std::string plan(std::size_t bytes) const {
    return text([&](char* value, int size, int* length) {
      return TAPA_Comm_plan(comm_, bytes, value, size, length);
    });
  }
  /** The level at which this rank reaches `peer`. */
  [[nodiscard]] PeerLevel level(int peer) const {
    char name[256] = {};
    PeerLevel result;
    check(TAPA_Comm_level(comm_, peer, &result.level, name, static_cast<int>(sizeof name)));
    result.name = name;
    return result;
  }

  /** All-to-all with blocks of equal size: send.size() / size() elements each. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  void alltoall(const Send& send, Recv&& recv) const {
    const ElementsOf<Send> type;
    const MPI_Count count = block(send, recv, "alltoall");
    check(TAPA_Alltoall_c(detail::sent(send), count, type.get(), detail::received(recv), count, type.get(),
                          comm_));
  }

  /** alltoall whose received blocks replace the sent ones. */
  template <WritableElements Both>
  void alltoall_in_place(Both&& both) const {
    const ElementsOf<Both> type;
    const MPI_Count count = block(both, both, "alltoall_in_place");
    check(
        TAPA_Alltoall_c(MPI_IN_PLACE, count, type.get(), std::ranges::data(both), count, type.get(), comm_));
  }

  /** Nonblocking alltoall. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  [[nodiscard]] Request ialltoall(const Send& send, Recv&& recv) const {
    const ElementsOf<Send> type;
    const MPI_Count count = block(send, recv, "ialltoall");
    MPI_Request request = MPI_REQUEST_NULL;
    check(TAPA_Ialltoall_c(detail::sent(send), count, type.get(), detail::received(recv), count, type.get(),
                           comm_, &request));
    return {request, false};
  }

  /** Persistent alltoall: planned now, run by Request::start as often as wanted. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  [[nodiscard]] Request alltoall_init(const Send& send, Recv&& recv) const {
    const ElementsOf<Send> type;
    const MPI_Count count = block(send, recv, "alltoall_init");
    MPI_Request request = MPI_REQUEST_NULL;
    check(TAPA_Alltoall_init_c(detail::sent(send), count, type.get(), detail::received(recv), count,
                               type.get(), comm_, MPI_INFO_NULL, &request));
    return {request, true};
  }

  /** All-to-all with a count and a displacement (in elements) for each rank. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  void alltoallv(const Send& send, std::span<const MPI_Count> sendcounts, std::span<const MPI_Aint> sdispls,
                 Recv&& recv, std::span<const MPI_Count> recvcounts,
                 std::span<const MPI_Aint> rdispls) const {
    const ElementsOf<Send> type;
    blocks(send, sendcounts, sdispls, "send");
    blocks(recv, recvcounts, rdispls, "recv");
    check(TAPA_Alltoallv_c(detail::sent(send), sendcounts.data(), sdispls.data(), type.get(),
                           detail::received(recv), recvcounts.data(), rdispls.data(), type.get(), comm_));
  }
  /** The same with int counts and displacements, as older codes have them. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  void alltoallv(const Send& send, std::span<const int> sendcounts, std::span<const int> sdispls, Recv&& recv,
                 std::span<const int> recvcounts, std::span<const int> rdispls) const {
    const ElementsOf<Send> type;
    blocks(send, sendcounts, sdispls, "send");
    blocks(recv, recvcounts, rdispls, "recv");
    check(TAPA_Alltoallv(detail::sent(send), sendcounts.data(), sdispls.data(), type.get(),
                         detail::received(recv), recvcounts.data(), rdispls.data(), type.get(), comm_));
  }

  /** Nonblocking alltoallv. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  [[nodiscard]] Request ialltoallv(const Send& send, std::span<const MPI_Count> sendcounts,
                                   std::span<const MPI_Aint> sdispls, Recv&& recv,
                                   std::span<const MPI_Count> recvcounts,
                                   std::span<const MPI_Aint> rdispls) const {
    const ElementsOf<Send> type;
    blocks(send, sendcounts, sdispls, "send");
    blocks(recv, recvcounts, rdispls, "recv");
    MPI_Request request = MPI_REQUEST_NULL;
    check(TAPA_Ialltoallv_c(detail::sent(send), sendcounts.data(), sdispls.data(), type.get(),
                            detail::received(recv), recvcounts.data(), rdispls.data(), type.get(), comm_,
                            &request));
    return {request, false};
  }

  /** Persistent alltoallv. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  [[nodiscard]] Request alltoallv_init(const Send& send, std::span<const MPI_Count> sendcounts,
                                       std::span<const MPI_Aint> sdispls, Recv&& recv,
                                       std::span<const MPI_Count> recvcounts,
                                       std::span<const MPI_Aint> rdispls) const {
    const ElementsOf<Send> type;
    blocks(send, sendcounts, sdispls, "send");
    blocks(recv, recvcounts, rdispls, "recv");
    MPI_Request request = MPI_REQUEST_NULL;
    check(TAPA_Alltoallv_init_c(detail::sent(send), sendcounts.data(), sdispls.data(), type.get(),
                                detail::received(recv), recvcounts.data(), rdispls.data(), type.get(), comm_,
                                MPI_INFO_NULL, &request));
    return {request, true};
  }

  /** Sends a message to each of some ranks, each once at most, and receives all that were sent to this one.
   *  @param send         the messages, one after the other in the order of `destinations`
   *  @param destinations ranks
   *  @param sendcounts   elements of each message */
  template <Elements Send>
  [[nodiscard]] Received<std::ranges::range_value_t<Send>> sparse_exchange(
      const Send& send, std::span<const int> destinations, std::span<const MPI_Count> sendcounts) const {
    const ElementsOf<Send> type;
    MPI_Count sum = 0;
    for (const MPI_Count count : sendcounts) sum += count;
    detail::require(
        destinations.size() == sendcounts.size() && sum == static_cast<MPI_Count>(std::ranges::size(send)),
        MPI_ERR_COUNT,
        "sparse_exchange: " + std::to_string(sendcounts.size()) + " counts for " +
            std::to_string(destinations.size()) + " destinations that sum to " + std::to_string(sum) +
            ", expected one for each and the sum " + std::to_string(std::ranges::size(send)));
    TAPA_Received received = TAPA_RECEIVED_NULL;
    check(TAPA_Sparse_exchange(detail::sent(send), static_cast<int>(destinations.size()), destinations.data(),
                               sendcounts.data(), type.get(), comm_, &received));
    return Received<std::ranges::range_value_t<Send>>(received);
  }

 private:
  template <class Range>
  using ElementsOf = detail::ElementType<std::ranges::range_value_t<Range>>;

  Communicator(MPI_Comm comm, bool owned) : comm_(comm), owned_(owned) {
    detail::check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
    detail::check_mpi(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
  }

  void release() noexcept {
    if (owned_ && comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }

  template <class Call>
  static std::string text(Call&& call) {
    std::string value(128, '\0');
    for (;;) {
      int length = 0;
      check(call(value.data(), static_cast<int>(value.size()), &length));
      const auto full = static_cast<std::size_t>(length);
      const bool cut = full >= value.size();
      value.resize(cut ? full + 1 : full);
      if (!cut) return value;
    }
  }

  template <class Send, class Recv>
  [[nodiscard]] MPI_Count block(const Send& send, const Recv& recv, const char* call) const {
    const auto sent = static_cast<std::size_t>(std::ranges::size(send));
    const auto received = static_cast<std::size_t>(std::ranges::size(recv));
    const auto ranks = static_cast<std::size_t>(size_);
    detail::require(sent == received, MPI_ERR_COUNT,
                    std::string(call) + ": send has " + std::to_string(sent) + " elements, recv " +
                        std::to_string(received) + ", expected equal sizes");
    detail::require(sent % ranks == 0, MPI_ERR_COUNT,
                    std::string(call) + ": " + std::to_string(sent) +
                        " elements, expected a multiple of the " + std::to_string(ranks) + " ranks");
    return static_cast<MPI_Count>(sent / ranks);
  }

  template <class Range, class Count, class Offset>
  void blocks(const Range& range, std::span<const Count> counts, std::span<const Offset> displs,
              const char* side) const {
    const auto ranks = static_cast<std::size_t>(size_);
    detail::require(counts.size() == ranks && displs.size() == ranks, MPI_ERR_COUNT,
                    std::string(side) + ": " + std::to_string(counts.size()) + " counts and " +
                        std::to_string(displs.size()) + " displacements, expected " + std::to_string(ranks) +
                        " of each");
    detail::require(detail::inside(counts, displs, static_cast<std::size_t>(std::ranges::size(range))),
                    MPI_ERR_COUNT,
                    std::string(side) + ": a block leaves the range of " +
                        std::to_string(std::ranges::size(range)) + " elements");
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  bool owned_ = false;
  int rank_ = 0;
  int size_ = 0;
};

/** Which rows of which blocks travel on slow levels, agreed between the ranks; see TAPA_Selection_create.
 * Movable. */
class Selection {
 public:
  /** One list of active rows for all blocks. Collective.
   *  @param comm     communicator, which must outlive the selection
   *  @param sendrows rows of the block for each rank
   *  @param recvrows rows of the block from each rank
   *  @param active   active rows, ascending and distinct
   *  @param boundary level from which on only active rows travel; nullptr: the one that crosses NICs; "":
   * everywhere */
  Selection(const Communicator& comm, std::span<const int> sendrows, std::span<const int> recvrows,
            std::span<const int> active, const char* boundary = nullptr)
      : ranks_(static_cast<std::size_t>(comm.size())) {
    require_ranks(sendrows.size(), recvrows.size());
    const int count = static_cast<int>(active.size());
    check(TAPA_Selection_create(sendrows.data(), recvrows.data(), &count, active.data(), 1, boundary,
                                comm.handle(), &handle_));
  }

  /** A list of active rows for each block. Collective.
   *  @param comm     communicator, which must outlive the selection
   *  @param sendrows rows of the block for each rank
   *  @param recvrows rows of the block from each rank
   *  @param nactive  number of active rows of each block
   *  @param active   active rows of the blocks, one list after the other, each ascending and distinct
   *  @param boundary as above */
  Selection(const Communicator& comm, std::span<const int> sendrows, std::span<const int> recvrows,
            std::span<const int> nactive, std::span<const int> active, const char* boundary = nullptr)
      : ranks_(static_cast<std::size_t>(comm.size())) {
    require_ranks(sendrows.size(), recvrows.size());
    std::size_t total = 0;
    for (const int n : nactive) total += n > 0 ? static_cast<std::size_t>(n) : 0;
    detail::require(nactive.size() == ranks_ && total == active.size(), MPI_ERR_COUNT,
                    "Selection: nactive has " + std::to_string(nactive.size()) + " entries that sum to " +
                        std::to_string(total) + ", expected one for each of the " + std::to_string(ranks_) +
                        " ranks and the sum " + std::to_string(active.size()) + ", the length of active");
    check(TAPA_Selection_create(sendrows.data(), recvrows.data(), nactive.data(), active.data(), 0, boundary,
                                comm.handle(), &handle_));
  }

  /** Takes over the other's selection. */
  Selection(Selection&& other) noexcept
      : handle_(std::exchange(other.handle_, TAPA_SELECTION_NULL)), ranks_(other.ranks_) {}
  /** Frees what this one holds, then takes over the other's selection. */
  Selection& operator=(Selection&& other) noexcept {
    if (this != &other) {
      release();
      handle_ = std::exchange(other.handle_, TAPA_SELECTION_NULL);
      ranks_ = other.ranks_;
    }
    return *this;
  }
  ~Selection() { release(); }

  /** The C handle; stays this object's. */
  [[nodiscard]] TAPA_Selection handle() const { return handle_; }

  /** Bytes sent to and received from other ranks. */
  struct Bytes {
    std::size_t sent = 0;     /**< by this rank */
    std::size_t received = 0; /**< by this rank */
  };
  /** What this rank would send and receive with rows of `rowbytes`. Not collective. */
  [[nodiscard]] Bytes bytes(std::size_t rowbytes) const {
    Bytes result;
    check(TAPA_Selection_bytes(handle_, rowbytes, &result.sent, &result.received));
    return result;
  }

  /** Exchanges rows of `row` elements; displacements in rows. Inactive rows of `recv` keep what they hold
   * where they did not travel. Collective. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  void alltoallv(const Send& send, std::span<const MPI_Aint> sdispls, Recv&& recv,
                 std::span<const MPI_Aint> rdispls, std::size_t row) const {
    require_ranks(sdispls.size(), rdispls.size());
    check(TAPA_Alltoallv_select(detail::sent(send), sdispls.data(), detail::received(recv), rdispls.data(),
                                rowbytes<Send>(row), handle_));
  }

  /** Nonblocking alltoallv. Collective. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  [[nodiscard]] Request ialltoallv(const Send& send, std::span<const MPI_Aint> sdispls, Recv&& recv,
                                   std::span<const MPI_Aint> rdispls, std::size_t row) const {
    require_ranks(sdispls.size(), rdispls.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(TAPA_Ialltoallv_select(detail::sent(send), sdispls.data(), detail::received(recv), rdispls.data(),
                                 rowbytes<Send>(row), handle_, &request));
    return {request, false};
  }

  /** Persistent alltoallv. Collective. */
  template <Elements Send, WritableElements Recv>
  requires Exchangeable<Send, Recv>
  [[nodiscard]] Request alltoallv_init(const Send& send, std::span<const MPI_Aint> sdispls, Recv&& recv,
                                       std::span<const MPI_Aint> rdispls, std::size_t row) const {
    require_ranks(sdispls.size(), rdispls.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(TAPA_Alltoallv_select_init(detail::sent(send), sdispls.data(), detail::received(recv),
                                     rdispls.data(), rowbytes<Send>(row), handle_, MPI_INFO_NULL, &request));
    return {request, true};
  }

 private:
  template <class Range>
  static std::size_t rowbytes(std::size_t row) {
    return row * sizeof(std::ranges::range_value_t<Range>);
  }

  void require_ranks(std::size_t send, std::size_t recv) const {
    detail::require(send == ranks_ && recv == ranks_, MPI_ERR_COUNT,
                    "Selection: " + std::to_string(send) + " entries for sending and " +
                        std::to_string(recv) + " for receiving, expected one for each of the " +
                        std::to_string(ranks_) + " ranks");
  }

  void release() noexcept {
    if (handle_ != TAPA_SELECTION_NULL) TAPA_Selection_free(&handle_);
  }

  TAPA_Selection handle_ = TAPA_SELECTION_NULL;
  std::size_t ranks_ = 0;
};

}  // namespace tapa

#endif /* TAPA_TAPA_HPP */
