// Wrong calls: start must refuse them with words that name the argument, and must not have done anything.
#include <cstring>
#include <limits>

#include "checks.hpp"
#include "exchange/struct_sizes.hpp"
#include "known_exchange.hpp"
#include "refusal.hpp"

namespace dit::conformance {
namespace {

constexpr std::size_t rows_in_block = 6;
constexpr std::size_t row_bytes = 4;

/// A right call with every row but the second of each block selected; what is wrong is up to the caller.
struct Wrong {
  explicit Wrong(const ExchangeContext& context)
      : known(context, {[](int, int) { return rows_in_block * row_bytes; }}, 1),
        rows{0, 2, 3, 4, 5},
        self(static_cast<std::size_t>(context.rank())),
        size(static_cast<std::size_t>(context.size())),
        send_blocks(known.call().send_blocks, known.call().send_blocks + size),
        recv_blocks(known.call().recv_blocks, known.call().recv_blocks + size),
        counts(size, rows.size()),
        lists(size, rows.data()),
        selection{sizeof(dit_row_selection),
                  0,
                  row_bytes,
                  0,
                  counts.data(),
                  lists.data(),
                  counts.data(),
                  lists.data()},
        call(known.call()) {
    call.send_blocks = send_blocks.data();
    call.recv_blocks = recv_blocks.data();
  }
  Wrong(const Wrong&) = delete;
  Wrong& operator=(const Wrong&) = delete;
  [[nodiscard]] std::size_t other() const { return (self + 1) % size; }  // a rank whose rows are selected

