#include "report/report.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <new>
#include <set>
#include <tuple>
#include <utility>

#include "run/locked.hpp"

namespace tapa {

namespace {

bool is_sampled(std::uint64_t call, std::size_t bytes_per_pair) {
  const std::uint64_t step = sample_step(bytes_per_pair);
  return call % step == 0 && (call == 3 * step || std::has_single_bit(call / step));
}

/// Of the calls of a kind around this one: one of so many is timed.
std::uint64_t timed_of(std::uint64_t call) {
  return std::clamp<std::uint64_t>(std::bit_floor(call / 32), 1, 8);
}

constexpr std::size_t kMostSamples = 1024;  // of a row

auto table_of(const ReportRow& row) {
  return std::tie(row.communicator, row.rank, row.ranks);
}
auto place_of(const ReportRow& row) {
  return std::tuple(table_of(row), std::tie(row.function, row.size_class, row.plan, row.forwarded));
}

void merge(ReportRow& to, const ReportRow& row) {
  to.calls += row.calls;
  to.bytes += row.bytes;
  to.untimed += row.untimed;
  to.seconds += row.seconds;
  const std::size_t room = kMostSamples - std::min(kMostSamples, to.samples.size());
  const auto taken = static_cast<std::ptrdiff_t>(std::min(room, row.samples.size()));
  to.samples.insert(to.samples.end(), row.samples.begin(), row.samples.begin() + taken);
}

/// The name with "*" for its numbers.
std::string kind_of(const std::string& name) {
  std::string kind;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) kind += c;
    if (digit && !kind.ends_with('*')) kind += '*';
  }
  return kind;
}

std::size_t digest_of(std::string_view function, std::size_t size_class, std::string_view plan) {
  const std::hash<std::string_view> digest;
  return (digest(function) * 31 + digest(plan)) * 127 + size_class;
}

}  // namespace

std::size_t KindCounts::find(std::size_t kind) const noexcept {
  if (last_ < known_ && counts_[last_].kind == kind) return last_;
  for (last_ = 0; last_ < known_ && counts_[last_].kind != kind; ++last_) {
  }
  return last_ = std::min(last_, kKinds - 1);
}

std::uint64_t KindCounts::calls(std::string_view function, std::size_t size_class,
                                std::string_view plan) const noexcept {
  return counts_[find(digest_of(function, size_class, plan))].calls;
}

std::uint64_t KindCounts::count(std::string_view function, std::size_t size_class,
                                std::string_view plan) noexcept {
  const std::size_t kind = digest_of(function, size_class, plan);
  const std::size_t at = find(kind);
  if (at == known_) counts_[known_++] = {kind, 0};
  return ++counts_[at].calls;
}

std::size_t Report::find(std::string_view function, std::size_t size_class, std::string_view plan,
                         std::string_view forwarded) const {
  const auto fits = [&](const ReportRow& r) {
    return r.size_class == size_class && r.function == function && r.plan == plan && r.forwarded == forwarded;
  };
  if (last_ < rows_.size() && fits(rows_[last_])) return last_;
  return last_ = static_cast<std::size_t>(std::ranges::find_if(rows_, fits) - rows_.begin());
}

ReportRow& Report::row(std::string_view function, std::size_t size_class, std::string_view plan,
                       std::string_view forwarded) {
  const std::size_t at = find(function, size_class, plan, forwarded);
  if (at == rows_.size()) {
    ReportRow fresh;
    fresh.function = function;
    fresh.size_class = size_class;
    fresh.plan = plan;
    fresh.forwarded = forwarded;
    rows_.push_back(std::move(fresh));
  }
  return rows_[at];
}

template <class Change>
void Report::change(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
                    std::string_view forwarded, const Change& change) noexcept {
  try {
    change(row(function, std::bit_floor(bytes_per_pair), plan, forwarded));
  } catch (const std::bad_alloc&) {
  }
}

void Report::count(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
                   std::string_view forwarded, std::size_t bytes, double seconds,
                   const std::optional<Sample>& sample) noexcept {
  change(function, bytes_per_pair, plan, forwarded, [&](ReportRow& counted) {
    ++counted.calls;
    counted.bytes += bytes;
    counted.seconds += seconds;
    if (sample) counted.samples.push_back(*sample);
  });
}

std::uint64_t Report::begin(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
                            std::size_t bytes) noexcept {
  next_blocking();
  std::uint64_t stands_for = 0;
  change(function, bytes_per_pair, plan, {}, [&](ReportRow& counted) {
    ++counted.calls;
    counted.bytes += bytes;
    const std::uint64_t each = timed_of(counted.calls);
    if (counted.calls % each == each / 2)  // in the middle of those it stands for
      stands_for = each;
    else
      ++counted.untimed;
  });
  return stands_for;
}

void Report::add_time(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
                      double seconds) noexcept {
  change(function, bytes_per_pair, plan, {}, [&](ReportRow& counted) { counted.seconds += seconds; });
}

bool Report::sample_due(std::string_view function, std::size_t bytes_per_pair,
                        std::string_view plan) noexcept {
  return is_sampled(asked_.count(function, std::bit_floor(bytes_per_pair), plan), bytes_per_pair);
}

bool Report::sample_is_next(std::string_view function, std::size_t bytes_per_pair,
                            std::string_view plan) const noexcept {
  return is_sampled(asked_.calls(function, std::bit_floor(bytes_per_pair), plan) + 1, bytes_per_pair);
}

std::vector<ReportRow> Report::rows(const std::string& communicator, int rank, int ranks) const {
  auto result = rows_;
  for (ReportRow& row : result) {
    row.communicator = communicator;
    row.rank = rank;
    row.ranks = ranks;
  }
  return result;
}

void ReportRows::add(ReportRow row) {
  const auto place = [&] {
    return std::ranges::find_if(rows_, [&](const ReportRow& r) { return place_of(r) == place_of(row); });
  };
  if (std::ranges::none_of(rows_, [&](const ReportRow& r) { return table_of(r) == table_of(row); })) {
    const std::string kind = kind_of(row.communicator);
    std::set<std::string> alike;
    for (const ReportRow& r : rows_) {
      if (r.rank == row.rank && r.ranks == row.ranks && kind_of(r.communicator) == kind)
        alike.insert(r.communicator);
    }
    if (alike.size() >= kMostAlike) row.communicator = kind;
  }
  const auto same = place();
  if (same != rows_.end()) {
    merge(*same, row);
  } else {
    rows_.push_back(std::move(row));
  }
}

void keep_rows(std::vector<ReportRow> rows) {
  const auto kept = locked<ReportRows>();
  for (ReportRow& row : rows) kept->add(std::move(row));
}

void forget_rows() {
  *locked<ReportRows>() = {};
}

std::vector<ReportRow> kept_rows() {
  return locked<ReportRows>()->rows();
}

}  // namespace tapa
