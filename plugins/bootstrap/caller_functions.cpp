#include "bootstrap/caller_functions.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "exchange/plugin_guard.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

using std::to_string;

constexpr std::size_t kFirstBytes = offsetof(dit_bootstrap, node) + sizeof(dit_bootstrap::node);

void refuse(const std::string& words) {
  throw PluginFailure(DIT_ERROR_ARGUMENT, "options.communicator: " + words);
}

dit_bootstrap checked(const dit_bootstrap& given) {
  if (given.struct_size < kFirstBytes)
    refuse("struct_size is " + to_string(given.struct_size) + ", expected sizeof(dit_bootstrap), " +
           to_string(sizeof(dit_bootstrap)));
  const dit_bootstrap whole = completed(given);
  if (whole.size < 1) refuse("size is " + to_string(whole.size) + ", expected 1 or more");
  if (whole.rank < 0 || whole.rank >= whole.size)
    refuse("rank is " + to_string(whole.rank) + ", expected 0 to " + to_string(whole.size - 1));
  if (whole.allgather == nullptr && whole.size > 1) refuse("allgather is null, expected a function");
  return whole;
}

}  // namespace

CallerFunctions::CallerFunctions(const dit_bootstrap& given, const std::string& node,
                                 const std::string& reach)
    : given_(checked(given)),
      node_(given_.node == nullptr ? node : given_.node),
      reach_(given_.reach == nullptr ? reach : given_.reach) {
  given_.node = given_.reach = nullptr;  // the texts are the program's
}

CallerFunctions::~CallerFunctions() {
  if (given_.release != nullptr) given_.release(given_.user);
}

void CallerFunctions::fail(const char* function, int code) const {
  const char* const words = given_.last_error == nullptr ? nullptr : given_.last_error(given_.user);
  throw PluginFailure(DIT_ERROR_COMMUNICATION,
                      std::string(function) + " of the program failed on rank " + to_string(rank()) + " of " +
                          to_string(size()) + " with code " + to_string(code) +
                          (words == nullptr || *words == '\0' ? std::string() : std::string(": ") + words));
}

void CallerFunctions::allgather(const void* mine, void* all, std::size_t bytes) {
  if (bytes == 0) return;
  if (size() == 1) {
    std::memcpy(all, mine, bytes);
    return;
  }
  if (const int code = given_.allgather(given_.user, mine, all, bytes); code != 0) fail("allgather", code);
}

void CallerFunctions::alltoallv(const void* send, const PeerBytes& to, void* recv, const PeerBytes& from) {
  if (size() == 1) return;
  const int code = given_.alltoallv(given_.user, send, to.bytes.data(), to.offsets.data(), recv,
                                    from.bytes.data(), from.offsets.data());
  if (code != 0) fail("alltoallv", code);
}

std::optional<dit_bootstrap> CallerFunctions::make_part(std::span<const int> ranks) {
  const auto mine = std::find(ranks.begin(), ranks.end(), rank());
  const bool member = mine != ranks.end();
  dit_bootstrap part{};
  part.struct_size = sizeof(part);
  if (size() == 1) {
    part.size = 1;
    return part;
  }
  const int code =
      given_.make_part(given_.user, ranks.data(), static_cast<int>(ranks.size()), member ? &part : nullptr);
  if (code != 0) fail("make_part", code);
  if (!member) return std::nullopt;
  const auto place = static_cast<int>(mine - ranks.begin());
  if (part.rank != place || part.size != static_cast<int>(ranks.size()))
    throw PluginFailure(DIT_ERROR_COMMUNICATION, "make_part of the program gave rank " +
                                                     to_string(part.rank) + " of " + to_string(part.size) +
                                                     " on rank " + to_string(rank()) + ", expected rank " +
                                                     to_string(place) + " of " + to_string(ranks.size()));
  return part;
}

std::string this_node() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id) return id;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace dit
