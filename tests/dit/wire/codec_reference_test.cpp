// References: what both ends of a stream remember of the steps before.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "codec_tensors.hpp"
#include "wire/codec.hpp"

namespace dit {
namespace {

using namespace codec_test;

struct End {
  End(std::size_t numbers, float how_far)
      : value(numbers), digits(numbers), change(how_far > 0 ? numbers : 0), momentum(how_far) {}
  std::vector<std::uint16_t> value;
  std::vector<std::uint8_t> digits, change;
  float momentum;
  [[nodiscard]] WireReference reference() { return {value, digits, change, momentum}; }
};

// Both ends of one stream.
struct Stream {
  Stream(Shape of, WireFormat how, float momentum)
      : shape(of),
        codec(how, WireElement::fp32),
        sender(of.elements(), momentum),
        receiver(of.elements(), momentum) {}
  std::vector<float> send(const std::vector<float>& x, bool residual) {
    std::vector<std::byte> code(codec.encoded_bytes(shape.rows, shape.row)), came(x.size() * 4), out(came);
    codec.encode(shape.rows, shape.row, tensor_of(x, WireElement::fp32), sender.reference(), residual, code,
                 came);
    codec.decode(shape.rows, shape.row, code, receiver.reference(), residual, out);
    EXPECT_EQ(came, out);
    EXPECT_EQ(sender.value, receiver.value);
    EXPECT_EQ(sender.digits, receiver.digits);
    EXPECT_EQ(sender.change, receiver.change);
    return floats_of(out, WireElement::fp32);
  }
  Shape shape;
  Codec codec;
  End sender, receiver;
};

TEST(Reference, BothEndsAgreeAfterAnySteps) {
  std::mt19937 random(11);
  for (const Shape shape : kShapes) {
    for (const float momentum : {0.0F, 0.75F}) {
      for (const WireElement element : {WireElement::fp32, WireElement::bf16, WireElement::fp16}) {
        End sender(shape.elements(), momentum);
        End receiver = sender;
        std::vector<float> x = normal_values(shape.elements(), 1);
        for (int step = 0; step < 30; ++step) {
          const std::vector<float> moved =
              normal_values(shape.elements(), static_cast<std::uint32_t>(step), 0.1F);
          for (std::size_t i = 0; i < x.size(); ++i) x[i] += moved[i];
          const CodecKernels& here = *codec_kernels()[random() % codec_kernels().size()];
          const CodecKernels& there = *codec_kernels()[random() % codec_kernels().size()];
          std::vector<std::byte> out(shape.elements() * bytes_of(element)), came(out.size());
          if (random() % 8 == 0) {
            extrapolate(sender.reference(), element, came, here);
            extrapolate(receiver.reference(), element, out, there);
          } else {
            const WireFormat format = kFormats[random() % std::size(kFormats)];
            const bool residual = random() % 2 == 0;
            const Codec write(format, element, here);
            std::vector<std::byte> code(write.encoded_bytes(shape.rows, shape.row));
            write.encode(shape.rows, shape.row, tensor_of(x, element), sender.reference(), residual, code,
                         came);
            Codec(format, element, there)
                .decode(shape.rows, shape.row, code, receiver.reference(), residual, out);
          }
          ASSERT_EQ(sender.value, receiver.value);
          ASSERT_EQ(sender.digits, receiver.digits);
          ASSERT_EQ(sender.change, receiver.change);
          ASSERT_EQ(out, came);
        }
      }
    }
  }
}

// What a step leaves out the next ones bring.
TEST(Reference, FeedbackBringsWhatIsMissing) {
  const Shape shape{16, 32};
  const std::vector<float> x = normal_values(shape.elements(), 3);
  for (const WireFormat format : {WireFormat::int8, WireFormat::int4, WireFormat::int2, WireFormat::int1}) {
    Stream stream(shape, format, 0);
    std::vector<float> came;
    for (int step = 0; step < 100; ++step) came = stream.send(x, true);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(came[i], x[i], 0.02) << to_string(format);
  }
}

// With momentum 1 what moves evenly is foreseen.
TEST(Reference, MomentumForesees) {
  End end(64, 1);
  const Codec full(WireFormat::full, WireElement::fp32);
  for (const float now : {1.0F, 3.0F}) {
    std::vector<std::byte> code(256);
    full.encode(2, 32, tensor_of(std::vector<float>(64, now), WireElement::fp32), end.reference(), false,
                code);
  }
  std::vector<std::byte> out(256);
  extrapolate(end.reference(), WireElement::fp32, out);
  EXPECT_EQ(floats_of(out, WireElement::fp32), std::vector<float>(64, 5.0F));
}

// What is remembered is rounded, what arrives is not: it is as near as the residual's format brings it.
TEST(Reference, RoundingIsNotSeen) {
  const Shape shape{32, 64};
  const std::vector<float> x = normal_values(shape.elements(), 3);
  Stream stream(shape, WireFormat::int8, 0.5F);
  std::vector<float> came;
  for (int step = 0; step < 20; ++step) came = stream.send(x, true);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(came[i], x[i], 1e-6);
}

// A byte for what moved: from 2^-39 to 2^23 within a quarter, signs and zeros as they are.
TEST(Reference, ChangesInAByte) {
  for (int power = -38; power < 23; ++power) {
    for (const float part : {1.0F, 1.2F, -1.3F, 1.49F, -1.7F, 1.99F}) {
      const float change = std::ldexp(part, power);
      End end(32, 1);
      const Codec full(WireFormat::full, WireElement::fp32);
      std::vector<std::byte> code(128), out(128);
      for (const float times : {1.0F, 2.0F}) {  // from nothing to the first one is no movement
        const std::vector<float> values(32, times * change);
        full.encode(1, 32, tensor_of(values, WireElement::fp32), end.reference(), false, code);
        EXPECT_EQ(end.change[0] == 0, times == 1.0F);
      }
      extrapolate(end.reference(), WireElement::fp32, out);
      for (const float next : floats_of(out, WireElement::fp32)) {
        EXPECT_NEAR(next / change, 3, 0.26) << change;
      }
    }
  }
  End end(1, 1);
  for (const float value : {1e-10F, 1e-10F, 1.001e-10F}) {  // the last one: too little
    kPortableKernels.replace(&value, 1, parts_of(end.reference()));
    EXPECT_EQ(end.change[0] & 0x7f, 0);
  }
}

// What is not finite shows in its step, and the next one is as if it had never been.
TEST(Reference, RecoversFromWhatIsNotFinite) {
  const Shape shape{3, 32};
  for (const float broken : {kNan, kInfinity, -kInfinity}) {
    for (const WireFormat format : kFormats) {
      for (const bool residual : {false, true}) {
        for (const float momentum : {0.0F, 0.75F}) {
          SCOPED_TRACE(std::string(to_string(format)) + (residual ? " residual of " : " of ") +
                       std::to_string(broken));
          Stream stream(shape, format, momentum);
          std::vector<float> x = normal_values(96, 1);
          for (int step = 0; step < 40; ++step) stream.send(x, residual);
          const std::vector<float> before = stream.send(x, residual);
          const float sound = std::exchange(x[40], broken);
          for (int step = 0; step < 2; ++step) {
            EXPECT_FALSE(std::isfinite(stream.send(x, residual)[40]));
          }
          x[40] = sound;
          stream.send(x, residual);
          const std::vector<float> after = stream.send(x, residual);
          for (std::size_t i = 0; i < 96; ++i) EXPECT_NEAR(after[i], before[i], 0.3) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dit
