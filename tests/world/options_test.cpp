#include "world/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace tapa {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Options from(std::vector<const char*> environment, std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> ignored;
  environment.push_back(nullptr);
  return Options::from_environment(environment.data(), warnings != nullptr ? *warnings : ignored);
}

std::string error_of(const char* entry) {
  try {
    from({entry});
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(Options, EveryDefaultIsAcceptedAndListed) {
  const Options options;
  for (const OptionInfo& info : option_table()) {
    EXPECT_EQ(options.text(info.name), info.standard);
    EXPECT_EQ(options.origin(info.name), Origin::standard);
    EXPECT_TRUE(info.variable.empty() || info.variable.starts_with("TAPA_")) << info.variable;
    EXPECT_FALSE(info.help.empty());
    EXPECT_FALSE(info.allowed.empty());
  }
}

TEST(Options, TakesTheEnvironment) {
  const Options options =
      from({"HOME=/", "TAPA_CHECK=1", "TAPA_TIMEOUT=2.5", "TAPA_EXPLAIN=on", "TAPA_LOG=debug",
            "TAPA_PLAN=bruck:radix=4", "TAPA_TOPOLOGY=2x3", "TAPA_ENABLE=0", "TAPA_REPORT=yes",
            "TAPA_GPU=host", "TAPA_GPU_WIRE=staging"});
  const Settings& s = options.settings();
  EXPECT_EQ(s.check, Check::counts);
  EXPECT_DOUBLE_EQ(s.timeout, 2.5);
  EXPECT_TRUE(s.explain);
  EXPECT_EQ(s.report, Reporting::on);
  EXPECT_FALSE(s.enable);
  EXPECT_EQ(s.gpu, GpuBuffers::host);
  EXPECT_EQ(s.gpu_wire, GpuWire::staging);
  EXPECT_EQ(s.log, LogLevel::debug);
  EXPECT_FALSE(s.strict_plan);
  EXPECT_EQ(s.topology, "2x3");
  EXPECT_EQ(s.plan.value().flat.radix, 4);
  EXPECT_EQ(options.text("check"), "1");
  EXPECT_EQ(options.origin("check"), Origin::environment);
}

TEST(Options, ReportIsOnOffOrPassive) {
  EXPECT_EQ(from({"TAPA_REPORT=1"}).settings().report, Reporting::on);
  EXPECT_EQ(from({"TAPA_REPORT=no"}).settings().report, Reporting::off);
  EXPECT_EQ(from({"TAPA_REPORT=passive"}).settings().report, Reporting::passive);
  EXPECT_EQ(from({"TAPA_REPORT=passive,json"}).settings().report, Reporting::passive);
  EXPECT_EQ(from({"TAPA_REPORT=1,json"}).settings().report, Reporting::on);
}

TEST(Options, EmptyVariablesCountAsUnset) {
  const Options options = from({"TAPA_CHECK=", "TAPA_PLAN="});
  EXPECT_EQ(options.origin("check"), Origin::standard);
  EXPECT_FALSE(options.settings().plan.has_value());
}

TEST(Options, WrongValuesNameVariableValueAndExpectation) {
  EXPECT_EQ(error_of("TAPA_CHECK=all"), "TAPA_CHECK is \"all\", expected off|mpi|args|counts|data");
  EXPECT_EQ(error_of("TAPA_TIMEOUT=-1"), "TAPA_TIMEOUT is \"-1\", expected a number of seconds, 0 or more");
  EXPECT_EQ(error_of("TAPA_TIMEOUT=5s"), "TAPA_TIMEOUT is \"5s\", expected a number of seconds, 0 or more");
  EXPECT_EQ(error_of("TAPA_TIMEOUT=inf"), "TAPA_TIMEOUT is \"inf\", expected a number of seconds, 0 or more");
  EXPECT_EQ(error_of("TAPA_EXPLAIN=2"), "TAPA_EXPLAIN is \"2\", expected 0 or 1");
  EXPECT_EQ(error_of("TAPA_REPORT=2"),
            "TAPA_REPORT is \"2\", expected 0, 1 or passive, maybe with ,json behind it");
  EXPECT_EQ(error_of("TAPA_LOG=loud"), "TAPA_LOG is \"loud\", expected off|error|warn|info|debug");
  EXPECT_EQ(error_of("TAPA_CHECK=mpi,plans"),
            "TAPA_CHECK is \"mpi,plans\", expected off|mpi|args|counts|data");
  EXPECT_EQ(error_of("TAPA_TIMEOUT=0,x"), "TAPA_TIMEOUT is \"0,x\", expected a number of seconds, 0 or more");
  EXPECT_EQ(error_of("TAPA_ENABLE=memory"), "TAPA_ENABLE is \"memory\", expected 0 or 1");
  EXPECT_EQ(error_of("TAPA_PROGRESS=magic"), "TAPA_PROGRESS is \"magic\", expected auto|hook|thread|none");
  EXPECT_EQ(error_of("TAPA_GPU=on"), "TAPA_GPU is \"on\", expected auto|mpi|stage|host|else-mpi|else-stage");
  EXPECT_EQ(error_of("TAPA_GPU_WIRE=tcp"),
            "TAPA_GPU_WIRE is \"tcp\", expected auto|nccl|mpi|staging|sockets|host");
  EXPECT_EQ(error_of("TAPA_CACHE=1"),
            "TAPA_CACHE is \"1\", expected 0 or the path of a file, with a / in it");
  EXPECT_EQ(error_of("TAPA_CACHE=learnt.json"),
            "TAPA_CACHE is \"learnt.json\", expected 0 or the path of a file, with a / in it");
  EXPECT_THAT(error_of("TAPA_PLAN=teleport"),
              HasSubstr("TAPA_PLAN is \"teleport\", expected auto, model or an algorithm"));
}

TEST(Options, UnknownVariablesAreWarnedAboutWithTheNearestSpelling) {
  std::vector<std::string> warnings;
  from({"TAPA_CHEK=1", "TAPA_TIMOUT=3", "TAPA_XYZZY_FOO=1", "NOT_TAPA=1", "TAPA_BROKEN", "TAPA_DEVICE_NODE=a",
        "TAPA_SOCKET_IFNAME=a", "TAPA_GPU_PEERS=0"},
       &warnings);
  EXPECT_THAT(warnings, ElementsAre("unknown variable TAPA_CHEK, did you mean TAPA_CHECK?",
                                    "unknown variable TAPA_TIMOUT, did you mean TAPA_TIMEOUT?",
                                    "unknown variable TAPA_XYZZY_FOO"));
}

TEST(Options, OneVariableMaySayTwoThings) {
  EXPECT_TRUE(from({"TAPA_CHECK=data,plan"}).settings().strict_plan);
  EXPECT_EQ(from({"TAPA_CHECK=1,plan"}).settings().check, Check::counts);
  EXPECT_FALSE(from({"TAPA_CHECK=data"}).settings().strict_plan);
  EXPECT_DOUBLE_EQ(from({"TAPA_TIMEOUT=2,60"}).settings().timeout, 2);
  EXPECT_FALSE(from({"TAPA_PLAN=model"}).settings().adapt);
  EXPECT_FALSE(from({"TAPA_PLAN=model"}).settings().plan);
  EXPECT_TRUE(from({"TAPA_PLAN=auto"}).settings().adapt);
  EXPECT_TRUE(from({"TAPA_ENABLE=alloc-mem"}).settings().enable);
  EXPECT_TRUE(from({"TAPA_GPU=else-mpi"}).settings().mpi_takes_gpu_memory(false));
  EXPECT_FALSE(from({"TAPA_GPU=else-stage"}).settings().mpi_takes_gpu_memory(true));
  EXPECT_TRUE(from({}).settings().mpi_takes_gpu_memory(true));
}

TEST(Options, ThoseOfEarlierVersionsSayWhatToWriteInstead) {
  std::vector<std::string> warnings;
  const Options options = from({"TAPA_FALLBACK=error", "TAPA_AGREE_TIMEOUT=3", "TAPA_WAIT=sleep"}, &warnings);
  EXPECT_THAT(warnings,
              ElementsAre("TAPA_FALLBACK is no option any more, write TAPA_CHECK=mpi,plan for error",
                          "TAPA_AGREE_TIMEOUT is no option any more, write TAPA_TIMEOUT=0,SECONDS",
                          "TAPA_WAIT is an option of the tuning file: TAPA_TUNING=FILE.json, in it "
                          R"({"format": "tapa-tuning/1", "options": {"wait": VALUE}})"));
  EXPECT_EQ(options.settings().wait, Wait::automatic);
  try {
    Options().set("gpu-mpi", "yes", Origin::call);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(
        e.what(),
        "gpu-mpi is no option any more, write TAPA_GPU=else-mpi for yes, TAPA_GPU=else-stage for no");
  }
}

TEST(Options, TheTuningFileHasThoseThatAreNoVariables) {
  Options options;
  options.take_file({{"wait", "sleep"}, {"keep", "1000"}}, "t.json");
  EXPECT_EQ(options.settings().wait, Wait::sleep);
  EXPECT_EQ(options.settings().keep, 1000U);
  EXPECT_EQ(options.origin("wait"), Origin::file);
  EXPECT_EQ(Options::deserialize(options.serialize()).origin("wait"), Origin::standard);  // the file travels
  const auto refused = [](const char* name, const char* value) {
    try {
      Options().take_file({{name, value}}, "t.json");
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused("wait", "busy"),
            "tuning file t.json: $.options: wait is \"busy\", expected auto|spin|yield|sleep");
  EXPECT_EQ(refused("plan", "mpi"), "tuning file t.json: $.options: \"plan\" is no option of this file");
  EXPECT_EQ(refused("fast", "1"), "tuning file t.json: $.options: \"fast\" is no option of this file");
}

TEST(Options, SetByNameKeepsTheOldValueWhenTheNewOneIsWrong) {
  Options options;
  options.set("check", "data", Origin::call);
  EXPECT_EQ(options.settings().check, Check::data);
  EXPECT_EQ(options.origin("check"), Origin::call);
  try {
    options.set("check", "everything", Origin::call);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "option \"check\" is \"everything\", expected off|mpi|args|counts|data");
  }
  EXPECT_EQ(options.settings().check, Check::data);
  EXPECT_EQ(options.text("check"), "data");
}

TEST(Options, UnknownNamesSuggestTheNearest) {
  Options options;
  try {
    options.set("enabel", "0", Origin::call);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "unknown option \"enabel\", did you mean enable?");
  }
  EXPECT_THROW((void)options.text("nothing-like-it"), std::invalid_argument);
}

TEST(Options, TravelAsBytes) {
  const Options sent = from({"TAPA_CHECK=data", "TAPA_PLAN=linear:window=3", "TAPA_TIMEOUT=9"});
  const Options got = Options::deserialize(sent.serialize());
  for (const OptionInfo& info : option_table()) {
    EXPECT_EQ(got.text(info.name), sent.text(info.name));
    EXPECT_EQ(got.origin(info.name), sent.origin(info.name));
  }
  EXPECT_EQ(got.settings().plan, sent.settings().plan);
}

TEST(Options, CutBytesAreAnError) {
  const std::string bytes = from({"TAPA_CHECK=data"}).serialize();
  for (std::size_t n = 1; n < bytes.size(); ++n) {
    EXPECT_THROW(Options::deserialize(bytes.substr(0, n)), std::invalid_argument) << n;
  }
}

}  // namespace
}  // namespace tapa
