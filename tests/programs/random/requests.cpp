// Requests: waited for, started, freed.
#include <utility>

#include "steps.hpp"

namespace random_program {

namespace {

void end_one(const std::string& name, Pending& p) {
  if (!p.more.empty()) MPI_Waitall(static_cast<int>(p.more.size()), p.more.data(), p.statuses.data());
  p.active = false;
  if (p.finished) p.finished();
  if (p.persistent) return;
  if (p.exchange) free_exchange(p.exchange.get());
  drop(requests, name);
}

}  // namespace

void wait_for(const Line& line) {
  std::vector<std::string> names;
  std::vector<MPI_Request> list;
  for (const std::string& name : line.list("reqs")) {
    Pending& p = object(requests, name);
    if (!p.active) continue;
    names.push_back(name);
    list.push_back(p.request);
  }
  Random own = own_of(line);
  const int n = static_cast<int>(list.size());
  std::vector<int> done(list.size());
  const int way = below(&own, 6);
  int left = n;
  int flag = 0;
  if (way == 0) {
    MPI_Waitall(n, list.data(), MPI_STATUSES_IGNORE);
  } else if (way == 1) {
    while (flag == 0) MPI_Testall(n, list.data(), &flag, MPI_STATUSES_IGNORE);
  } else if (way == 2) {
    for (int some = 0; left > 0; left -= some) {
      MPI_Waitsome(n, list.data(), &some, done.data(), MPI_STATUSES_IGNORE);
      if (some == MPI_UNDEFINED) break;
    }
  } else if (way == 3) {
    for (int which = 0; which != MPI_UNDEFINED;) MPI_Waitany(n, list.data(), &which, MPI_STATUS_IGNORE);
  } else if (way == 4) {
    for (MPI_Request& r : list) {
      for (flag = 0; flag == 0;) MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
    }
  } else {
    for (MPI_Request& r : list) MPI_Wait(&r, MPI_STATUS_IGNORE);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    Pending& p = object(requests, names[i]);
    expect(line, p.persistent || list[i] == MPI_REQUEST_NULL,
           "a request is still there after the wait for it");
    p.request = list[i];
    end_one(names[i], p);
  }
}

void start(const Line& line) {
  std::vector<std::string> names = line.list("reqs");
  Random own = own_of(line);
  for (std::size_t i = names.size(); i > 1; --i)
    std::swap(names[i - 1], names[static_cast<std::size_t>(below(&own, static_cast<int>(i)))]);
  std::vector<MPI_Request> list;
  std::vector<Pending*> started;
  for (const std::string& name : names) {
    Pending& p = object(requests, name);
    if (p.request == MPI_REQUEST_NULL) continue;
    fill_exchange(p.exchange.get(), static_cast<std::uint64_t>(line.number));
    p.active = true;
    list.push_back(p.request);
    started.push_back(&p);
  }
  if (list.empty()) return;
  if (once_in(&own, 2)) {
    MPI_Startall(static_cast<int>(list.size()), list.data());
  } else {
    for (MPI_Request& r : list) MPI_Start(&r);
  }
  for (std::size_t i = 0; i < list.size(); ++i) started[i]->request = list[i];
}

void free_request(const Line& line) {
  Pending& p = object(requests, line.word("req"));
  if (p.request != MPI_REQUEST_NULL) MPI_Request_free(&p.request);
  if (p.exchange) free_exchange(p.exchange.get());
  drop(requests, line.word("req"));
}

void forget_requests() {
  for (auto& [name, p] : requests) {
    if (p.exchange) free_exchange(p.exchange.get());
  }
}

}  // namespace random_program
