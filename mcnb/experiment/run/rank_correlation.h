#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mcnb/experiment/run/experiment.h"

namespace mcnb {

// Spearman's rank correlation of two lists of equal length; equal values share their mean rank.
// 1 if all values are equal in both lists, 0 if they are equal in one.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

// How far a policy with one value of an option ranks the arms as it does with the first value.
struct RankAgreement {
  std::string value;         // of the option
  double correlation = 0.0;  // mean of the rank correlations with the first value's scores
  double same_choice = 0.0;  // share of the rounds with the same choice
};

// At most this many rounds are played, and every kRankStride-th of them is compared.
inline constexpr std::uint64_t kRankRounds = 2'000;
inline constexpr std::uint64_t kRankStride = 20;

// Plays the first policy. At every `stride`-th round all policies score the arms in its state.
// The policies differ in the value of one option: `values` has one value for each policy. Returns
// an empty list if `control` stops it.
std::vector<RankAgreement> compare_ranks(const Experiment& experiment,
                                         const std::vector<PolicySpec>& specs,
                                         const std::vector<std::string>& values,
                                         std::uint64_t stride, const RunControl& control);

}  // namespace mcnb
