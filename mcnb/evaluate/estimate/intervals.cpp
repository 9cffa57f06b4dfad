#include "mcnb/evaluate/estimate/intervals.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

constexpr double kAlpha = 0.05;
constexpr Stream kBootstrapStream{80};

// NaN without a denominator, as in a sample in which SNIPS has no weights.
double ratio(const Fraction& sum) {
  return sum.denominator > 0.0 ? sum.numerator / sum.denominator : std::nan("");
}

// The values of l over which RunningLowerBound averages, with ln of their shares.
struct Bet {
  double rate;       // l
  double psi;        // of l
  double log_share;  // shares 1 / (k (k + 1)) of k = 1, 2, ... sum to less than 1
};
constexpr std::size_t kBets = 48;

const std::array<Bet, kBets>& bets() {
  static const std::array<Bet, kBets> kAll = [] {
    std::array<Bet, kBets> all{};
    double rate = 0.9;
    for (std::size_t k = 0; k < kBets; ++k, rate *= std::sqrt(0.5)) {
      const auto number = static_cast<double>(k + 1);
      all[k] = {rate, -std::log1p(-rate) - rate, -std::log(number * (number + 1.0))};
    }
    return all;
  }();
  return kAll;
}

// ln of the average of exp(l excess - psi(l) squares).
double log_wealth(double excess, double squares) {
  std::array<double, kBets> logs{};
  double largest = -kNoLimit;
  for (std::size_t k = 0; k < kBets; ++k) {
    const Bet& bet = bets()[k];
    logs[k] = bet.log_share + bet.rate * excess - bet.psi * squares;
    largest = std::max(largest, logs[k]);
  }
  double sum = 0.0;
  for (const double log : logs) {
    sum += std::exp(log - largest);
  }
  return largest + std::log(sum);
}

}  // namespace

void GroupedFractions::begin_group() {
  if (groups_.size() == kMostGroups) {
    for (std::size_t i = 0; i < kMostGroups / 2; ++i) {
      groups_[i] = {groups_[2 * i].numerator + groups_[2 * i + 1].numerator,
                    groups_[2 * i].denominator + groups_[2 * i + 1].denominator};
    }
    groups_.resize(kMostGroups / 2);
    size_ *= 2;
  }
  groups_.emplace_back();
  left_ = size_;
}

std::size_t GroupedFractions::room() {
  if (left_ == 0) {
    begin_group();
  }
  return left_;
}

void GroupedFractions::add_sums(const Fraction& fractions, std::size_t rounds) {
  check(rounds <= room(), "the rounds fit into their group");
  groups_.back().numerator += fractions.numerator;
  groups_.back().denominator += fractions.denominator;
  left_ -= rounds;
}

Fraction GroupedFractions::sum() const {
  Fraction sum;
  for (const Fraction& group : groups_) {
    sum.numerator += group.numerator;
    sum.denominator += group.denominator;
  }
  return sum;
}

double GroupedFractions::value() const { return ratio(sum()); }

std::vector<std::vector<double>> bootstrap(std::span<const GroupedFractions* const> series,
                                           std::size_t replicates, std::uint64_t seed) {
  check(!series.empty(), "there is something to draw");
  const std::size_t groups = series.front()->groups().size();
  std::vector<std::vector<double>> values(series.size(), std::vector<double>(replicates));
  std::vector<double> counts(groups);
  for (std::size_t replicate = 0; replicate < replicates; ++replicate) {
    Rng rng(seed, kBootstrapStream, replicate);
    std::ranges::fill(counts, 0.0);
    for (std::size_t i = 0; i < groups; ++i) {
      counts[rng.below(groups)] += 1.0;
    }
    for (std::size_t k = 0; k < series.size(); ++k) {
      const std::span<const Fraction> own = series[k]->groups();
      check(own.size() == groups, "all series have the same rounds");
      Fraction sum;
      for (std::size_t i = 0; i < groups; ++i) {
        sum.numerator += counts[i] * own[i].numerator;
        sum.denominator += counts[i] * own[i].denominator;
      }
      values[k][replicate] = ratio(sum);
    }
  }
  return values;
}

