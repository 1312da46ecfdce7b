#include <algorithm>
#include <optional>
#include <set>

#include "explain/verify_parts.hpp"

namespace tapa::verifier {

namespace {

/// Which earlier steps of a rank each of its steps waits for, directly or through others.
class Ancestors {
 public:
  explicit Ancestors(const RankPlan& rank)
      : words_((rank.steps.size() + 63) / 64), bits_(words_ * rank.steps.size()) {
    std::vector<std::uint32_t> deps;
    for (std::uint32_t i = 0; i < rank.steps.size(); ++i) {
      const auto own = rank.deps_of(rank.steps[i]);
      deps.assign(own.begin(), own.end());
      // Latest first: it often brings the others with it, which then cost nothing.
      std::sort(deps.rbegin(), deps.rend());
      for (const std::uint32_t dep : deps) {
        if (!precedes(dep, i)) add(dep, i);
      }
    }
  }

  [[nodiscard]] bool precedes(std::uint32_t early, std::uint32_t late) const {
    return (bits_[words_ * late + early / 64] >> (early % 64) & 1U) != 0;
  }

 private:
  void add(std::uint32_t dep, std::uint32_t step) {
    for (std::size_t w = 0; w <= dep / 64; ++w) bits_[words_ * step + w] |= bits_[words_ * dep + w];
    bits_[words_ * step + dep / 64] |= std::uint64_t{1} << (dep % 64);
  }

  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

/// A step's use of a run of bytes of one buffer; receive blocks lie one after the other.
struct Access {
  std::size_t begin, end;
  std::uint32_t step;
  bool write;
};

class RankRaces {
 public:
  RankRaces(const Plan& plan, const Counts& counts, std::size_t rank, Report& report)
      : plan_(plan),
        rank_(plan.of_rank[rank]),
        starts_(receive_starts(counts, static_cast<int>(rank))),
        report_(report) {}

  void check() {
    for (std::uint32_t i = 0; i < rank_.steps.size(); ++i) {
      for (const Segment& s : rank_.from(rank_.steps[i])) add(s, i, false);
      for (const Segment& s : rank_.to(rank_.steps[i])) add(s, i, true);
    }
    sweep(receive_, Buffer::recv);
    sweep(scratch_, Buffer::scratch);
  }

 private:
  /// The send buffer is only read (check_shape), so it cannot race.
  void add(const Segment& s, std::uint32_t step, bool write) {
    if (s.buffer == Buffer::recv) {
      const std::size_t begin = starts_[static_cast<std::size_t>(s.block)] + s.offset;
      receive_.push_back({begin, begin + s.bytes, step, write});
    } else if (s.buffer == Buffer::scratch) {
      scratch_.push_back({s.offset, s.offset + s.bytes, step, write});
    }
  }

  void sweep(std::vector<Access>& accesses, Buffer buffer) {
    std::sort(accesses.begin(), accesses.end(),
              [](const Access& a, const Access& b) { return a.begin < b.begin; });
    std::vector<Access> reads, writes;  // those that reach beyond the present place
    for (const Access& a : accesses) {
      const auto over = [&](const Access& o) { return o.end <= a.begin; };
      std::erase_if(reads, over);
      std::erase_if(writes, over);
      for (const Access& w : writes) check_pair(w, a, buffer);
      if (a.write) {
        for (const Access& r : reads) check_pair(r, a, buffer);
      }
      (a.write ? writes : reads).push_back(a);
    }
  }

  [[nodiscard]] bool ordered(std::uint32_t a, std::uint32_t b) {
    if (a == b) return false;
    if (!ancestors_) ancestors_.emplace(rank_);
    return a < b ? ancestors_->precedes(a, b) : ancestors_->precedes(b, a);
  }

  void check_pair(const Access& a, const Access& b, Buffer buffer) {
    if (report_.full() || ordered(a.step, b.step)) return;
    const auto steps = std::minmax(a.step, b.step);
    if (!reported_.insert({steps.first, steps.second}).second) return;
    const auto r = static_cast<std::size_t>(rank_.rank);
    std::string what = name_of(plan_, r, steps.first);
    if (a.step == b.step) {
      what += " touches " + place(b.begin, std::min(a.end, b.end), buffer) + " twice, writing";
    } else {
      what += " and " + name_of(plan_, r, steps.second) + " both touch " +
              place(b.begin, std::min(a.end, b.end), buffer) + ", " + (a.write && b.write ? "both" : "one") +
              " writing, and neither waits for the other";
    }
    report_.add(Defect::Kind::race, what);
  }

  [[nodiscard]] std::string place(std::size_t begin, std::size_t end, Buffer buffer) const {
    if (buffer == Buffer::scratch) return "scratch " + bytes_text(begin, end);
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), begin);
    const std::size_t start = *(after - 1);
    return bytes_text(begin - start, end - start) + " of the receive block from rank " +
           std::to_string(after - starts_.begin() - 1);
  }

  const Plan& plan_;
  const RankPlan& rank_;
  std::vector<std::size_t> starts_;
  Report& report_;
  std::vector<Access> receive_, scratch_;
  std::optional<Ancestors> ancestors_;  // made when two steps first meet: many plans never need it
  std::set<std::pair<std::uint32_t, std::uint32_t>> reported_;
};

}  // namespace

void check_races(const Plan& plan, const Counts& counts, Report& report) {
  for (std::size_t r = 0; r < plan.of_rank.size() && !report.full(); ++r)
    RankRaces(plan, counts, r, report).check();
}

}  // namespace tapa::verifier
