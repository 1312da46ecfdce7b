#include "run/unfinished.hpp"

#include <cstdio>

#include "run/log.hpp"
#include "run/shm_exchange.hpp"

namespace tapa {

std::string waits_for(const ShmExchange& exchange) {
  const std::string ranks = ranks_text(exchange.missing(8));
  return exchange.all_came() ? "waits for the blocks of " + ranks
                             : "waits for " + ranks + " to make the call";
}

void tell_unfinished(const std::string& what, double seconds, const std::string& why) {
  char text[64];
  std::snprintf(text, sizeof text, " unfinished after %.1f s: ", seconds);
  print_line(what + (text + why));
}

}  // namespace tapa
