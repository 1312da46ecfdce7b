/// What a plugin looks at before device memory comes into play.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ranks.hpp"
#include "dit/exchange.h"

namespace dit {

/// Throws PluginFailure when a plugin of these capabilities, named so in messages, cannot exchange a checked
/// call of device memory.
void require_device_call(const dit_exchange_call& call, const char* plugin, std::uint64_t capabilities);

/// The arguments of register_memory: all ranks throw PluginFailure when something is wrong with those of one,
/// or the kinds differ. Collective.
void agree_on_memory(Ranks& ranks, const void* memory, std::size_t bytes, int memory_kind, int device);

}  // namespace dit
