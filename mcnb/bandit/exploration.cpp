#include "mcnb/bandit/exploration.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

std::size_t highest_estimate(std::span<const Score> scores) {
  std::size_t best = index(highest(scores));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i].considered && scores[i].estimate > scores[best].estimate) {
      best = i;
    }
  }
  return best;
}

void set_softmax(double temperature, double best, std::span<const Score> scores,
                 std::span<double> probabilities) {
  double sum = 0.0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    probabilities[i] =
        scores[i].considered ? std::exp((scores[i].estimate - best) / temperature) : 0.0;
    sum += probabilities[i];
  }
  for (double& probability : probabilities) {
    probability /= sum;
  }
}

void set_square_cb(double gamma, std::size_t best, double arms, std::span<const Score> scores,
                   std::span<double> probabilities) {
  double others = 0.0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (i != best && scores[i].considered) {
      const double gap = scores[best].estimate - scores[i].estimate;
      probabilities[i] = 1.0 / (arms + gamma * gap);
      others += probabilities[i];
    }
  }
  probabilities[best] = 1.0 - others;
}

}  // namespace

Exploration parse_exploration(const std::string& text) {
  using Kind = Exploration::Kind;
  if (text == "own" || text == "greedy") {
    return {text == "own" ? Kind::kOwn : Kind::kGreedy, 0.0};
  }
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (name == "epsilon") {
    return {Kind::kEpsilon, parse_number(name, {.low = 0.0, .high = 1.0}, number)};
  }
  if (name == "softmax") {
    return {Kind::kSoftmax, parse_number(name, {.low = 1e-6, .high = 1e6}, number)};
  }
  if (name == "squarecb") {
    return {Kind::kSquareCb, parse_number(name, {.low = 0.0, .high = 1e12}, number)};
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("exploration \"{}\": expected own, greedy, epsilon=E, softmax=T or "
                          "squarecb=G",
                          text));
}

std::vector<double> choice_probabilities(const Exploration& exploration,
                                         std::span<const Score> scores) {
  check(!scores.empty(), "there is something to choose from");
  std::vector<double> probabilities(scores.size());
  const std::size_t chosen = index(highest(scores));
  const std::size_t best = highest_estimate(scores);
  const auto arms = static_cast<double>(std::ranges::count(scores, true, &Score::considered));
  switch (exploration.kind) {
    case Exploration::Kind::kOwn:
      probabilities[chosen] = 1.0;
      break;
    case Exploration::Kind::kGreedy:
      probabilities[best] = 1.0;
      break;
    case Exploration::Kind::kEpsilon:
      for (std::size_t i = 0; i < scores.size(); ++i) {
        probabilities[i] = scores[i].considered ? exploration.amount / arms : 0.0;
      }
      probabilities[chosen] = 1.0 - exploration.amount * (arms - 1.0) / arms;
      break;
    case Exploration::Kind::kSoftmax:
      set_softmax(exploration.amount, scores[best].estimate, scores, probabilities);
      break;
    case Exploration::Kind::kSquareCb:
      set_square_cb(exploration.amount, best, arms, scores, probabilities);
      break;
  }
  return probabilities;
}

}  // namespace mcnb
