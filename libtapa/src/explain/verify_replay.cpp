#include <algorithm>

#include "explain/origin_map.hpp"
#include "explain/verify_parts.hpp"

namespace tapa::verifier {

namespace {

struct StepId {
  std::uint32_t rank, step;
  bool operator==(const StepId&) const = default;
};

/// How far each step is.
enum class Progress : std::uint8_t { waiting, posted, done };

struct RankState {
  std::vector<std::uint32_t> open;  // dependencies not yet done, for each step
  std::vector<std::uint32_t> next;  // steps that wait for step i: next[next_at[i]] .. next[next_at[i+1]]
  std::vector<std::uint32_t> next_at;
  std::vector<Progress> progress;
  std::vector<std::size_t> starts;
  OriginMap receive;  // blocks one after the other, see receive_starts
  OriginMap scratch;
};

RankState state_of(const RankPlan& rank, const Counts& counts) {
  RankState s;
  const std::size_t n = rank.steps.size();
  s.progress.resize(n);
  s.next_at.resize(n + 2);
  s.starts = receive_starts(counts, rank.rank);
  for (const Step& step : rank.steps) {
    s.open.push_back(step.deps.count);
    for (const std::uint32_t dep : rank.deps_of(step)) ++s.next_at[dep + 2];
  }
  for (std::size_t i = 2; i < s.next_at.size(); ++i) s.next_at[i] += s.next_at[i - 1];
  s.next.resize(s.next_at.back());
  for (std::uint32_t i = 0; i < n; ++i) {
    for (const std::uint32_t dep : rank.deps_of(rank.steps[i])) s.next[s.next_at[dep + 1]++] = i;
  }
  return s;
}

class Replay {
 public:
  Replay(const Plan& plan, const Counts& counts, const Partners& partners, Report& report)
      : plan_(plan), partners_(partners), report_(report) {
    for (const RankPlan& rank : plan.of_rank) ranks_.push_back(state_of(rank, counts));
  }

  void run() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      for (std::uint32_t i = 0; i < ranks_[r].open.size(); ++i) {
        if (ranks_[r].open[i] == 0) ready_.push_back({r, i});
      }
    }
    while (!ready_.empty() && !report_.full()) {
      const StepId id = ready_.back();
      ready_.pop_back();
      begin(id);
    }
    if (report_.full()) return;
    if (!find_deadlock()) find_missing();
  }

 private:
  [[nodiscard]] const RankPlan& plan_of(StepId id) const { return plan_.of_rank[id.rank]; }
  [[nodiscard]] const Step& step(StepId id) const { return plan_of(id).steps[id.step]; }
  [[nodiscard]] Progress& progress(StepId id) { return ranks_[id.rank].progress[id.step]; }
  [[nodiscard]] StepId partner(StepId id) const {
    return {static_cast<std::uint32_t>(step(id).peer), partners_[id.rank][id.step]};
  }

  /// A message moves when both ends have begun: a send is not done before its receive.
  void begin(StepId id) {
    progress(id) = Progress::posted;
    if (step(id).kind == StepKind::copy) {
      move(id, id);
      complete(id);
      return;
    }
    const StepId other = partner(id);
    if (progress(other) != Progress::posted) return;
    const bool sends = step(id).kind == StepKind::send;
    move(sends ? id : other, sends ? other : id);
    complete(id);
    complete(other);
  }

  void complete(StepId id) {
    progress(id) = Progress::done;
    RankState& s = ranks_[id.rank];
    for (std::uint32_t i = s.next_at[id.step]; i < s.next_at[id.step + 1]; ++i) {
      if (--s.open[s.next[i]] == 0) ready_.push_back({id.rank, s.next[i]});
    }
  }

  void move(StepId from, StepId to) {
    stream_.clear();
    for (const Segment& s : plan_of(from).from(step(from))) gather(from, s);
    std::size_t piece = 0;
    for (const Segment& s : plan_of(to).to(step(to))) {
      taken_.clear();
      for (std::size_t left = s.bytes; left > 0;) {
        Origin& head = stream_[piece];
        Origin part = head;
        part.bytes = std::min(left, head.bytes);
        taken_.push_back(part);
        left -= part.bytes;
        head.offset += part.bytes;
        head.bytes -= part.bytes;
        if (head.bytes == 0) ++piece;
      }
      scatter(to, s);
    }
  }

