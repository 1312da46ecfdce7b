#include "options.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace tapa::preload {
namespace {

/// With one variable set, which goes again.
bool at_once_with(const char* name, const std::string& value) {
  setenv(name, value.c_str(), 1);
  const bool wanted = wants_libtapa_at_once();
  unsetenv(name);
  return wanted;
}

class WantsLibtapaAtOnce : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name :
         {"TAPA_PLAN", "TAPA_EXPLAIN", "TAPA_TIMEOUT", "TAPA_TUNING", "TAPA_CHECK", "TAPA_REPORT"}) {
      unsetenv(name);
    }
  }
};

using Values = std::vector<std::pair<const char*, const char*>>;

TEST_F(WantsLibtapaAtOnce, NotWithoutAnOption) {
  EXPECT_FALSE(wants_libtapa_at_once());
}

// As if they were not set.
TEST_F(WantsLibtapaAtOnce, NotWithWhatIsTheStandard) {
  for (const auto& [name, value] : Values{{"TAPA_PLAN", "auto"},
                                          {"TAPA_PLAN", ""},
                                          {"TAPA_EXPLAIN", "0"},
                                          {"TAPA_EXPLAIN", "off"},
                                          {"TAPA_TIMEOUT", "0"},
                                          {"TAPA_TIMEOUT", "0.0"},
                                          {"TAPA_TUNING", ""},
                                          {"TAPA_CHECK", "off"},
                                          {"TAPA_CHECK", "0"},
                                          {"TAPA_CHECK", "mpi"},
                                          {"TAPA_CHECK", "args"},
                                          {"TAPA_REPORT", "0"},
                                          {"TAPA_REPORT", "off"},
                                          {"TAPA_REPORT", "no"},
                                          {"TAPA_REPORT", "passive"}}) {
    EXPECT_FALSE(at_once_with(name, value)) << name << "=" << value;
  }
}

// What libtapa does not take is complained about by it, so it must be there.
TEST_F(WantsLibtapaAtOnce, WithWhatIsToBeSeen) {
  for (const auto& [name, value] : Values{{"TAPA_PLAN", "linear"},
                                          {"TAPA_PLAN", "0"},
                                          {"TAPA_EXPLAIN", "1"},
                                          {"TAPA_EXPLAIN", "yes"},
                                          {"TAPA_TIMEOUT", "0.5"},
                                          {"TAPA_TIMEOUT", "-1"},
                                          {"TAPA_TIMEOUT", "soon"},
                                          {"TAPA_TUNING", "file"},
                                          {"TAPA_CHECK", "counts"},
                                          {"TAPA_CHECK", "1"},
                                          {"TAPA_CHECK", "data"},
                                          {"TAPA_CHECK", "none"},
                                          {"TAPA_REPORT", "1"},
                                          {"TAPA_REPORT", "on"},
                                          {"TAPA_REPORT", "all"}}) {
    EXPECT_TRUE(at_once_with(name, value)) << name << "=" << value;
  }
}

}  // namespace
}  // namespace tapa::preload
