#include "device/engine_order.hpp"

#include <algorithm>
#include <map>

namespace tapa::device {

std::vector<EngineOp> engine_order(std::span<const EngineMessage> messages, Word slots, bool in_graph) {
  std::map<int, std::vector<int>> turns;  // messages by distance, what is sent first
  for (const bool sends : {true, false})
    for (int index = 0; index < static_cast<int>(messages.size()); ++index)
      if (messages[static_cast<std::size_t>(index)].sends == sends)
        turns[messages[static_cast<std::size_t>(index)].distance].push_back(index);

  const auto chunks_of = [&](int index) { return messages[static_cast<std::size_t>(index)].chunks; };
  std::vector<EngineOp> ops;
  for (const auto& [distance, indices] : turns) {
    const Word most = chunks_of(*std::max_element(indices.begin(), indices.end(),
                                                  [&](int a, int b) { return chunks_of(a) < chunks_of(b); }));
    for (Word step = 0; step < most; ++step) {
      const int mark = engine_marks(distance, slots) + static_cast<int>(step % slots);
      if (in_graph) ops.push_back({EngineOp::Kind::wait, mark, 0});
      for (const int index : indices) {
        if (step >= chunks_of(index)) continue;
        ops.push_back({EngineOp::Kind::chunk, index, step});
        if (!in_graph && messages[static_cast<std::size_t>(index)].sends)
          ops.push_back({EngineOp::Kind::tell, index, step});
      }
      if (in_graph) ops.push_back({EngineOp::Kind::mark, mark, 0});
    }
  }
  return ops;
}

}  // namespace tapa::device
