// Collective steps on the host where a rank has no memory for its part, for each single piece of it in turn:
// nobody waits. Threads as ranks.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../run/refused_memory.hpp"
#include "agreement_threads.hpp"
#include "device/handle_post.hpp"
#include "device/places.hpp"

namespace tapa::device {
namespace {

constexpr int kRanks = 3;

bool goes_well(const Agreement& agreement, const auto& step) {
  try {
    agreement.together([&] { step(agreement); });
    return true;
  } catch (const CommonError&) {
    return false;
  }
}

/// Whichever rank comes first is refused the first piece of memory, the second and so on, until there are no
/// more. Returns how many there are.
template <class Step>
int refuse_each(const Step& step) {
  for (int turn = 0;; ++turn) {
    std::optional<Refusing> refusing;
    std::atomic<int> well{0};
    bool refused = false;
    as_ranks(kRanks, [&](const Agreement& agreement) {
      agreement.meet();
      if (agreement.rank() == 0) refusing.emplace(1, turn, 1);
      agreement.meet();
      if (goes_well(agreement, step)) ++well;
      agreement.meet();
      if (agreement.rank() == 0) refused = Refusing::some();
      if (agreement.rank() == 0) refusing.reset();
      agreement.meet();
    });
    EXPECT_EQ(well, refused ? 0 : kRanks) << "piece " << turn;
    if (!refused) return turn;
  }
}

TEST(NoMemory, ForWhatRanksSay) {
  const int pieces = refuse_each([](const Agreement& agreement) {
    const std::string own = own_node();
    std::array<char, 128> text{};
    own.copy(text.data(), text.size() - 1);
    for (const auto& each : agreement.gather(text)) EXPECT_EQ(own, each.data());
    const Agreement own_part(agreement, {agreement.rank()});
    EXPECT_EQ(own_part.gather(1).size(), 1U);
  });
  EXPECT_GT(pieces, 3 * kRanks);
}

TEST(NoMemory, ForHandles) {
  const int pieces = refuse_each([](const Agreement& agreement) {
    std::vector<Handle> mine;
    mine.push_back({Descriptor(::memfd_create("tapa", MFD_CLOEXEC)), 1});
    for (const Delivery& each : post_handles(agreement, std::move(mine))) EXPECT_EQ(each.handles.size(), 1U);
  });
  EXPECT_GT(pieces, 3 * kRanks);
}

}  // namespace
}  // namespace tapa::device
