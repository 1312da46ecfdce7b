// A job of norm and RoPE over random numbers, and what it gives in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "dit/dit.h"
#include "transfer/device/prepare.hpp"

namespace dit::test {

struct Setting {
  int samples, rows, heads, head_dim;
  Norm norm;
  Rope rope;
  bool round_norm, weights_fp32;
  bool own_angles = false;  // of each head of each row
};

template <class Element>
class Job {
 public:
  explicit Job(const Setting& setting) : setting_(setting), random_(7) {
    const int row = setting.heads * setting.head_dim;
    source_ = numbers(static_cast<std::size_t>(setting.samples * setting.rows * (row + 8)));
    target_.resize(static_cast<std::size_t>(setting.samples * setting.rows * row));
    const auto weights = static_cast<std::size_t>(setting.norm == Norm::token ? row : setting.head_dim);
    weight_ = numbers(2 * weights);
    std::uniform_real_distribution<float> angle(-4, 4);
    for (Element number : weight_) weight_fp32_.push_back(to_float(number) + 0.001F);
    const int rows = setting.own_angles ? setting.samples * setting.rows * setting.heads : setting.rows + 5;
    const auto table = static_cast<std::size_t>(rows * (setting.head_dim / 2));
    for (std::size_t i = 0; i < table; ++i) {
      const float turned = angle(random_);
      cosine_.push_back(std::cos(turned));
      sine_.push_back(std::sin(turned));
    }
    fill();
  }

  void run() {
    const int type = sizeof(Element) == 4            ? DIT_ELEMENT_FP32
                     : std::is_same_v<Element, Bf16> ? DIT_ELEMENT_BF16
                                                     : DIT_ELEMENT_FP16;
    prepare_on_host(job_, type);
  }

  // Greatest difference from double precision: of a number's own rounding (`half` of the spacing of numbers,
  // of its size at most), and of what fp32 loses at the row's greatest number.
  [[nodiscard]] double off(double half) const {
    double most = 0;
    for (int sample = 0; sample < setting_.samples; ++sample)
      for (int row = 0; row < setting_.rows; ++row) {
        const std::vector<double> expected = exact(sample, row);
        double scale = 0;
        for (const double number : expected) scale = std::max(scale, std::abs(number));
        for (std::size_t i = 0; i < expected.size(); ++i)
          most = std::max(most, std::abs(to_float(at(sample, row, i)) - expected[i]) /
                                    (std::abs(expected[i]) * half + scale * 0x1p-20));
      }
    return most;
  }

  [[nodiscard]] Element at(int sample, int row, std::size_t number) const {
    const auto width = static_cast<std::size_t>(setting_.heads * setting_.head_dim);
    return target_[static_cast<std::size_t>(sample * setting_.rows + row) * width + number];
  }
  [[nodiscard]] PrepareJob& job() { return job_; }
  [[nodiscard]] std::vector<Element>& target() { return target_; }

 private:
  std::vector<Element> numbers(std::size_t count) {
    std::normal_distribution<float> normal(0, 2);
    std::vector<Element> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(Rounded<Element>::of(normal(random_)));
    return all;
  }

  // Rows 1 and 2 of a sample are text, and the tables' rows of tokens 3 and later are the image's.
  void fill() {
    const int row = setting_.heads * setting_.head_dim;
    job_.source = source_.data();
    job_.batch = std::int64_t{setting_.rows} * (row + 8);
    job_.row = row + 8;
    job_.head = setting_.head_dim;
    job_.samples = setting_.samples;
    job_.rows = setting_.rows;
    job_.heads = setting_.heads;
    job_.head_dim = setting_.head_dim;
    job_.norm = setting_.norm;
    job_.rope = setting_.rope;
    job_.round_norm = setting_.round_norm;
    job_.weights_fp32 = setting_.weights_fp32;
    job_.epsilon = 1e-6F;
    const std::size_t half = weight_.size() / 2;
    job_.weight = setting_.weights_fp32 ? static_cast<const void*>(weight_fp32_.data()) : weight_.data();
    job_.text_weight = setting_.weights_fp32 ? static_cast<const void*>(&weight_fp32_[half]) : &weight_[half];
    job_.cosine = cosine_.data();
    job_.sine = sine_.data();
    job_.text_begin = 1;
    job_.text_end = 3;
    job_.text_token = -1;
    job_.image_token = 4;
    job_.angle_token = setting_.head_dim / 2;
    if (setting_.own_angles) {
      job_.text_token = job_.image_token = 0;
      job_.angle_head = job_.angle_token * setting_.rows;  // heads before rows, as diffusers' tables are
      job_.angle_batch = job_.angle_head * setting_.heads;
    }
    job_.parts = 1;
    job_.part[0] = {
        target_.data(), std::int64_t{setting_.rows} * row, row, setting_.head_dim, 0, setting_.rows, 0,
        setting_.heads};
  }

