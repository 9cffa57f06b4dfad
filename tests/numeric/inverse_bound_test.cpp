#include "mcnb/numeric/inverse_bound.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <sstream>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"

namespace mcnb::inverse_bound_test {
namespace {

constexpr Eigen::Index kSize = 12;

std::span<const double> as_span(const Eigen::VectorXd& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

// The full matrix Z, and its bound.
struct Pair {
  explicit Pair(double weight) : lambda(weight) {}

  void add(const Eigen::VectorXd& x) {
    bound.add(as_span(x));
    z += x * x.transpose();
  }
  double bound_of(const Eigen::VectorXd& v) const {
    return bound.largest_square(
        v.squaredNorm(), v.dot(Eigen::Map<const Eigen::VectorXd>(bound.sum().data(), kSize)));
  }
  double truth(const Eigen::VectorXd& v) const { return v.dot(z.ldlt().solve(v)); }

  double lambda;
  InverseBound bound{kSize, lambda};
  Eigen::MatrixXd z = lambda * Eigen::MatrixXd::Identity(kSize, kSize);
};

Eigen::VectorXd draw(Rng& rng, double mean) {
  Eigen::VectorXd v(kSize);
  for (double& value : v) {
    value = mean + rng.normal();
  }
  return v;
}

TEST(InverseBound, IsNeverBelowTheSquareNorAboveWithoutAnyVector) {
  for (const double lambda : {0.01, 1.0, 100.0}) {
    for (const double mean : {0.0, 1.0, 10.0}) {
      Rng rng(1, Stream::kTest);
      Pair pair(lambda);
      for (int i = 0; i < 200; ++i) {
        const Eigen::VectorXd v = draw(rng, mean);
        ASSERT_GE(pair.bound_of(v), pair.truth(v) * (1.0 - 1e-9)) << i;
        ASSERT_LE(pair.bound_of(v), v.squaredNorm() / lambda) << i;
        pair.add(draw(rng, mean));
      }
      if (mean > 0.0 && lambda <= 1.0) {  // in the direction that they share
        const Eigen::VectorXd v = Eigen::VectorXd::Constant(kSize, 1.0);
        EXPECT_LT(pair.bound_of(v), 0.1 * v.squaredNorm() / lambda);
      }
    }
  }
}

TEST(InverseBound, FollowsMergesAndRemovals) {
  Rng rng(2, Stream::kTest);
  Pair all(1.0);
  InverseBound other(kSize, 1.0);
  for (int i = 0; i < 20; ++i) {
    const Eigen::VectorXd x = draw(rng, 2.0);
    if (i % 2 == 0) {
      all.add(x);
    } else {
      other.add(as_span(x));
    }
  }
  const Eigen::VectorXd v = draw(rng, 2.0);
  const double alone = all.bound_of(v);
  all.bound.merge(other);
  EXPECT_LT(all.bound_of(v), alone);
  all.bound.remove(other);
  EXPECT_NEAR(all.bound_of(v), alone, 1e-8 * v.squaredNorm());
}

// After huge vectors have cancelled each other, what is left of their sum is only rounding errors.
TEST(InverseBound, DoesNotTrustASumThatIsNothingButRoundings) {
  Pair pair(1.0);
  const Eigen::VectorXd huge = Eigen::VectorXd::Constant(kSize, 1e20);
  Eigen::VectorXd small = Eigen::VectorXd::Zero(kSize);
  small[0] = 9000;
  small[1] = 7000;
  pair.bound.add(as_span(huge));
  pair.bound.add(as_span(small));
  pair.bound.add(as_span(-huge));
  const Eigen::VectorXd v = Eigen::VectorXd::Unit(kSize, 0);
  EXPECT_EQ(pair.bound_of(v), 1.0);
}

TEST(InverseBound, GoesOnToTheBitAfterSaveAndLoad) {
  Rng rng(3, Stream::kTest);
  Pair pair(0.5);
  for (int i = 0; i < 9; ++i) {
    pair.add(draw(rng, 1.0));
  }
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  pair.bound.save(writer);
  writer.finish();
  const auto load = [&](std::size_t size, std::uint64_t most) {
    std::istringstream in(out.str());
    StateReader reader(in, "state", {.kind = "test"});
    InverseBound bound(size, 0.5);
    bound.load(reader, most);
    return bound.largest_square(3.0, 4.0);
  };
  EXPECT_EQ(load(kSize, 9), pair.bound.largest_square(3.0, 4.0));
  EXPECT_THROW(load(kSize, 8), Error);
  EXPECT_THROW(load(kSize + 1, 9), Error);
}

}  // namespace
}  // namespace mcnb::inverse_bound_test
