#include "explain/verify.hpp"

#include <algorithm>

#include "explain/verify_parts.hpp"

namespace tapa {

namespace verifier {

namespace {

using Kind = Defect::Kind;

std::string of(std::size_t value, std::size_t limit) {
  return std::to_string(value) + " of " + std::to_string(limit);
}

bool inside(const Range& range, std::size_t pool) {
  return range.first <= pool && range.count <= pool - range.first;
}

/// Checks one rank's list of steps by itself.
class Shape {
 public:
  Shape(const Plan& plan, const Counts& counts, std::size_t rank, Report& report)
      : plan_(plan), counts_(counts), rank_(rank), steps_(plan.of_rank[rank]), report_(report) {}

  void check() {
    for (std::size_t i = 0; i < steps_.steps.size() && !report_.full(); ++i) check_step(i);
  }

 private:
  void malformed(std::size_t step, const std::string& what) {
    report_.add(Kind::malformed, name_of(plan_, rank_, step) + ": " + what);
  }

  void check_step(std::size_t index) {
    const Step& s = steps_.steps[index];
    const bool copies = s.kind == StepKind::copy;
    if (!copies && s.kind != StepKind::send && s.kind != StepKind::recv)
      return malformed(index, "kind is unknown");
    if (s.phase >= plan_.phases.size()) malformed(index, "phase " + of(s.phase, plan_.phases.size()));
    if (s.peer < 0 || s.peer >= plan_.ranks)
      return malformed(index, "peer " + std::to_string(s.peer) + " is no rank");
    const bool self = s.peer == static_cast<int>(rank_);
    if (copies && !self)
      malformed(index, "a copy with peer " + std::to_string(s.peer) + ", expected its own rank");
    if (!copies && self) malformed(index, "a message to itself");
    if (!copies && (s.channel < 0 || s.channel >= steps_.channels)) {
      malformed(index, "channel " + std::to_string(s.channel) + " of " + std::to_string(steps_.channels));
    }
    if (s.bytes == 0) malformed(index, "moves no bytes, expected to be left out");
    check_deps(index, s);
    check_side(index, s, s.from, s.kind != StepKind::recv, "read");
    check_side(index, s, s.to, s.kind != StepKind::send, "written");
  }

  void check_deps(std::size_t index, const Step& s) {
    if (!inside(s.deps, steps_.deps.size())) return malformed(index, "dependencies leave the pool");
    for (const std::uint32_t dep : steps_.deps_of(s)) {
      if (dep >= index) malformed(index, "waits for step " + std::to_string(dep) + ", which is not earlier");
    }
  }

  void check_side(std::size_t index, const Step& s, const Range& range, bool used, const char* verb) {
    if (!inside(range, steps_.segments.size()))
      return malformed(index, "segments " + std::string(verb) + " leave the pool");
    if (!used) {
      if (range.count > 0) malformed(index, "has segments " + std::string(verb) + ", expected none");
      return;
    }
    std::size_t left = s.bytes;
    for (std::uint32_t i = range.first; i < range.first + range.count; ++i) {
      const Segment& segment = steps_.segments[i];
      if (segment.bytes == 0 || segment.bytes > left) {
        left = Counts::npos;
        break;
      }
      left -= segment.bytes;
      check_segment(index, segment, verb[0] == 'w');
    }
    if (left != 0) {
      malformed(index, "its " + std::to_string(s.bytes) + " bytes are not the sum of its segments " + verb +
                           ", none of them empty");
    }
  }

