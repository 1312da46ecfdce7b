/// @file
/// What is said of something that lasts longer than TAPA_TIMEOUT.
#pragma once

#include <mpi.h>

#include <new>
#include <string>

#include "run/log.hpp"

namespace tapa {

class ShmExchange;

/// "rank 1, rank 3"; of none, as where all have come since it was asked, "no rank any more".
template <class Ranks>
[[nodiscard]] std::string ranks_text(const Ranks& ranks) {
  std::string text;
  for (const auto rank : ranks) text += (text.empty() ? "rank " : ", ") + std::to_string(rank);
  return text.empty() ? "no rank any more" : text;
}

/// Whom an exchange waits for, and for what.
[[nodiscard]] std::string waits_for(const ShmExchange& exchange);

/// Says that `what`, begun so many seconds ago, is unfinished, and why.
void tell_unfinished(const std::string& what, double seconds, const std::string& why);

/// Says so after the time limit, after twice that time, and so on.
class Watch {
 public:
  Watch() = default;
  /// `what` is borrowed; `timeout`: seconds, 0: never; `began`: MPI_Wtime(), 0: at the first look.
  Watch(const char* what, double timeout, double began = 0) : what_(what), next_(timeout), began_(began) {}

  /// To be called now and then as long as it is unfinished; `why` says why.
  template <class Why>
  void look(const Why& why) {
    if (next_ <= 0) return;
    const double now = PMPI_Wtime();
    if (began_ == 0) began_ = now;
    const double age = now - began_;
    if (age < next_) return;
    next_ = 2 * age;
    try {
      tell_unfinished(what_, age, why());
    } catch (const std::bad_alloc&) {
      log_error(what_, "unfinished after the time limit");
    }
  }

 private:
  const char* what_ = "";
  double next_ = 0;
  double began_ = 0;
};

}  // namespace tapa
