#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/theory/best_fit.h"
#include "tests/theory/context_cases.h"

namespace mcnb::best_fit_test {
namespace {

using theory_cases::draw_contexts;
using theory_cases::shape_of;

TEST(BestFit, StaysInTheBallAndGainsByALargerOne) {
  const Contexts contexts = draw_contexts(40, 4, 6);
  const NetworkShape shape = shape_of(4, 32, 2);
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 1);
  ThreadPool threads(2);
  double last = total_loss(contexts, shape, centre, threads);
  for (const double radius : {0.0, 0.1, 0.5, 2.0}) {
    const BestFit fit = find_best_fit(contexts, shape, centre, centre, radius, 400, threads);
    EXPECT_LE(fit.distance, radius * (1.0 + 1e-5));
    EXPECT_NEAR(fit.loss, total_loss(contexts, shape, fit.network, threads), 1e-9);
    if (radius == 0.0) {
      EXPECT_EQ(fit.loss, last);
    } else {
      EXPECT_LT(fit.loss, 0.95 * last);
    }
    last = fit.loss;
  }
}

TEST(BestFit, FitsAFewContextsWithoutError) {
  const Contexts contexts = draw_contexts(5, 8, 8);
  for (const std::uint32_t depth : {2U, 3U}) {
    const NetworkShape shape = shape_of(8, 64, depth);
    const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 2);
    ThreadPool threads(2);
    const BestFit fit = find_best_fit(contexts, shape, centre, centre, 100.0, 2000, threads);
    EXPECT_LT(fit.loss, 1e-5) << depth;
  }
}

TEST(BestFit, IsTheSameOnAnyNumberOfThreads) {
  const Contexts contexts = draw_contexts(50, 4, 9);
  const NetworkShape shape = shape_of(4, 16, 2);
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 3);
  ThreadPool one(1);
  ThreadPool three(3);
  EXPECT_EQ(find_best_fit(contexts, shape, centre, centre, 1.0, 30, one).network,
            find_best_fit(contexts, shape, centre, centre, 1.0, 30, three).network);
}

// The rewards are those of a network in the ball: the least loss is zero. Plain descent along the
// gradient is still at 2e-3 of the first loss after 300 steps, each of two evaluations or more.
TEST(BestFit, ComesNearALeastLossThatIsKnown) {
  const NetworkShape shape = shape_of(5, 32, 2);
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 4);
  std::vector<float> teacher = centre;
  Rng rng(5, Stream::kTest);
  double squares = 0.0;
  for (float& value : teacher) {
    const double way = 0.15 * rng.normal();
    value += static_cast<float>(way);
    squares += way * way;
  }
  Contexts contexts = draw_contexts(300, 5, 11);
  GradientFactors factors;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    find_gradient(shape, teacher, contexts.features(i), factors);
    contexts.rewards[i] = static_cast<double>(factors.value);
  }
  ThreadPool threads(2);
  const double radius = 1.01 * std::sqrt(squares);
  const double first = total_loss(contexts, shape, centre, threads);
  const BestFit fit = find_best_fit(contexts, shape, centre, centre, radius, 300, threads);
  EXPECT_LE(fit.evaluations, 300U);
  EXPECT_LE(fit.distance, radius * (1.0 + 1e-6));
  EXPECT_LT(fit.loss, 5e-4 * first);
}

TEST(BestFit, SaysWhenItWasStopped) {
  const Contexts contexts = draw_contexts(60, 4, 12);
  const NetworkShape shape = shape_of(4, 32, 2);
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 5);
  ThreadPool threads(1);
  const BestFit fit = find_best_fit(contexts, shape, centre, centre, 5.0, 8, threads);
  EXPECT_FALSE(fit.converged);
  EXPECT_EQ(fit.evaluations, 8U);
  EXPECT_LT(fit.loss, total_loss(contexts, shape, centre, threads));
}

}  // namespace
}  // namespace mcnb::best_fit_test
