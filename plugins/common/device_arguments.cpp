#include "common/device_arguments.hpp"

#include <algorithm>
#include <string>

#include "common/agree.hpp"
#include "exchange/check_call.hpp"
#include "exchange/plugin_guard.hpp"

namespace dit {
namespace {

void require_known_memory(int memory_kind, int device, const void* memory, std::size_t bytes) {
  if (memory_kind != DIT_MEMORY_HOST && memory_kind != DIT_MEMORY_CUDA)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, "memory_kind is " + std::to_string(memory_kind) + " (" +
                                                   memory_kind_name(memory_kind) +
                                                   "), expected 0 (host) or 1 (cuda)");
  if (device < 0)
    throw PluginFailure(DIT_ERROR_ARGUMENT, "device is " + std::to_string(device) + ", expected 0 or more");
  if ((memory == nullptr) != (bytes == 0))
    throw PluginFailure(DIT_ERROR_ARGUMENT, std::string("pointer is ") +
                                                (memory == nullptr ? "null" : "not null") + " and bytes is " +
                                                std::to_string(bytes) +
                                                ", expected both or none of memory and bytes");
}

}  // namespace

void require_device_call(const dit_exchange_call& call, const char* plugin, std::uint64_t capabilities) {
  const bool strided = call.send_strided != nullptr || call.recv_strided != nullptr;
  if (strided && (capabilities & DIT_CAPABILITY_DEVICE_STRIDED) == 0)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, check_not_strided(call, plugin));
  if (call.selection != nullptr)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, std::string("plugin ") + plugin +
                                                   " selects no rows of device memory, call.selection is not "
                                                   "null");
}

void agree_on_memory(Ranks& ranks, const void* memory, std::size_t bytes, int memory_kind, int device) {
  together(ranks, [&] { require_known_memory(memory_kind, device, memory, bytes); });
  const std::vector<int> kinds = gather(ranks, memory_kind);
  if (std::count(kinds.begin(), kinds.end(), memory_kind) != ranks.size())
    throw PluginFailure(DIT_ERROR_ARGUMENT, "memory_kind is " + std::to_string(memory_kind) + " on rank " +
                                                std::to_string(ranks.rank()) +
                                                ", expected the same on all ranks");
}

}  // namespace dit
