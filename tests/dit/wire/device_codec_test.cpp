#include <gtest/gtest.h>

#include "codec_cases.hpp"
#include "host_warp.hpp"

namespace dit {
namespace {

class HostRunner final : public CaseRunner {
 public:
  void run(bool encode, LaneFormat format, CodeJob job, CaseData& data) override {
    // Vectors begin at multiples of 16, as device memory does.
    point_to(job, data,
             {data.tensor.data(), reinterpret_cast<std::uint8_t*>(data.code.data()) + data.code_shift,
              data.rows.data(), data.value.data(), data.digits.data(), data.change.data()});
    CodeJobs jobs;
    jobs.count = 1;
    jobs.segments = job.segments;
    jobs.job[0] = job;
    run_on_host(encode ? CodeWork::encode : CodeWork::decode, format, !data.value.empty(), jobs);
  }
};

TEST(DeviceCodec, GivesTheProcessorsBits) {
  HostRunner runner;
  for (const CodecCase& of : codec_cases(false)) {
    EXPECT_EQ(check_case(of, runner), "");
  }
}

}  // namespace
}  // namespace dit