  void check_segment(std::size_t index, const Segment& s, bool written) {
    const bool scratch = s.buffer == Buffer::scratch;
    if (!scratch && s.buffer != Buffer::send && s.buffer != Buffer::recv)
      return malformed(index, "buffer is unknown");
    if (s.block < 0 || s.block >= plan_.ranks || (scratch && s.block != 0)) {
      return malformed(
          index, "block " + std::to_string(s.block) + (scratch ? " of scratch, expected 0" : " is no rank"));
    }
    if (s.buffer == Buffer::send && written) {
      report_.add(Kind::writes_send, name_of(plan_, rank_, index) + " writes the send block for rank " +
                                         std::to_string(s.block));
    }
    const int me = static_cast<int>(rank_);
    const std::size_t size = scratch                    ? steps_.scratch_bytes
                             : s.buffer == Buffer::send ? counts_.bytes(me, s.block)
                                                        : counts_.bytes(s.block, me);
    if (s.offset <= size && s.bytes <= size - s.offset) return;
    const std::string where = scratch ? "scratch"
                              : s.buffer == Buffer::send
                                  ? "the send block for rank " + std::to_string(s.block)
                                  : "the receive block from rank " + std::to_string(s.block);
    report_.add(Kind::out_of_bounds, name_of(plan_, rank_, index) + ": " +
                                         bytes_text(s.offset, s.offset + s.bytes) + " leave " + where +
                                         " of " + std::to_string(size) + " bytes");
  }

  const Plan& plan_;
  const Counts& counts_;
  std::size_t rank_;
  const RankPlan& steps_;
  Report& report_;
};

/// One end of a message.
struct End {
  std::int32_t from, to, channel;
  std::uint32_t step;