  void gather(StepId id, const Segment& s) {
    if (s.buffer == Buffer::send) {
      append(stream_, {static_cast<std::int32_t>(id.rank), s.block, s.offset, s.bytes});
      return;
    }
    const RankState& state = ranks_[id.rank];
    const bool receive = s.buffer == Buffer::recv;
    const std::size_t base = receive ? state.starts[static_cast<std::size_t>(s.block)] : 0;
    taken_.clear();
    (receive ? state.receive : state.scratch).read(base + s.offset, base + s.offset + s.bytes, taken_);
    std::size_t at = s.offset;
    for (const Origin& origin : taken_) {
      if (origin.src < 0) {
        const std::string where =
            receive ? " of the receive block from rank " + std::to_string(s.block) : " of scratch";
        report_.add(Defect::Kind::uninitialized, name_of(plan_, id.rank, id.step) + " reads " +
                                                     bytes_text(at, at + origin.bytes) + where +
                                                     ", which nothing has written yet");
      }
      at += origin.bytes;
      append(stream_, origin);
    }
  }

  /// Writes taken_ to a segment.
  void scatter(StepId id, const Segment& s) {
    RankState& state = ranks_[id.rank];
    if (s.buffer == Buffer::scratch) {
      state.scratch.write(s.offset, taken_);
      return;
    }
    check_received(id, s);
    if (state.receive.write(state.starts[static_cast<std::size_t>(s.block)] + s.offset, taken_)) {
      report_.add(Defect::Kind::duplicate_data,
                  name_of(plan_, id.rank, id.step) + " writes " + bytes_text(s.offset, s.offset + s.bytes) +
                      " of the receive block from rank " + std::to_string(s.block) +
                      ", some of which have already arrived");
    }
  }

  void check_received(StepId id, const Segment& s) {
    std::size_t at = s.offset;
    for (const Origin& o : taken_) {
      const bool right = o.src == s.block && o.dst == static_cast<int>(id.rank) && o.offset == at;
      if (!right && o.src >= 0) {  // what was never written has been reported where it was read
        report_.add(Defect::Kind::wrong_data,
                    name_of(plan_, id.rank, id.step) + " writes to " + bytes_text(at, at + o.bytes) +
                        " of the receive block from rank " + std::to_string(s.block) + " what are " +
                        bytes_text(o.offset, o.offset + o.bytes) + " of the block from rank " +
                        std::to_string(o.src) + " to rank " + std::to_string(o.dst));
      }
      at += o.bytes;
    }
  }

  /// What an unfinished step waits for: an unfinished dependency, else the other end of its message.
  [[nodiscard]] StepId waits_for(StepId id) {
    if (progress(id) == Progress::posted) return partner(id);
    for (const std::uint32_t dep : plan_of(id).deps_of(step(id))) {
      if (progress({id.rank, dep}) != Progress::done) return {id.rank, dep};
    }
    return id;
  }

  /// Follows the first unfinished step to the cycle that it hangs on.
  bool find_deadlock() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      for (std::uint32_t i = 0; i < ranks_[r].progress.size(); ++i) {
        if (ranks_[r].progress[i] == Progress::done) continue;
        report_cycle({r, i});
        return true;
      }
    }
    return false;
  }

  void report_cycle(StepId id) {
    std::vector<StepId> path;
    auto start = path.end();
    for (; start == path.end(); start = std::find(path.begin(), path.end(), id)) {
      path.push_back(id);
      id = waits_for(id);
    }
    constexpr std::ptrdiff_t kShown = 8;
    std::string what;
    for (auto i = start; i != path.end() && i - start < kShown; ++i) {
      what += name_of(plan_, i->rank, i->step) + " waits for ";
    }
    if (path.end() - start > kShown) what += "others, and so on to ";
    report_.add(Defect::Kind::deadlock, what + name_of(plan_, id.rank, id.step));
  }

  void find_missing() {
    for (std::size_t r = 0; r < ranks_.size() && !report_.full(); ++r) {
      const std::vector<std::size_t>& starts = ranks_[r].starts;
      ranks_[r].receive.for_gaps(starts.back(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t src = 0; src + 1 < starts.size(); ++src) {
          const std::size_t low = std::max(begin, starts[src]);
          const std::size_t high = std::min(end, starts[src + 1]);
          if (low >= high) continue;
          report_.add(Defect::Kind::missing_data,
                      "rank " + std::to_string(r) + ": " + bytes_text(low - starts[src], high - starts[src]) +
                          " of the block from rank " + std::to_string(src) + " never arrive");
        }
      });
    }
  }

  const Plan& plan_;
  const Partners& partners_;
  Report& report_;
  std::vector<RankState> ranks_;
  std::vector<StepId> ready_;
  std::vector<Origin> stream_;  // the message that is being moved
  std::vector<Origin> taken_;   // its part in one segment
};

}  // namespace

void replay(const Plan& plan, const Counts& counts, const Partners& partners, Report& report) {
  Replay(plan, counts, partners, report).run();
}

}  // namespace tapa::verifier