Interval middle_of(std::vector<double> values) {
  check(!values.empty(), "an interval needs values");
  std::ranges::sort(values);
  const auto at = [&](double share) {
    // Of B values, B + 1 gaps are equally likely to hold the next one.
    const auto last = static_cast<double>(values.size() - 1);
    const double place = std::clamp(share * (last + 2.0) - 1.0, 0.0, last);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double part = place - static_cast<double>(below);
    return (1.0 - part) * values[below] + part * values[above];
  };
  return {at(kAlpha / 2.0), at(1.0 - kAlpha / 2.0)};
}

Interval empirical_bernstein(std::span<const double> values, double width) {
  check(values.size() >= 2, "a variance needs two values");
  const auto count = static_cast<double>(values.size());
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  const double mean = sum / count;
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  return empirical_bernstein(count, mean, squares / (count - 1.0), width);
}

Interval empirical_bernstein(double count, double mean, double variance, double width) {
  const double log_term = std::log(4.0 / kAlpha);
  const double half =
      std::sqrt(2.0 * variance * log_term / count) + 7.0 * width * log_term / (3.0 * (count - 1.0));
  return {mean - half, mean + half};
}

void RunningLowerBound::add(double x) {
  if (!(x >= 0.0) || !std::isfinite(x)) {
    throw Error(ErrorKind::kInput,
                fmt::format("confidence sequence: expected a number of at least 0, found {}", x));
  }
  const double prediction = count_ > 0.0 ? std::clamp(sum_ / count_, 0.0, 1.0) : 0.0;
  count_ += 1.0;
  sum_ += x;
  squares_ += (x - prediction) * (x - prediction);
}

double RunningLowerBound::bound(double alpha) const {
  if (count_ <= 0.0) {
    return 0.0;
  }
  const double goal = std::log(1.0 / alpha);
  double high = kNoLimit;  // an excess at which one bet alone reaches the goal
  for (const Bet& bet : bets()) {
    high = std::min(high, (goal - bet.log_share + bet.psi * squares_) / bet.rate);
  }
  double low = 0.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = low + (high - low) / 2.0;
    (log_wealth(middle, squares_) < goal ? low : high) = middle;
  }
  return std::max(0.0, (sum_ - high) / count_);
}

void RunningLowerBound::save(StateWriter& writer) const {
  writer.write(count_);
  writer.write(sum_);
  writer.write(squares_);
}

void RunningLowerBound::load(StateReader& reader) {
  for (double* const sum : {&count_, &sum_, &squares_}) {
    *sum = reader.read<double>();
    if (!std::isfinite(*sum) || *sum < 0.0) {
      reader.fail("a confidence sequence has impossible sums");
    }
  }
}

void ConfidenceSequence::add(double weight, double reward) {
  const double scaled = (reward - low_) / (high_ - low_);
  if (!(scaled >= 0.0 && scaled <= 1.0)) {
    throw Error(ErrorKind::kInput, fmt::format("reward: expected a number in [{}, {}], found {}",
                                               low_, high_, reward));
  }
  earned_.add(weight * scaled);
  missed_.add(weight * (1.0 - scaled));
}

void ConfidenceSequence::save(StateWriter& writer) const {
  earned_.save(writer);
  missed_.save(writer);
}

void ConfidenceSequence::load(StateReader& reader) {
  earned_.load(reader);
  missed_.load(reader);
}

Interval ConfidenceSequence::interval() const {
  const double low = earned_.bound(kAlpha / 2.0);
  const double high = 1.0 - missed_.bound(kAlpha / 2.0);
  return {low_ + (high_ - low_) * low, low_ + (high_ - low_) * high};
}

}  // namespace mcnb
