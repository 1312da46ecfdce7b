/// Who is missing in an exchange that is late: ranks ask each other how many exchanges they have started.
///
/// Only after a time limit a rank asks. Ranks answer while they wait, or by their progress thread while
/// something is under way: a rank that has started the exchange answers, wherever it is. The messages have a
/// communicator of their own.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace dit {

/// Not thread-safe: under the context's mutex. Functions throw PluginFailure when MPI fails.
class Arrivals {
 public:
  explicit Arrivals(int ranks) : answers_(static_cast<std::size_t>(ranks)) {}
  /// Before the others, collective over the ranks of `comm`.
  void begin(MPI_Comm comm);
  /// Frees the communicator, once no message is on its way.
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  /// Asks all others for a channel. Earlier answers are forgotten.
  void ask(int channel);
  /// Takes what has come, and answers questions: `started` are the exchanges that this rank has started, for
  /// each channel.
  void serve(const std::vector<std::uint64_t>& started);
  [[nodiscard]] bool all_answered() const;
  /// Who has not started exchange `number`, as far as answers tell: "rank 1 (has started 2 exchanges), ...";
  /// "" when all have.
  [[nodiscard]] std::string missing(std::uint64_t number) const;

  /// At the end: takes what has come and answers no more; true once no message is on its way to or from any
  /// rank. Collective; to be called again while it is false.
  bool settle();

 private:
  struct Notice {
    std::uint64_t question;  ///< its number, at the rank that asks
    std::int64_t channel;
    std::uint64_t started;
    std::uint64_t is_answer;
  };
  struct Sent {
    Notice notice;
    MPI_Request request;
  };
  void send(const Notice& notice, int to);
  void forget_sent();
  [[nodiscard]] std::optional<Notice> receive(int& from);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<std::optional<std::uint64_t>> answers_;  ///< exchanges started, by rank
  std::uint64_t question_ = 0;
  std::list<Sent> sent_;
  MPI_Request barrier_ = MPI_REQUEST_NULL;
  bool in_barrier_ = false;
  bool settled_ = false;
};

}  // namespace dit
