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
    list.push_back({vendor, {"GPU " + std::to_string(g), "pci" + std::to_string(g), -1, g, -1}, tiles});
  return list;
}

/// PCI addresses of `count` GPUs, as gpus() has them.
CudaView cuda_of(int count) {
  CudaView view;
  for (int g = 0; g < count; ++g)
    view.gpus.push_back({"pci" + std::to_string(g), "A", "GPU-" + std::to_string(g) + "f3c", false, {}});
  return view;
}

TEST(ChosenGpu, Nvidia) {
  const auto list = gpus(GpuVendor::nvidia, 8, 1);
  const auto chosen = [&](const std::string& value, const CudaView& cuda = cuda_of(8)) {
    return chosen_gpu(list, environment({{"CUDA_VISIBLE_DEVICES", value}}), cuda).gpu.gpu;
  };
  EXPECT_EQ(chosen("5"), 5);
  EXPECT_EQ(chosen("GPU-3f3c"), 3);
  EXPECT_EQ(chosen("GPU-6"), 6);
  EXPECT_EQ(chosen("2,-1,4"), 2);
  for (const char* const value : {"8", "0,1", "-1", "GPU-1234", "GPU-", "MIG-1"})
    EXPECT_EQ(chosen(value), -1) << value;
  // Of several, the one that is in use.
  CudaView busy = cuda_of(8);
  busy.current = "pci7";
  EXPECT_EQ(chosen("0,7", busy), 7);
  EXPECT_EQ(chosen("what is this", busy), 7);
  busy.current = "pci8";
  EXPECT_EQ(chosen("0,7", busy), -1);
  // A container, or a batch system, that lets the process use some of them: numbers count those.
  CudaView some = cuda_of(8);
  some.gpus.erase(some.gpus.begin(), some.gpus.begin() + 6);
  EXPECT_EQ(chosen("0", some), 6);
  EXPECT_EQ(chosen("5", some), -1);
  EXPECT_EQ(chosen("0", {}), -1);  // nothing is known of them

  EXPECT_EQ(chosen_gpu(list, environment({}), cuda_of(8)).gpu.gpu, -1);
  EXPECT_EQ(chosen_gpu(list, environment({}), busy).gpu.gpu, -1);
  const auto one = gpus(GpuVendor::nvidia, 1, 1);
  EXPECT_EQ(chosen_gpu(one, environment({}), cuda_of(1)).gpu.gpu, -1);  // may be a CPU program
  EXPECT_EQ(chosen_gpu({}, environment({{"CUDA_VISIBLE_DEVICES", "0"}}), cuda_of(1)).gpu.gpu, -1);
}

TEST(ChosenGpu, WhyItIsNotKnownIsSaid) {
  const auto list = gpus(GpuVendor::nvidia, 8, 1);
  const auto why = [&](const std::string& value, const CudaView& cuda) {
    return chosen_gpu(list, environment({{"CUDA_VISIBLE_DEVICES", value}}), cuda).problem;
  };
  EXPECT_EQ(why("1", cuda_of(8)), "");
  EXPECT_EQ(why("1,0", cuda_of(8)), "it shows 2 GPUs, and the process uses none yet");
  EXPECT_EQ(why("-1", cuda_of(8)), "it shows no GPU");
  EXPECT_THAT(why("0,0", cuda_of(8)), HasSubstr("twice"));
  EXPECT_EQ(why("0", {{}, "no NVML", ""}), "no NVML");
  EXPECT_EQ(why("0", {{}, "", "pci9"}), "it shows pci9, which hwloc does not");
}

TEST(ChosenGpu, Amd) {
  const auto list = gpus(GpuVendor::amd, 8, 1);
  EXPECT_EQ(chosen_gpu(list, environment({{"HIP_VISIBLE_DEVICES", "2"}}), {}).gpu.gpu, 2);
  EXPECT_EQ(chosen_gpu(list, environment({{"ROCR_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", "0"}}), {})
                .gpu.gpu,
            3);
}

TEST(ChosenGpu, IntelTiles) {
  const auto list = gpus(GpuVendor::intel, 6, 2);
  const Gpu tile = chosen_gpu(list, environment({{"ZE_AFFINITY_MASK", "4.1"}}), {}).gpu;
  EXPECT_EQ(tile.gpu, 4);
  EXPECT_EQ(tile.tile, 1);
  EXPECT_EQ(tile.name, "GPU 4 tile 1");
  const Gpu flat = chosen_gpu(list, environment({{"ZE_AFFINITY_MASK", "9"}}), {}).gpu;
  EXPECT_EQ(flat.gpu, 4);
  EXPECT_EQ(flat.tile, 1);
  const Gpu whole =
      chosen_gpu(list, environment({{"ZE_AFFINITY_MASK", "4"}, {"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"}}),
                 {})
          .gpu;
  EXPECT_EQ(whole.gpu, 4);
  EXPECT_EQ(whole.tile, -1);
  for (const char* bad : {"4.2", "6.0", "12", "x", "1.", ".1", "0.0,0.1"}) {
    EXPECT_EQ(chosen_gpu(list, environment({{"ZE_AFFINITY_MASK", bad}}), {}).gpu.gpu, -1) << bad;
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
  ASSERT_TRUE(add_hwloc(environment({}), {}, record));
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
    ASSERT_TRUE(add_hwloc(environment({{"ZE_AFFINITY_MASK", mask}}), {}, record));
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

/// The same with GPUs of NVIDIA's: numbers go by PCI address, as they are of one model; NVML knows only this
/// machine.
TEST(Hwloc, GpusOfAnotherMachineByNumber) {
  std::ifstream in(TAPA_TEST_DATA "/two-gpus.xml");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto replace = [&](const std::string& old, const std::string& by) {
    for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size())
      text.replace(at, old.size(), by);
  };
  replace("[8086:0bd5]", "[10de:2335]");
  replace("0380", "0302");
  const std::string path = testing::TempDir() + "tapa-nvidia.xml";
  const auto record_of = [&](const char* visible) {
    std::ofstream(path) << text;
    const Variable xml("HWLOC_XMLFILE", path);
    Record record;
    EXPECT_TRUE(add_hwloc(environment({{"CUDA_VISIBLE_DEVICES", visible}}), cuda_of(8), record));
    std::filesystem::remove(path);
    return record;
  };
  EXPECT_EQ(record_of("1").gpu.pci, "0000:82:00.0");
  EXPECT_EQ(record_of("1").gpu.numa, 1);
  EXPECT_EQ(record_of("0").gpu.pci, "0000:12:00.0");
  EXPECT_EQ(record_of("GPU-1f3c").gpu.gpu, -1);
  EXPECT_THAT(record_of("1,0").sources[0].detail,
              HasSubstr("not known: it shows 2 GPUs, and the process uses none yet; not of this machine"));
  text.replace(text.find("2335"), 4, "20b0");
  EXPECT_EQ(record_of("1").gpu.gpu, -1);
}

TEST(Hwloc, BrokenXmlIsReported) {
  const std::string path = testing::TempDir() + "tapa-broken.xml";
  std::ofstream(path) << "<topology><object type=";
  const Variable xml("HWLOC_XMLFILE", path);
  const Variable quiet("HWLOC_HIDE_ERRORS", "2");
  Record record;
  const bool added = add_hwloc(environment({}), {}, record);
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
  EXPECT_FALSE(add_hwloc(environment({}), {}, record));
  EXPECT_THAT(record.sources[0].detail, HasSubstr("not built in"));
}

#endif

}  // namespace
}  // namespace tapa
