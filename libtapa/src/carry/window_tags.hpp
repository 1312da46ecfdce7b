/// @file
/// What the tags of an operation's window are for.
#pragma once

namespace tapa::window_tags {

inline constexpr int kCheck = 0;
inline constexpr int kVerdict = 1;
inline constexpr int kCounts = 2;
inline constexpr int kSums = 3;
inline constexpr int kArrivals = 4;
inline constexpr int kAgree = 5;
inline constexpr int kPlan = 6;  ///< the first of the plan's channels

}  // namespace tapa::window_tags
