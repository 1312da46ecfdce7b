#include "transfer_model.hpp"

#include <algorithm>
#include <cmath>

namespace fuzz {
namespace {

std::vector<std::int64_t> all_of(dit_range range) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = range.begin; i < range.end; ++i) all.push_back(i);
  return all;
}

bool is_in(dit_range range, std::int64_t number) {
  return number >= range.begin && number < range.end;
}

/// What a head's number of a token is, wherever it lies.
std::uint8_t byte_at(const std::int64_t* where, std::int64_t index, int round) {
  return static_cast<std::uint8_t>(where[0] * 101 + where[1] * 31 + where[2] * 7 + index * 3 + round * 13);
}

}  // namespace

void note_late(Way& way, int step) {
  constexpr int kFresh = 4;  // steps
  const bool input = way.kind == DIT_SCATTER_KEY || way.kind == DIT_SCATTER_VALUE;
  way.late = input && step >= kFresh && way.travelled.contains(way.place);
  if (way.late) way.before = way.travelled.at(way.place);
  if (!way.late || step < way.wire->steps - 1) way.travelled[way.place] = way.round;
}

TransferModel::Part TransferModel::part(const Way& way, int rank) const {
  Part part;
  part.of.struct_size = sizeof part.of;
  must_work(dit_layout_part(layout_, rank, way.group, way.groups, &part.of), "dit_layout_part");
  const bool image_first = (case_.shape.flags & DIT_LAYOUT_IMAGE_FIRST) != 0;
  std::vector<std::int64_t> text, image;
  for (std::int64_t t = part.of.text_tokens.begin; t < part.of.text_tokens.end; ++t)
    text.push_back(t + (image_first ? case_.shape.image_tokens : 0));
  for (std::int64_t t = part.of.image_tokens.begin; t < part.of.image_tokens.end; ++t)
    image.push_back(t + (image_first ? 0 : case_.shape.text_tokens));
  part.tokens = image_first ? image : text;
  const std::vector<std::int64_t>& then = image_first ? text : image;
  part.tokens.insert(part.tokens.end(), then.begin(), then.end());
  return part;
}

std::vector<TransferModel::Part> TransferModel::parts(const Way& way) const {
  std::vector<Part> all;
  for (int rank = 0; rank < case_.ranks; ++rank) all.push_back(part(way, rank));
  return all;
}

/// Source and target of a rank.
std::pair<TransferModel::Side, TransferModel::Side> TransferModel::sides(const Way& way,
                                                                         const Part& own) const {
  const bool key = way.kind == DIT_SCATTER_KEY || way.kind == DIT_SCATTER_VALUE;
  const Side sequence{own.tokens, all_of({0, key ? case_.shape.kv_heads : case_.shape.heads})};
  const Side heads{
      key ? all_of({0, case_.shape.text_tokens + case_.shape.image_tokens}) : all_of(own.of.query_tokens),
      all_of(key ? own.of.kv_heads : own.of.heads)};
  return way.kind == DIT_GATHER_OUTPUT ? std::pair(heads, sequence) : std::pair(sequence, heads);
}

/// Whose numbers of a token and head a rank gets; -1: nobody's. Its own where it has them: text that every
/// rank has does not travel.
int TransferModel::sender_of(const Way& way, const std::vector<Part>& parts, int receiver, std::int64_t token,
                             std::int64_t head) const {
  for (int step = 0; step < case_.ranks; ++step) {
    const int rank = (receiver + step) % case_.ranks;
    const Part& part = parts[static_cast<std::size_t>(rank)];
    const bool has = way.kind == DIT_GATHER_OUTPUT
                         ? is_in(part.of.heads, head) && is_in(part.of.query_tokens, token)
                         : std::ranges::find(part.tokens, token) != part.tokens.end();
    if (has) return rank;
  }
  return -1;
}

std::vector<std::uint8_t> TransferModel::content(const Way& way, const std::int64_t* where, int round) const {
  std::vector<std::uint8_t> row(row_bytes(way));
  if (way.wire == nullptr) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = byte_at(where, static_cast<std::int64_t>(i), round);
    return row;
  }
  for (std::int64_t i = 0; i < case_.shape.head_dim; ++i)
    store_number(static_cast<std::int8_t>(byte_at(where, i, round)), way.wire->element_type,
                 row.data() + static_cast<std::size_t>(i) * way.element);
  return row;
}

void TransferModel::fill(Way& way) const {
  const Side from = sides(way, part(way, rank_)).first;
  require(way.source.size() == static_cast<std::size_t>(case_.shape.batch) * from.tokens.size() *
                                   from.heads.size() * row_bytes(way),
          "the source has the layout's bytes");
  std::uint8_t* to = way.source.data();
  for (std::int64_t batch = 0; batch < case_.shape.batch; ++batch)
    for (const std::int64_t token : from.tokens)
      for (const std::int64_t head : from.heads) {
        const std::int64_t where[] = {batch, token, head};
        const std::vector<std::uint8_t> row = content(way, where, way.round);
        to = std::copy(row.begin(), row.end(), to);
      }
}

