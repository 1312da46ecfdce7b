#include "explain/origin_map.hpp"

#include <algorithm>

namespace tapa {

namespace {

/// The part of a run that lies in [skip, skip + bytes).
Origin part(const Origin& origin, std::size_t skip, std::size_t bytes) {
  return {origin.src, origin.dst, origin.offset + skip, bytes};
}

}  // namespace

void append(std::vector<Origin>& stream, const Origin& origin) {
  if (!stream.empty() && stream.back().continues_in(origin)) {
    stream.back().bytes += origin.bytes;
  } else {
    stream.push_back(origin);
  }
}

std::size_t OriginMap::find(std::size_t place) const {
  const auto found = std::upper_bound(runs_.begin(), runs_.end(), place,
                                      [](std::size_t p, const Run& run) { return p < run.end(); });
  return static_cast<std::size_t>(found - runs_.begin());
}

void OriginMap::read(std::size_t begin, std::size_t end, std::vector<Origin>& stream) const {
  std::size_t at = begin;
  for (std::size_t i = find(begin); i < runs_.size() && runs_[i].begin < end; ++i) {
    const Run& run = runs_[i];
    if (run.begin > at) append(stream, {-1, -1, 0, run.begin - at});
    at = std::max(at, run.begin);
    const std::size_t stop = std::min(end, run.end());
    append(stream, part(run.origin, at - run.begin, stop - at));
    at = stop;
  }
  if (at < end) append(stream, {-1, -1, 0, end - at});
}

bool OriginMap::write(std::size_t begin, std::span<const Origin> origins) {
  fresh_.clear();
  const std::size_t first = find(begin);
  if (first < runs_.size() && runs_[first].begin < begin) {
    const Run& cut = runs_[first];
    fresh_.push_back({cut.begin, part(cut.origin, 0, begin - cut.begin)});
  }
  std::size_t end = begin;
  for (const Origin& origin : origins) {
    fresh_.push_back({end, origin});
    end += origin.bytes;
  }
  std::size_t last = first;
  bool overwrites = false;
  while (last < runs_.size() && runs_[last].begin < end) {
    overwrites = true;
    if (runs_[last].end() > end) {
      const Run& cut = runs_[last];
      fresh_.push_back({end, part(cut.origin, end - cut.begin, cut.end() - end)});
    }
    ++last;
  }
  const std::size_t reused = std::min(last - first, fresh_.size());
  const auto place = runs_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto split = fresh_.begin() + static_cast<std::ptrdiff_t>(reused);
  std::copy(fresh_.begin(), split, place);
  if (reused < last - first) {
    runs_.erase(place + static_cast<std::ptrdiff_t>(reused),
                runs_.begin() + static_cast<std::ptrdiff_t>(last));
  } else {
    runs_.insert(place + static_cast<std::ptrdiff_t>(reused), split, fresh_.end());
  }
  return overwrites;
}

void OriginMap::for_gaps(std::size_t size, const std::function<void(std::size_t, std::size_t)>& visit) const {
  std::size_t at = 0;
  for (const Run& run : runs_) {
    if (run.begin > at) visit(at, run.begin);
    at = run.end();
  }
  if (at < size) visit(at, size);
}

}  // namespace tapa
