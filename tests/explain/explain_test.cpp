#include "explain/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../plan/shapes.hpp"
#include "explain/explain_format.hpp"
#include "plan/planner.hpp"

namespace tapa {
namespace {

TEST(Words, BytesAndSecondsAreShort) {
  EXPECT_EQ(bytes_words(0), "0 B");
  EXPECT_EQ(bytes_words(1023), "1023 B");
  EXPECT_EQ(bytes_words(1024), "1 KiB");
  EXPECT_EQ(bytes_words(1536), "1.5 KiB");
  EXPECT_EQ(bytes_words(std::size_t{300} << 20), "300 MiB");
  EXPECT_EQ(bytes_words(static_cast<std::size_t>(-1)), "16 EiB");
  EXPECT_EQ(seconds_words(0), "0 ns");
  EXPECT_EQ(seconds_words(1.234e-5), "12.3 us");
  EXPECT_EQ(seconds_words(0.25), "250 ms");
  EXPECT_EQ(seconds_words(90), "90 s");
}

TEST(Words, ColumnsOfNumbersStandRight) {
  Table table({"name", "count"});
  table.add({"a", "5"});
  table.add({"longer", "1234567"});
  EXPECT_EQ(table.text(), "name      count\na             5\nlonger  1234567\n");
  EXPECT_EQ(Table({"only", "header"}).text(), "only  header\n");
}

TEST(PhaseTrafficTest, CountsMessagesBytesAndCopies) {
  // Two nodes of three: in the fast phase each rank sends two messages of two blocks, then one of three
  // blocks.
  const Topology shape = test::make_shape("two nodes", 6, {{"node", [](int r) { return r / 3; }}});
  const Plan plan = make_plan(shape, Counts::uniform(6, 10), parse_choice("tapa:split=node"));
  const std::vector<PhaseTraffic> phases = phase_traffic(plan, shape);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].sent.messages, 12U);
  EXPECT_EQ(phases[0].sent.bytes, 240U);
  EXPECT_EQ(phases[0].levels[0].bytes, 240U);
  EXPECT_EQ(phases[0].levels[1].messages, 0U);
  EXPECT_EQ(phases[0].busiest.messages, 2U);
  EXPECT_EQ(phases[0].busiest.bytes, 40U);
  EXPECT_EQ(phases[1].sent.messages, 6U);
  EXPECT_EQ(phases[1].levels[1].bytes, 180U);
  EXPECT_EQ(phases[1].busiest.bytes, 30U);
  // Each rank copies its block for itself, and one to its place in the message that leaves the node.
  EXPECT_EQ(phases[0].copied.bytes + phases[1].copied.bytes, 120U);
  EXPECT_EQ(most_scratch(plan), 30U);
}

TEST(ExplainSvg, EscapesNamesAndDrawsOnlyWhatIsReadable) {
  Topology shape = test::make_shape("a<b>&\"c\"", 64, {{"node", [](int r) { return r / 8; }}});
  const Plan plan = make_plan(shape, Counts::uniform(64, 8), parse_choice("linear"));
  const std::string svg = explain_svg(plan, shape, cost_of(plan, shape, rates_from(shape)));
  EXPECT_THAT(svg, testing::HasSubstr("a&lt;b&gt;&amp;&quot;c&quot;, 64 ranks"));
  EXPECT_THAT(svg, testing::HasSubstr("too many to draw: only those of rank 0"));
  EXPECT_THAT(svg, testing::HasSubstr("<title>0 to 63: 1 messages, 8 B</title>"));
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("<title>1 to 63")));
}

}  // namespace
}  // namespace tapa