  [[nodiscard]] bool is_text(int row) const { return row >= 1 && row < 3; }
  [[nodiscard]] double weight(int row, int head, int i) const {
    const std::size_t index =
        (is_text(row) ? weight_.size() / 2 : 0) +
        static_cast<std::size_t>((setting_.norm == Norm::token ? head * setting_.head_dim : 0) + i);
    return setting_.weights_fp32 ? weight_fp32_[index] : to_float(weight_[index]);
  }

  [[nodiscard]] std::vector<double> exact(int sample, int row) const {
    const int dim = setting_.head_dim;
    std::vector<double> x;
    for (int i = 0; i < setting_.heads * dim; ++i)
      x.push_back(to_float(source_[static_cast<std::size_t>(sample * job_.batch + row * job_.row + i)]));
    std::vector<double> normed = x;
    for (int head = 0; head < setting_.heads && setting_.norm != Norm::none; ++head) {
      const int begin = setting_.norm == Norm::token ? 0 : head * dim;
      const int count = setting_.norm == Norm::token ? setting_.heads * dim : dim;
      double squares = 0;
      for (int i = begin; i < begin + count; ++i)
        squares += x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(i)];
      const double scale = 1 / std::sqrt(squares / count + 1e-6);
      for (int i = 0; i < dim; ++i) {
        double& number = normed[static_cast<std::size_t>(head * dim + i)];
        number *= scale * weight(row, head, i);
        if (setting_.round_norm) number = to_float(Rounded<Element>::of(static_cast<float>(number)));
      }
    }
    if (setting_.rope == Rope::none) return normed;
    std::vector<double> out = normed;
    const int half = dim / 2;
    for (int head = 0; head < setting_.heads; ++head) {
      const int own = (sample * setting_.heads + head) * setting_.rows + row;
      const auto token = static_cast<std::size_t>(setting_.own_angles ? own
                                                  : is_text(row)      ? row - 1
                                                                      : row + 4);
      for (int pair = 0; pair < half; ++pair) {
        const bool halves = setting_.rope == Rope::halves;
        const auto a = static_cast<std::size_t>(head * dim + (halves ? pair : 2 * pair));
        const std::size_t b = halves ? a + static_cast<std::size_t>(half) : a + 1;
        const double c = cosine_[token * static_cast<std::size_t>(half) + static_cast<std::size_t>(pair)];
        const double s = sine_[token * static_cast<std::size_t>(half) + static_cast<std::size_t>(pair)];
        out[a] = normed[a] * c - normed[b] * s;
        out[b] = normed[b] * c + normed[a] * s;
      }
    }
    return out;
  }

  Setting setting_;
  std::mt19937 random_;
  std::vector<Element> source_, target_, weight_;
  std::vector<float> weight_fp32_, cosine_, sine_;
  PrepareJob job_{};
};

inline std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const int dim : {2, 6, 30, 64, 72, 128, 256})
    for (const Norm norm : {Norm::none, Norm::head, Norm::token})
      for (const Rope rope : {Rope::none, Rope::interleaved, Rope::halves})
        for (const bool fp32 : {false, true})
          for (const bool own : {false, true})
            settings.push_back({2, 5, 3, dim, norm, rope, false, fp32, own});
  return settings;
}

}  // namespace dit::test
