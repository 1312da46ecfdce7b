#include "profile/image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../message_of.hpp"

namespace dit {
namespace {

using testing::ElementsAre;

Image plain(std::int64_t width, std::int64_t height, std::uint8_t value) {
  return {width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3), value)};
}
std::vector<int> pixel(const Image& image, std::int64_t x, std::int64_t y) {
  const auto at = static_cast<std::size_t>((y * image.width + x) * 3);
  return {image.rgb.at(at), image.rgb.at(at + 1), image.rgb.at(at + 2)};
}
TEST(ColourMap, IsViridis) {
  const std::vector<float> field = {-5, 0, 0.5, 1, 9, std::nanf("")};
  const Image image = colour_map(field, 2, 3, 0, 1);
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.height, 2);
  EXPECT_THAT(pixel(image, 0, 0), ElementsAre(68, 1, 84));
  EXPECT_EQ(pixel(image, 1, 0), pixel(image, 0, 0));
  EXPECT_THAT(pixel(image, 2, 0), ElementsAre(33, 145, 140));  // matplotlib's viridis(0.5)
  EXPECT_THAT(pixel(image, 0, 1), ElementsAre(253, 231, 37));
  EXPECT_EQ(pixel(image, 1, 1), pixel(image, 0, 1));
  EXPECT_THAT(pixel(image, 2, 1), ElementsAre(255, 255, 255)) << "what is no number has no colour";
}

TEST(ColourMap, GetsBrighterEverywhere) {
  std::vector<float> field(256);
  for (std::size_t i = 0; i < field.size(); ++i) field[i] = static_cast<float>(i) / 256 + 0.001F;
  const Image image = colour_map(field, 1, 256, 0, 1);
  const auto brightness = [&](std::int64_t x) {
    const std::vector<int> p = pixel(image, x, 0);
    return 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2];
  };
  for (std::int64_t x = 8; x < 256; x += 8) EXPECT_GT(brightness(x), brightness(x - 8)) << x;
}

TEST(Grid, PutsPicturesInRows) {
  const Image image = grid({plain(2, 3, 10), plain(2, 3, 20), plain(2, 3, 30)}, 2, 1);
  EXPECT_EQ(image.width, 5);
  EXPECT_EQ(image.height, 7);
  EXPECT_EQ(pixel(image, 1, 2)[0], 10);
  EXPECT_EQ(pixel(image, 2, 0)[0], 255);
  EXPECT_EQ(pixel(image, 3, 0)[0], 20);
  EXPECT_EQ(pixel(image, 0, 3)[0], 255);
  EXPECT_EQ(pixel(image, 1, 6)[0], 30);
  EXPECT_EQ(pixel(image, 4, 6)[0], 255) << "no fourth picture";
}

TEST(Grid, OnePictureIsItself) {
  EXPECT_EQ(grid({plain(2, 3, 10)}, 7, 5), plain(2, 3, 10));
}

TEST(Difference, IsAmplified) {
  Image a = plain(1, 2, 100);
  Image b = a;
  b.rgb = {100, 110, 95, 0, 255, 100};
  EXPECT_THAT(difference(a, b, 4).rgb, ElementsAre(0, 40, 20, 255, 255, 0));
  EXPECT_THAT(difference(a, b, 0.25).rgb, ElementsAre(0, 3, 1, 25, 39, 0));
}

TEST(Images, MisuseNamesWhatIsWrong) {
  const std::vector<float> field(6);
  EXPECT_EQ(misuse_of([&] { static_cast<void>(colour_map(field, 2, 2, 0, 1)); }),
            "field has 6 values: expected 4");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(colour_map(field, -2, -3, 0, 1)); }),
            "height = -2: expected 1 to 16384");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(colour_map(field, 2, 3, 1, 1)); }),
            "low = 1.000000, high = 1.000000: expected low < high");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(grid({}, 2)); }), "images: none, expected at least 1");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(grid({plain(2, 2, 0)}, 0)); }),
            "columns = 0: expected 1 to 16384");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(grid({plain(2, 2, 0)}, 1, -1)); }),
            "gap = -1: expected 0 to 16384");
  EXPECT_EQ(misuse_of([&] {
              static_cast<void>(grid({plain(2, 2, 0), plain(2, 3, 0)}, 1));
            }),
            "image 1 is 2 x 3 pixels: expected 2 x 2, as the first");
  EXPECT_EQ(misuse_of([&] {
              static_cast<void>(grid({plain(9000, 1, 0), plain(9000, 1, 0)}, 2));
            }),
            "width of the grid = 18004: expected 1 to 16384");
  EXPECT_EQ(misuse_of([&] { static_cast<void>(difference(plain(2, 2, 0), plain(2, 2, 0), 0)); }),
            "gain = 0.000000: expected a number above 0");
  Image bad = plain(2, 2, 0);
  bad.rgb.pop_back();
  EXPECT_EQ(misuse_of([&] { static_cast<void>(difference(plain(2, 2, 0), bad, 1)); }),
            "image b has 11 values: expected 12 for 2 x 2 pixels");
}

}  // namespace
}  // namespace dit
