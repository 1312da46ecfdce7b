// Exchanges in which only some rows travel.
#include <algorithm>
#include <memory>

#include "checks.hpp"
#include "known_exchange.hpp"

namespace dit::conformance {
namespace {

std::uint64_t pair_of(int sender, int receiver) {
  return mix(static_cast<std::uint64_t>(sender), static_cast<std::uint64_t>(receiver));
}

Shape selecting(int boundary, std::uint64_t seed) {
  Shape shape;
  shape.rows = [seed](int sender, int receiver) {
    return static_cast<std::size_t>(mix(seed, pair_of(sender, receiver)) % 40);
  };
  shape.row_bytes = 1 + seed % 37;
  shape.boundary = boundary;
  shape.selection_seed = seed;
  return shape;
}

// Every boundary, and the one past the last level, where nothing is selected.
void every_boundary(ExchangeContext& context, Findings& findings) {
  const int levels = static_cast<int>(context.levels().size());
  for (int boundary = 0; boundary <= levels; ++boundary)
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const std::string problem = exchange_problem(context, selecting(boundary, seed), seed + 100);
      findings.expect(problem.empty(), "boundary " + std::to_string(boundary) + ": " + problem);
    }
}

void all_rows_or_none(ExchangeContext& context, Findings& findings) {
  for (const std::size_t count : {0u, 9u}) {
    KnownExchange whole(context, {[](int, int) { return std::size_t{9 * 16}; }}, 5);
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < count; ++row) rows.push_back(row);
    const auto size = static_cast<std::size_t>(context.size());
    const std::vector<std::size_t> counts(size, count);
    const std::vector<const std::uint32_t*> lists(size, rows.data());
    const dit_row_selection selection{
        sizeof(dit_row_selection), 0, 16, 0, counts.data(), lists.data(), counts.data(), lists.data()};
    dit_exchange_call call = whole.call();
    call.selection = &selection;
    context.start(call).wait();
    if (count == 9) findings.problem(whole.problem());
    // With no rows the bytes of others stay as they were; a whole exchange then puts them in place.
    if (count == 0) {
      findings.expect(size == 1 || !whole.problem().empty(), "rows travelled that are not active");
      context.start(whole.call()).wait();
      findings.problem(whole.problem());
    }
  }
}

// Equal ids, equal selections; other contents and other buffers each time. Two ids take turns, as layers do.
void ids_are_reused(ExchangeContext& context, Findings& findings) {
  for (std::uint64_t turn = 0; turn < 10; ++turn)
    for (const std::uint64_t id : {3u, 4u}) {
      Shape shape = selecting(0, 20 + id);
      shape.selection_id = id;
      const std::string problem = exchange_problem(context, shape, 1000 * turn + id);
      findings.expect(problem.empty(),
                      "id " + std::to_string(id) + ", use " + std::to_string(turn + 1) + ": " + problem);
    }
}

void mixed_at_once(ExchangeContext& context, Findings& findings) {
  std::vector<std::unique_ptr<KnownExchange>> exchanges;
  std::vector<ExchangeRequest> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    Shape shape = selecting(i % 2 == 0 ? 0 : Shape::no_selection, 50 + i);
    exchanges.push_back(std::make_unique<KnownExchange>(context, shape, i));
    requests.push_back(context.start(exchanges.back()->call()));
  }
  for (ExchangeRequest& request : requests) request.wait();
  for (const auto& exchange : exchanges) findings.problem(exchange->problem());
}

// The lists belong to the caller again when start returns.
void lists_are_copied(ExchangeContext& context, Findings& findings) {
  KnownExchange exchange(context, selecting(0, 60), 60);
  const dit_row_selection& given = *exchange.call().selection;
  const auto size = static_cast<std::size_t>(context.size());
  auto counts = std::make_unique<std::vector<std::size_t>>(given.send_counts, given.send_counts + size);
  auto lists = std::make_unique<std::vector<std::vector<std::uint32_t>>>();
  for (std::size_t peer = 0; peer < size; ++peer)
    lists->emplace_back(given.send_rows[peer], given.send_rows[peer] + given.send_counts[peer]);
  auto pointers = std::make_unique<std::vector<const std::uint32_t*>>();
  for (const auto& list : *lists) pointers->push_back(list.data());
  auto selection = std::make_unique<dit_row_selection>(given);
  selection->send_counts = counts->data();
  selection->send_rows = pointers->data();
  dit_exchange_call call = exchange.call();
  call.selection = selection.get();
  ExchangeRequest request = context.start(call);
  for (auto& list : *lists) std::fill(list.begin(), list.end(), 0x7fffffffu);
  counts.reset();
  lists.reset();
  pointers.reset();
  *selection = {};
  request.wait();
  findings.problem(exchange.problem());
}

void blocking(ExchangeContext& context, Findings& findings) {
  KnownExchange exchange(context, selecting(0, 70), 70);
  context.exchange(exchange.call());
  findings.problem(exchange.problem());
}

}  // namespace

std::vector<Check> selection_checks() {
  return {{"rows: every boundary", every_boundary},
          {"rows: all and none", all_rows_or_none},
          {"rows: ids are reused", ids_are_reused},
          {"rows: with plain exchanges at once", mixed_at_once},
          {"rows: lists are copied by start", lists_are_copied},
          {"rows: blocking", blocking}};
}

}  // namespace dit::conformance