void TransferModel::check(const Way& way) const {
  way.source.require_guards();
  way.target.require_guards();
  const std::vector<Part> all = parts(way);
  const Part& own = all[static_cast<std::size_t>(rank_)];
  const Side to = sides(way, own).second;
  require(way.target.size() == static_cast<std::size_t>(case_.shape.batch) * to.tokens.size() *
                                   to.heads.size() * row_bytes(way),
          "the target has the layout's bytes");
  const std::size_t rows = to.tokens.size() * to.heads.size();
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t token = to.tokens[row / to.heads.size()];
    const std::int64_t head = to.heads[row % to.heads.size()];
    const int sender = sender_of(way, all, rank_, token, head);
    for (std::int64_t batch = 0; batch < case_.shape.batch; ++batch) {
      const std::int64_t where[] = {batch, token, head};
      const std::size_t place = static_cast<std::size_t>(batch) * rows + row;
      check_row(way, own.of, sender, where, way.target.data() + place * row_bytes(way));
    }
  }
}

void TransferModel::check_row(const Way& way, const dit_rank_part& own, int sender, const std::int64_t* where,
                              const std::uint8_t* came) const {
  const std::size_t bytes = row_bytes(way);
  const auto all_are = [&](const std::vector<std::uint8_t>& row) {
    return std::equal(row.begin(), row.end(), came);
  };
  if (sender < 0) {
    require(way.kind == DIT_GATHER_OUTPUT && all_are(std::vector(bytes, kUntouched)),
            "what is of another group stays as it is");
    return;
  }
  const bool coded = way.wire != nullptr && way.wire->touches(case_, sender, rank_);
  const Arrival arrival = coded ? way.wire->policy->arrival : Arrival::exact;
  if (arrival == Arrival::exact)
    require(all_are(content(way, where, way.round)), "every number arrives where it belongs");
  else if (arrival == Arrival::late)
    require(all_are(content(way, where, way.late ? way.before : way.round)),
            "what comes late is the start before");
  else if (arrival == Arrival::past)
    require(is_from_before(way, where, came), "a row that arrives was sent, now or before");
  else
    check_numbers(way, where, came);
  if (!coded || board_ == nullptr || way.kind == DIT_GATHER_OUTPUT) return;
  // Ranks that share heads are sent the same block.
  const bool query = way.kind == DIT_SCATTER_QUERY;
  const dit_range heads = query ? own.heads : own.kv_heads;
  const dit_range tokens = query ? own.query_tokens : dit_range{};
  board_->agree(key_of(Topic::block, {way.number, way.round, where[0], where[1], where[2], heads.begin,
                                      heads.end, tokens.begin, tokens.end}),
                came, bytes, "all ranks that decode a block come to the same bits");
}

bool TransferModel::is_from_before(const Way& way, const std::int64_t* where,
                                   const std::uint8_t* came) const {
  const std::vector<int>& rounds = way.rounds.at(way.place);
  return std::any_of(rounds.rbegin(), rounds.rend(), [&](int round) {
    const std::vector<std::uint8_t> row = content(way, where, round);
    return std::equal(row.begin(), row.end(), came);
  });
}

void TransferModel::check_numbers(const Way& way, const std::int64_t* where, const std::uint8_t* came) const {
  constexpr float kMost = 1000;  // sources stay below 17
  constexpr float kNear = 1.01F;
  const std::vector<std::uint8_t> sent = content(way, where, way.round);
  for (std::size_t at = 0; at < sent.size(); at += way.element) {
    const float number = load_number(came + at, way.wire->element_type);
    require(std::abs(number) <= kMost, "what arrives is a number of its source's size");
    if (way.wire->policy->arrival != Arrival::near) continue;
    require(std::abs(number - load_number(sent.data() + at, way.wire->element_type)) <= kNear,
            "what arrives is near");
  }
}

void TransferModel::check_shapes(const Way& way, const std::int64_t* source,
                                 const std::int64_t* target) const {
  const auto [from, to] = sides(way, part(way, rank_));
  const auto is = [&](const std::int64_t* shape, const Side& side) {
    return shape[0] == case_.shape.batch && shape[1] == static_cast<std::int64_t>(side.tokens.size()) &&
           shape[2] == static_cast<std::int64_t>(side.heads.size()) && shape[3] == case_.shape.head_dim;
  };
  require(is(source, from) && is(target, to), "a transfer's shapes are the layout's");
}

std::uint64_t TransferModel::bytes_to(const Way& way, int peer) const {
  const std::vector<Part> all = parts(way);
  const Side to = sides(way, all[static_cast<std::size_t>(peer)]).second;
  std::uint64_t rows = 0;
  for (const std::int64_t token : to.tokens)
    for (const std::int64_t head : to.heads) rows += sender_of(way, all, peer, token, head) == rank_ ? 1 : 0;
  return rows * static_cast<std::uint64_t>(case_.shape.batch) * row_bytes(way);
}

}  // namespace fuzz
