#include "device/agreement.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

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
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "allgather of %zu bytes a rank returned %d, expected 0", bytes,
                code);
  throw CommonError(TAPA_DEVICE_ERR_ALLGATHER, text.data());
}

Agreement::Outcome Agreement::outcome_of_exception() {
  Outcome outcome{};
  const auto note = [&](int code, const char* text) {
    outcome.code = code;
    std::snprintf(outcome.text.data(), outcome.text.size(), "%s", text);
  };
  try {
    throw;
  } catch (const DeviceError& error) {
    note(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    note(TAPA_DEVICE_ERR_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    note(TAPA_DEVICE_ERR_ARG, error.what());
  } catch (...) {
    note(TAPA_DEVICE_ERR_ARG, "unknown exception");
  }
  return outcome;
}

void Agreement::settle(const Outcome& mine) const {
  std::array<int, TAPA_DEVICE_MAX_SIZE> codes;
  gather_bytes(&mine.code, codes.data(), sizeof(int));
  const auto* const end = codes.cbegin() + ranks_;
  const auto failed = [](int code) { return code != TAPA_DEVICE_SUCCESS; };
  const auto* const first = std::find_if(codes.cbegin(), end, failed);
  if (first == end) return;
  // All ranks' words at once would be half a megabyte.
  constexpr std::size_t kPiece = 32;
  static_assert(sizeof(mine.text) % kPiece == 0);
  const auto rank = static_cast<std::size_t>(first - codes.cbegin());
  std::array<char, TAPA_DEVICE_MAX_SIZE * kPiece> pieces;
  Outcome theirs;
  for (std::size_t at = 0; at < theirs.text.size(); at += kPiece) {
    gather_bytes(&mine.text[at], pieces.data(), kPiece);
    std::memcpy(&theirs.text[at], &pieces[rank * kPiece], kPiece);
  }
  if (std::all_of(first, end, failed) && rank == 0) throw CommonError(*first, theirs.text.data());
  std::array<char, sizeof(theirs.text) + 32> words{};
  std::snprintf(words.data(), words.size(), "rank %zu: %s", rank, theirs.text.data());
  throw CommonError(*first, words.data());
}

}  // namespace tapa::device
