// The device of a rank, and hwloc on machines described by XML and by synthetic text.
#include "topology/gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "topology/detect.hpp"
#include "topology/hwloc_source.hpp"

namespace tapa {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Environment environment(const std::map<std::string, std::string>& values) {
  return [values](const char* name) {
    const auto at = values.find(name);
    return at == values.end() ? std::string() : at->second;
  };
}

std::vector<GpuEntry> gpus(GpuVendor vendor, int count, int tiles) {
  std::vector<GpuEntry> list;
  for (int g = 0; g < count; ++g)
    list.push_back({vendor, {"GPU " + std::to_string(g), "", -1, g, -1}, tiles});
  return list;
}

TEST(ChosenGpu, Nvidia) {
  const auto list = gpus(GpuVendor::nvidia, 8, 1);
  EXPECT_EQ(chosen_gpu(list, environment({{"CUDA_VISIBLE_DEVICES", "5"}})).gpu, 5);
  EXPECT_EQ(chosen_gpu(list, environment({{"CUDA_VISIBLE_DEVICES", "8"}})).gpu, -1);
  EXPECT_EQ(chosen_gpu(list, environment({{"CUDA_VISIBLE_DEVICES", "0,1"}})).gpu, -1);
  EXPECT_EQ(chosen_gpu(list, environment({{"CUDA_VISIBLE_DEVICES", "-1"}})).gpu, -1);
  EXPECT_EQ(chosen_gpu(list, environment({{"CUDA_VISIBLE_DEVICES", "GPU-1234"}})).gpu, -1);
  EXPECT_EQ(chosen_gpu(list, environment({})).gpu, -1);
  EXPECT_EQ(chosen_gpu(gpus(GpuVendor::nvidia, 1, 1), environment({})).gpu, -1);  // may be a CPU program
  EXPECT_EQ(chosen_gpu({}, environment({{"CUDA_VISIBLE_DEVICES", "0"}})).gpu, -1);
}

TEST(ChosenGpu, Amd) {
  const auto list = gpus(GpuVendor::amd, 8, 1);
  EXPECT_EQ(chosen_gpu(list, environment({{"HIP_VISIBLE_DEVICES", "2"}})).gpu, 2);
  EXPECT_EQ(chosen_gpu(list, environment({{"ROCR_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", "0"}})).gpu,
            3);
}

TEST(ChosenGpu, IntelTiles) {
  const auto list = gpus(GpuVendor::intel, 6, 2);
  const Gpu tile = chosen_gpu(list, environment({{"ZE_AFFINITY_MASK", "4.1"}}));
  EXPECT_EQ(tile.gpu, 4);
  EXPECT_EQ(tile.tile, 1);
  EXPECT_EQ(tile.name, "GPU 4 tile 1");
  const Gpu flat = chosen_gpu(list, environment({{"ZE_AFFINITY_MASK", "9"}}));
  EXPECT_EQ(flat.gpu, 4);
  EXPECT_EQ(flat.tile, 1);
  const Gpu whole =
      chosen_gpu(list, environment({{"ZE_AFFINITY_MASK", "4"}, {"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"}}));
  EXPECT_EQ(whole.gpu, 4);
  EXPECT_EQ(whole.tile, -1);
  for (const char* bad : {"4.2", "6.0", "12", "x", "1.", ".1", "0.0,0.1"}) {
    EXPECT_EQ(chosen_gpu(list, environment({{"ZE_AFFINITY_MASK", bad}})).gpu, -1) << bad;
  }
}

#ifdef TAPA_HAVE_HWLOC

/// Sets a variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Hwloc, SyntheticMachine) {
  const Variable synthetic("HWLOC_SYNTHETIC", "pack:2 numa:2 l3:1 core:4 pu:2");
  Record record;
  ASSERT_TRUE(add_hwloc(environment({}), record));
  EXPECT_EQ(record.cores, 16);
  EXPECT_EQ(record.bound_cores, 0);  // a machine that is not this one: nothing is bound
  EXPECT_EQ(record.facts.sockets, 2);
  EXPECT_EQ(record.facts.numa_nodes, 4);
  EXPECT_EQ(record.socket, -1);  // in more than one
  EXPECT_EQ(record.numa, -1);
  EXPECT_EQ(record.allowed, "0-31");
  EXPECT_THAT(record.sources[0].detail, HasSubstr("not of this machine"));
}

/// Two sockets; on each a GPU with two tiles and two NICs, one of them behind the GPU's PCI switch.
TEST(Hwloc, NearestNicOfATile) {
  const Variable xml("HWLOC_XMLFILE", TAPA_TEST_DATA "/two-gpus.xml");
  std::vector<Record> records;
  for (const char* mask : {"0.0", "0.1", "1.0", "1.1"}) {
    Record record;
    record.node = "node";
    for (const char* name : {"0000:11:00.0", "0000:13:00.0", "0000:81:00.0", "0000:83:00.0"}) {
      record.nics.push_back({std::string("nic") + name[5] + name[6], 0, 1e9, {}, name, "verbs", -1});
    }
    ASSERT_TRUE(add_hwloc(environment({{"ZE_AFFINITY_MASK", mask}}), record));
    EXPECT_EQ(record.facts.gpus, 2);
    records.push_back(record);
  }
  EXPECT_EQ(records[1].gpu.name, "Intel 0 tile 1");
  EXPECT_EQ(records[1].gpu.pci, "0000:12:00.0");
  EXPECT_EQ(records[2].gpu.numa, 1);
  EXPECT_THAT(records[0].near, ElementsAre(0));  // the one behind the same switch
  EXPECT_THAT(records[3].near, ElementsAre(2));
  EXPECT_EQ(records[0].nics[3].numa, 1);
  const Topology t = merge_records(records);
  EXPECT_EQ(t.check(), "");
  ASSERT_EQ(t.levels.size(), 2u);
  EXPECT_EQ(t.levels[0].name, "tile");
  EXPECT_THAT(t.levels[0].group, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(t.rails, ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(2), ElementsAre(2)));
}

TEST(Hwloc, BrokenXmlIsReported) {
  const std::string path = testing::TempDir() + "tapa-broken.xml";
  std::ofstream(path) << "<topology><object type=";
  const Variable xml("HWLOC_XMLFILE", path);
  const Variable quiet("HWLOC_HIDE_ERRORS", "2");
  Record record;
  const bool added = add_hwloc(environment({}), record);
  std::filesystem::remove(path);
  if (!added) {
    EXPECT_FALSE(record.sources[0].used);
    EXPECT_THAT(record.sources[0].detail, HasSubstr("failed"));
  } else {
    EXPECT_GT(record.cores, 0);  // hwloc ignored the file and looked at this machine
  }
}

#else

TEST(Hwloc, NotBuiltIn) {
  Record record;
  EXPECT_FALSE(add_hwloc(environment({}), record));
  EXPECT_THAT(record.sources[0].detail, HasSubstr("not built in"));
}

#endif

}  // namespace
}  // namespace tapa
