#include "device/agreement.hpp"

#include <algorithm>
#include <cstdio>
#include <new>

#include "device/device_error.hpp"

namespace tapa::device {

Agreement::Agreement(int rank, int size, TAPA_Device_allgather allgather, void* context)
    : rank_(rank), ranks_(size), allgather_(allgather), context_(context) {
  if (size < 1 || size > TAPA_DEVICE_MAX_SIZE) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG, "size is " + std::to_string(size) + ", expected 1 to " +
                                               std::to_string(TAPA_DEVICE_MAX_SIZE));
  }
  if (rank < 0 || rank >= size) {
    throw DeviceError(TAPA_DEVICE_ERR_ARG,
                      "rank is " + std::to_string(rank) + ", expected 0 to " + std::to_string(size - 1));
  }
  if (allgather == nullptr) throw DeviceError(TAPA_DEVICE_ERR_ARG, "allgather is null, expected a function");
}

Agreement::Agreement(const Agreement& all, const std::vector<int>& members)
    : rank_(static_cast<int>(std::find(members.begin(), members.end(), all.rank_) - members.begin())),
      ranks_(all.ranks_),
      members_(members),
      allgather_(all.allgather_),
      context_(all.context_) {}

void Agreement::gather_bytes(const void* mine, void* all, std::size_t bytes) const {
  const int code = allgather_(context_, mine, all, bytes);
  if (code == 0) return;
  throw DeviceError(TAPA_DEVICE_ERR_ALLGATHER, "allgather of " + std::to_string(bytes) +
                                                   " bytes a rank returned " + std::to_string(code) +
                                                   ", expected 0");
}

Agreement::Outcome Agreement::outcome_of_exception() {
  Outcome outcome{};
  const auto note = [&](int code, const char* text) {
    outcome.code = code;
    std::snprintf(outcome.text, sizeof(outcome.text), "%s", text);
  };
  try {
    throw;
  } catch (const DeviceError& error) {
    note(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    note(TAPA_DEVICE_ERR_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    note(TAPA_DEVICE_ERR_ARG, error.what());
  }
  return outcome;
}

void Agreement::raise_first(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].code == TAPA_DEVICE_SUCCESS) continue;
    throw DeviceError(outcomes[rank].code, "rank " + std::to_string(rank) + ": " + outcomes[rank].text);
  }
}

}  // namespace tapa::device