  [[nodiscard]] bool same_message(const End& o) const {
    return from == o.from && to == o.to && channel == o.channel;
  }
  bool operator<(const End& o) const {
    if (from != o.from) return from < o.from;
    if (to != o.to) return to < o.to;
    return channel != o.channel ? channel < o.channel : step < o.step;
  }
};

std::vector<End> ends_of(const Plan& plan, StepKind kind) {
  std::vector<End> ends;
  for (const RankPlan& rank : plan.of_rank) {
    for (std::uint32_t i = 0; i < rank.steps.size(); ++i) {
      const Step& s = rank.steps[i];
      if (s.kind != kind) continue;
      if (kind == StepKind::send) ends.push_back({rank.rank, s.peer, s.channel, i});
      if (kind == StepKind::recv) ends.push_back({s.peer, rank.rank, s.channel, i});
    }
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

/// Pairs the sorted ends of all messages.
class Matcher {
 public:
  Matcher(const Plan& plan, Report& report) : plan_(plan), report_(report) {
    for (const RankPlan& rank : plan.of_rank) partners_.emplace_back(rank.steps.size());
  }

  Partners match() {
    const std::vector<End> sends = unique(ends_of(plan_, StepKind::send), true);
    const std::vector<End> recvs = unique(ends_of(plan_, StepKind::recv), false);
    auto send = sends.begin();
    auto recv = recvs.begin();
    while (send != sends.end() || recv != recvs.end()) {
      const bool both = send != sends.end() && recv != recvs.end();
      if (both && send->same_message(*recv)) {
        pair(*send++, *recv++);
      } else if (recv == recvs.end() || (both && *send < *recv)) {
        unmatched(*send++, true);
      } else {
        unmatched(*recv++, false);
      }
    }
    return std::move(partners_);
  }

 private:
  [[nodiscard]] std::string name(const End& end, bool send) const {
    return name_of(plan_, static_cast<std::size_t>(send ? end.from : end.to), end.step);
  }

  std::vector<End> unique(std::vector<End> ends, bool send) {
    for (std::size_t i = 1; i < ends.size(); ++i) {
      if (!ends[i].same_message(ends[i - 1])) continue;
      report_.add(Kind::duplicate_channel, name(ends[i], send) + " uses the same channel as step " +
                                               std::to_string(ends[i - 1].step) + " to the same peer");
    }
    const auto end =
        std::unique(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.same_message(b); });
    ends.erase(end, ends.end());
    return ends;
  }

  void unmatched(const End& end, bool send) {
    report_.add(Kind::unmatched, name(end, send) + (send ? " has no receive there" : " has no send there"));
  }

  void pair(const End& send, const End& recv) {
    const auto from = static_cast<std::size_t>(send.from);
    const auto to = static_cast<std::size_t>(send.to);
    const std::size_t sent = plan_.of_rank[from].steps[send.step].bytes;
    const std::size_t received = plan_.of_rank[to].steps[recv.step].bytes;
    if (sent != received) {
      report_.add(Kind::size_mismatch, name(send, true) + " sends " + std::to_string(sent) + " bytes, " +
                                           name(recv, false) + " expects " + std::to_string(received));
    }
    partners_[from][send.step] = recv.step;
    partners_[to][recv.step] = send.step;
  }

  const Plan& plan_;
  Report& report_;
  Partners partners_;
};

}  // namespace

std::string name_of(const Plan& plan, std::size_t rank, std::size_t step) {
  const Step& s = plan.of_rank[rank].steps[step];
  std::string text = "rank " + std::to_string(rank) + " step " + std::to_string(step) + " (";
  if (s.kind == StepKind::copy) return text + "copy)";
  return text + (s.kind == StepKind::send ? "send to " : "recv from ") + std::to_string(s.peer) +
         ", channel " + std::to_string(s.channel) + ")";
}

std::string bytes_text(std::size_t begin, std::size_t end) {
  return "bytes " + std::to_string(begin) + ".." + std::to_string(end);
}

std::vector<std::size_t> receive_starts(const Counts& counts, int rank) {
  std::vector<std::size_t> starts{0};
  for (int src = 0; src < counts.ranks(); ++src) starts.push_back(starts.back() + counts.bytes(src, rank));
  return starts;
}

void check_shape(const Plan& plan, const Counts& counts, Report& report) {
  if (plan.ranks < 1 || plan.of_rank.size() != static_cast<std::size_t>(plan.ranks)) {
    report.add(Kind::malformed, "the plan has steps of " + std::to_string(plan.of_rank.size()) +
                                    " ranks, expected " + std::to_string(plan.ranks));
    return;
  }
  if (counts.ranks() != plan.ranks) {
    report.add(Kind::malformed, "the plan is for " + std::to_string(plan.ranks) + " ranks, the counts for " +
                                    std::to_string(counts.ranks()));
    return;
  }
  for (std::size_t r = 0; r < plan.of_rank.size(); ++r) {
    const RankPlan& rank = plan.of_rank[r];
    if (rank.rank != static_cast<int>(r) || rank.ranks != plan.ranks) {
      report.add(Kind::malformed, "steps at place " + std::to_string(r) + " are those of rank " +
                                      std::to_string(rank.rank) + " of " + std::to_string(rank.ranks));
      return;
    }
    // Runs that follow each other take their tags from the number of channels.
    if (rank.channels != plan.of_rank[0].channels) {
      report.add(Kind::malformed, "rank " + std::to_string(r) + " has " + std::to_string(rank.channels) +
                                      " channels, rank 0 has " + std::to_string(plan.of_rank[0].channels));
    }
    Shape(plan, counts, r, report).check();
  }
}

Partners check_messages(const Plan& plan, Report& report) {
  return Matcher(plan, report).match();
}

}  // namespace verifier

std::string_view to_string(Defect::Kind kind) {
  switch (kind) {
    case Defect::Kind::malformed:
      return "malformed";
    case Defect::Kind::out_of_bounds:
      return "out of bounds";
    case Defect::Kind::writes_send:
      return "writes send";
    case Defect::Kind::unmatched:
      return "unmatched";
    case Defect::Kind::size_mismatch:
      return "size mismatch";
    case Defect::Kind::duplicate_channel:
      return "duplicate channel";
    case Defect::Kind::race:
      return "race";
    case Defect::Kind::uninitialized:
      return "uninitialized";
    case Defect::Kind::deadlock:
      return "deadlock";
    case Defect::Kind::wrong_data:
      return "wrong data";
    case Defect::Kind::missing_data:
      return "missing data";
    case Defect::Kind::duplicate_data:
      return "duplicate data";
  }
  return "unknown";
}

std::vector<Defect> verify(const Plan& plan, const Counts& counts, std::size_t limit) {
  verifier::Report report(limit);
  verifier::check_shape(plan, counts, report);
  if (!report.clean()) return report.take();
  const verifier::Partners partners = verifier::check_messages(plan, report);
  if (!report.clean()) return report.take();
  verifier::check_races(plan, counts, report);
  verifier::replay(plan, counts, partners, report);
  return report.take();
}

}  // namespace tapa
