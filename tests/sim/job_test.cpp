// Jobs and simulated machines as files.
#include "job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tapa::sim {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string write(const std::string& text) {
  const std::string path = ::testing::TempDir() + "tapa_sim_machine.json";
  std::ofstream(path) << text;
  return path;
}

std::string message(const std::string& text) {
  const std::string path = write(text);
  std::string message;
  try {
    (void)load_simulated(path);
  } catch (const std::invalid_argument& error) {
    message = error.what();
  }
  std::filesystem::remove(path);
  return message;
}

TEST(Job, ComesBackAsItWasWritten) {
  Job job;
  job.topology = make_uniform_topology({2, 3});
  job.parameters.eager = 4096;
  job.parameters.incast = 0.25;
  job.topology.levels[0].link.taper = 1.5;
  job.contenders = {"linear", "mpi"};
  job.bytes = {8, 4096};
  job.data_limit = std::size_t{5} << 30;
  job.results = "/tmp/results";
  const Job read = read_job(write_job(job), "F");
  EXPECT_EQ(read.topology.ranks, 6);
  EXPECT_EQ(read.parameters.eager, 4096u);
  EXPECT_EQ(read.parameters.incast, 0.25);
  EXPECT_EQ(read.topology.levels[0].link.taper, 1.5);
  EXPECT_EQ(read.contenders, job.contenders);
  EXPECT_EQ(read.bytes, job.bytes);
  EXPECT_EQ(read.data_limit, job.data_limit);
  EXPECT_EQ(read.results, job.results);
}

TEST(Job, ALimitIsANumberOfBytes) {
  Job job;
  job.topology = make_uniform_topology({2});
  job.contenders = {"linear"};
  job.bytes = {8};
  job.data_limit = 77;
  job.results = "results";
  std::string text = write_job(job);
  text.replace(text.find("77"), 2, "-1");
  try {
    (void)read_job(text, "F");
    FAIL() << "a limit below 0 was read";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "F: $.data_limit: -1, expected a number of bytes, 0 or more");
  }
}

TEST(Simulated, ShippedOnesCanBeRead) {
  const auto names = simulated_machines();
  for (const char* name : {"aurora", "cluster16x8", "cpu-2socket", "fat-tree", "frontier", "hgx-h100"})
    EXPECT_THAT(names, Contains(name));
  for (const std::string& name : names) EXPECT_GT(load_simulated(name).machine.slots, 0) << name;
  EXPECT_EQ(load_simulated("fat-tree").machine.outer.front().link.taper, 2);
}

TEST(Simulated, ErrorsNameThePlace) {
  EXPECT_THAT(message(R"({"schema": "tapa-sim/2", "machine": "aurora"})"),
              HasSubstr("expected \"tapa-sim/1\""));
  EXPECT_THAT(message(R"({"schema": "tapa-sim/1", "machine": "aurora", "messages": {"rendezvous": 0}})"),
              HasSubstr("$.messages.rendezvous: 0, expected a number of latencies above 0"));
  EXPECT_THAT(message(R"({"schema": "tapa-sim/1", "machine": "nowhere"})"),
              HasSubstr("machine \"nowhere\" is unknown"));
  EXPECT_THAT(message(R"({"schema": "tapa-sim/1"})"), HasSubstr("key \"machine\" is missing"));
  EXPECT_THROW((void)load_simulated("nowhere"), std::invalid_argument);
}

}  // namespace
}  // namespace tapa::sim