  KnownExchange known;
  std::vector<std::uint32_t> rows;
  std::size_t self, size;
  std::vector<dit_block> send_blocks, recv_blocks;
  std::vector<std::size_t> counts;
  std::vector<const std::uint32_t*> lists;
  dit_row_selection selection;
  dit_exchange_call call;
};

struct Case {
  std::string what;
  std::string argument;
  std::function<void(Wrong&)> spoil;
};

std::vector<Case> call_cases() {
  return {{"struct_size of 8", "struct_size", [](Wrong& w) { w.call.struct_size = 8; }},
          {"send_blocks null", "send_blocks", [](Wrong& w) { w.call.send_blocks = nullptr; }},
          {"recv_blocks null", "recv_blocks", [](Wrong& w) { w.call.recv_blocks = nullptr; }},
          {"send null", "call.send is null", [](Wrong& w) { w.call.send = nullptr; }},
          {"recv null", "call.recv is null", [](Wrong& w) { w.call.recv = nullptr; }},
          {"unknown memory kind", "memory_kind", [](Wrong& w) { w.call.memory_kind = 77; }},
          {"negative memory kind", "memory_kind", [](Wrong& w) { w.call.memory_kind = -1; }},
          {"negative device", "device", [](Wrong& w) { w.call.device = -1; }},
          {"a channel that was not opened", "channel", [](Wrong& w) { w.call.channel = 12345; }},
          {"a device for host memory", "device", [](Wrong& w) { w.call.device = 1; }},
          {"unknown flag", "flags", [](Wrong& w) { w.call.flags = 1u << 7; }},
          {"a block past the end of memory", "send_blocks",
           [](Wrong& w) { w.send_blocks[w.size - 1].offset = std::numeric_limits<std::size_t>::max() - 1; }},
          {"another size for oneself", "recv_blocks", [](Wrong& w) { w.recv_blocks[w.self].bytes -= 1; }},
          {"receiving over what is sent", "overlaps",
           [](Wrong& w) { w.call.recv = const_cast<void*>(w.call.send); }}};
}

std::vector<Case> selection_cases() {
  return {
      {"struct_size of 3", "struct_size", [](Wrong& w) { w.selection.struct_size = 3; }},
      {"row_bytes 0", "row_bytes", [](Wrong& w) { w.selection.row_bytes = 0; }},
      {"blocks that are no multiple of row_bytes", "row_bytes", [](Wrong& w) { w.selection.row_bytes = 5; }},
      {"negative boundary", "boundary", [](Wrong& w) { w.selection.boundary = -1; }},
      {"boundary past the levels", "boundary", [](Wrong& w) { w.selection.boundary = 17; }},
      {"send_counts null", "send_counts", [](Wrong& w) { w.selection.send_counts = nullptr; }},
      {"send_rows null", "send_rows", [](Wrong& w) { w.selection.send_rows = nullptr; }},
      {"recv_counts null", "recv_counts", [](Wrong& w) { w.selection.recv_counts = nullptr; }},
      {"recv_rows null", "recv_rows", [](Wrong& w) { w.selection.recv_rows = nullptr; }}};
}

// These need a peer.
std::vector<Case> row_cases() {
  return {
      {"more rows than the block has", "counts", [](Wrong& w) { w.counts[w.other()] = rows_in_block + 1; }},
      {"a null list", "rows", [](Wrong& w) { w.lists[w.other()] = nullptr; }},
      {"a row past the end of the block", "rows", [](Wrong& w) { w.rows.back() = rows_in_block; }},
      {"rows that do not ascend", "rows", [](Wrong& w) { std::swap(w.rows[1], w.rows[2]); }},
      {"a row twice", "rows", [](Wrong& w) { w.rows[1] = w.rows[2]; }}};
}

// The plugin refuses each case, leaves the buffers alone, and then does the right thing.
void refuse(ExchangeContext& context, Findings& findings, const std::vector<Case>& cases, bool select) {
  const dit_exchange_plugin& table = context.plugin().table();
  for (const Case& one : cases) {
    Wrong wrong(context);
    if (select) wrong.call.selection = &wrong.selection;
    one.spoil(wrong);
    dit_request* request = nullptr;
    const dit_status status = table.start(context.handle(), &wrong.call, &request);
    expect_refusal(context, findings, one.what, status, one.argument);
    findings.expect(request == nullptr, one.what + ": there is a request nevertheless");
    if (status != DIT_OK) continue;
    table.wait(context.handle(), &request);  // before the buffers go
    throw ExchangeError(DIT_ERROR_COMMUNICATION, one.what + ": the exchange was started");
  }
  findings.problem(exchange_problem(context, {[](int, int) { return std::size_t{20}; }}, 1));
}

void null_arguments(ExchangeContext& context, Findings& findings) {
  const dit_exchange_plugin& table = context.plugin().table();
  dit_request* request = nullptr;
  expect_refusal(context, findings, "start without a call", table.start(context.handle(), nullptr, &request),
                 "call");
  const Wrong right(context);
  expect_refusal(context, findings, "start without a place for the request",
                 table.start(context.handle(), &right.call, nullptr), "request");
}

// Without buffers: a plugin that knows the kind does it, another one says so.
void device_memory(ExchangeContext& context, Findings& findings) {
  const dit_exchange_plugin& table = context.plugin().table();
  const std::vector<dit_block> blocks(static_cast<std::size_t>(context.size()), dit_block{0, 0});
  dit_exchange_call call{};
  call.struct_size = sizeof(call);
  call.send_blocks = call.recv_blocks = blocks.data();
  call.memory_kind = DIT_MEMORY_CUDA;
  dit_request* request = nullptr;
  const dit_status status = table.start(context.handle(), &call, &request);
  if (status == DIT_OK) {
    findings.expect(table.wait(context.handle(), &request) == DIT_OK, "CUDA's memory: wait failed");
    findings.note("CUDA's memory is supported");
  } else {
    expect_refusal(context, findings, "CUDA's memory", status, "memory", DIT_ERROR_UNSUPPORTED);
  }
}

// A caller of a later interface, whose structs have more at their ends.
void larger_structs(ExchangeContext& context, Findings& findings) {
  struct LaterSelection {
    dit_row_selection known;
    std::uint64_t more[4];
  };
  struct LaterCall {
    dit_exchange_call known;
    std::uint64_t more[4];
  };
  KnownExchange exchange(context, {[](int, int) { return std::size_t{10}; }, 2, 0, 0, 3}, 4);
  LaterSelection selection{*exchange.call().selection, {1, 2, 3, 4}};
  selection.known.struct_size = sizeof(selection);
  LaterCall call{exchange.call(), {1, 2, 3, 4}};
  call.known.selection = &selection.known;
  call.known.struct_size = sizeof(call);
  dit_request* request = nullptr;
  const dit_exchange_plugin& table = context.plugin().table();
  findings.expect(table.start(context.handle(), &call.known, &request) == DIT_OK,
                  "a larger struct_size is refused");
  findings.expect(table.wait(context.handle(), &request) == DIT_OK, "wait failed");
  findings.problem(exchange.problem());
}

// A caller of the first interface: what lies behind its struct is not read.
void smaller_structs(ExchangeContext& context, Findings& findings) {
  KnownExchange exchange(context, {[](int, int) { return std::size_t{10}; }}, 5);
  dit_exchange_call call = exchange.call();
  call.struct_size = first_call_bytes;
  std::memset(reinterpret_cast<std::byte*>(&call) + first_call_bytes, 0xff, sizeof(call) - first_call_bytes);
  dit_request* request = nullptr;
  const dit_exchange_plugin& table = context.plugin().table();
  findings.expect(table.start(context.handle(), &call, &request) == DIT_OK,
                  "the struct_size of the first interface is refused");
  findings.expect(table.wait(context.handle(), &request) == DIT_OK, "wait failed");
  findings.problem(exchange.problem());
}

}  // namespace

std::vector<Check> call_checks() {
  return {{"wrong calls: null arguments", null_arguments},
          {"wrong calls: fields", [](ExchangeContext& c, Findings& f) { refuse(c, f, call_cases(), false); }},
          {"wrong calls: selections",
           [](ExchangeContext& c, Findings& f) { refuse(c, f, selection_cases(), true); }},
          {"wrong calls: rows",
           [](ExchangeContext& c, Findings& f) {
             if (c.size() > 1) refuse(c, f, row_cases(), true);
           }},
          {"wrong calls: device memory", device_memory},
          {"calls of a later interface", larger_structs},
          {"calls of an older interface", smaller_structs}};
}

}  // namespace dit::conformance
