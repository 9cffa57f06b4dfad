#include "mcnb/numeric/tracked_inverse.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <sstream>

#include "tests/numeric/plain_network.h"

namespace mcnb::tracked_inverse_test {
namespace {

using kernels::BlockRun;
using kernels::BlockVector;

// The full matrix Z, and its tracked inverse.
class Pair {
 public:
  Pair(std::size_t size, double lambda)
      : tracked(size, lambda),
        z(lambda * Eigen::MatrixXd::Identity(static_cast<Eigen::Index>(size),
                                             static_cast<Eigen::Index>(size))),
        run_{0, tracked.padded_size() / kernels::kBlock} {}

  BlockVector view(const AlignedDoubles& v) const { return {v.data(), {&run_, 1}}; }

  AlignedDoubles draw(Rng& rng, double size, double zeros = 0.5) const {
    AlignedDoubles v(tracked.padded_size());
    for (std::size_t i = 0; i < tracked.size(); ++i) {
      v[i] = rng.chance(zeros) ? 0.0 : size * rng.normal();
    }
    return v;
  }

  void add(const AlignedDoubles& v) {
    tracked.add(threads, view(v));
    z += dense(v) * dense(v).transpose();
  }

  double square(const AlignedDoubles& v) {
    double square = 0.0;
    const BlockVector one = view(v);
    tracked.find_squares(threads, {&one, 1}, {&square, 1});
    return square;
  }

  double expected_square(const AlignedDoubles& v) const {
    return dense(v).dot(z.ldlt().solve(dense(v)));
  }

  Eigen::Map<const Eigen::VectorXd> dense(const AlignedDoubles& v) const {
    return {v.data(), static_cast<Eigen::Index>(tracked.size())};
  }

  ThreadPool threads{1};
  TrackedInverse tracked;
  Eigen::MatrixXd z;

 private:
  BlockRun run_;
};

TEST(TrackedInverse, IsTheExplicitInverseAfterEveryOneOfManyUpdates) {
  for (const double lambda : {1.0, 1e-3}) {
    Rng rng(1, Stream::kTest);
    Pair pair(34, lambda);
    for (int i = 1; i <= 5000; ++i) {
      pair.add(pair.draw(rng, 1.0));
      if (i < 50 || i % 997 == 0) {
        const AlignedDoubles v = pair.draw(rng, 1.0);
        const double expected = pair.expected_square(v);
        ASSERT_NEAR(pair.square(v), expected, 1e-10 * expected + 1e-14 / lambda) << i;
      }
    }
    EXPECT_EQ(pair.tracked.repair_count(), 0U);
  }
}

// Vectors so long that what the updates should leave of 1 / lambda in their directions is less than
// its rounding.
TEST(TrackedInverse, ComputesTheInverseAnewWhenItHasDrifted) {
  Rng rng(2, Stream::kTest);
  Pair pair(40, 1e-3);
  std::vector<AlignedDoubles> added;
  for (int i = 0; i < 48 * 5; ++i) {
    added.push_back(pair.draw(rng, 1e7, 0.0));
    pair.add(added.back());
  }
  EXPECT_GE(pair.tracked.repair_count(), 1U);
  EXPECT_LE(pair.tracked.repair_count(), 6U);  // at most once in 40 additions
  for (const AlignedDoubles& v : added) {
    const double expected = pair.expected_square(v);
    ASSERT_NEAR(pair.square(v), expected, 1e-6 * expected);
  }
}

TEST(TrackedInverse, NeverGivesASquareBelowZeroOrNoNumber) {
  Rng rng(3, Stream::kTest);
  Pair pair(12, 1e-6);
  for (int i = 0; i < 300; ++i) {
    const AlignedDoubles v = pair.draw(rng, std::pow(10.0, rng.uniform() * 16.0 - 4.0));
    pair.add(v);
    const double square = pair.square(v);
    ASSERT_TRUE(square >= 0.0 && std::isfinite(square)) << i;
  }
}

std::string saved(const TrackedInverse& tracked) {
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  tracked.save(writer);
  writer.finish();
  return out.str();
}

void load(TrackedInverse& tracked, const std::string& state) {
  std::istringstream in(state);
  StateReader reader(in, "state", {.kind = "test"});
  tracked.load(reader);
  reader.finish();
}

TEST(TrackedInverse, GoesOnToTheBitAfterSaveAndLoad) {
  Rng rng(4, Stream::kTest);
  Pair pair(34, 0.5);
  auto copy = std::make_unique<Pair>(34, 0.5);
  for (int i = 0; i < 60; ++i) {
    const AlignedDoubles v = pair.draw(rng, 1.0);
    pair.add(v);
    copy->add(v);
    ASSERT_EQ(pair.square(v), copy->square(v));
    const std::string state = saved(copy->tracked);
    copy = std::make_unique<Pair>(34, 0.5);
    load(copy->tracked, state);
    ASSERT_TRUE(saved(pair.tracked) == state) << i;
  }
}

// Results have the same bits whether the last added vector shares a pass with squares or not.
TEST(TrackedInverse, IsTheSameToTheBitWhetherOrNotItWasAskedInBetween) {
  for (const double length : {1.0, 1e7}) {  // without and with drift
    Rng rng(6, Stream::kTest);
    Pair asked(40, 1e-3);
    Pair silent(40, 1e-3);
    for (int i = 1; i <= 200; ++i) {
      const AlignedDoubles v = asked.draw(rng, length);
      asked.add(v);
      silent.add(v);
      asked.square(v);
      if (rng.chance(0.2)) {
        asked.square(asked.draw(rng, 1.0));
      }
      if (i % 39 == 0 || i % 16 == 0) {
        if (length == 1.0) {
          ASSERT_TRUE(saved(asked.tracked) == saved(silent.tracked)) << i;
        }
        const AlignedDoubles w = asked.draw(rng, 1.0);
        const double first = asked.square(w);
        ASSERT_EQ(first, silent.square(w)) << i;
        ASSERT_EQ(first, silent.square(w)) << i;
      }
    }
    EXPECT_EQ(asked.tracked.repair_count(), silent.tracked.repair_count());
    EXPECT_EQ(asked.tracked.repair_count() > 0, length > 1.0);
  }
}

double relative_error(const Eigen::MatrixXd& found, const Eigen::MatrixXd& expected) {
  return (found - expected).norm() / expected.norm();
}

// Results are right whether updates wait or have been applied to the matrices.
TEST(TrackedInverse, GivesOutTheMatricesAndSolvesForVectors) {
  Rng rng(7, Stream::kTest);
  Pair pair(34, 0.5);
  for (int i = 1; i <= 40; ++i) {
    const AlignedDoubles added = pair.draw(rng, 1.0);
    pair.add(added);
    pair.tracked.settle(pair.threads);
    const Eigen::MatrixXd inverse = pair.z.inverse();
    ASSERT_LT(relative_error(pair.tracked.dense_matrix(), pair.z), 1e-14) << i;
    ASSERT_LT(relative_error(pair.tracked.dense_inverse(), inverse), 1e-12) << i;
    const AlignedDoubles v = pair.draw(rng, 1.0);
    AlignedDoubles product(v.size(), 7.0);
    pair.tracked.solve(pair.threads, v, product);
    ASSERT_LT(relative_error(pair.dense(product), inverse * pair.dense(v)), 1e-12) << i;
    AlignedDoubles sum(v.size());
    pair.tracked.add_last_solution(-2.0, std::span(sum).first(34));
    ASSERT_LT(relative_error(pair.dense(sum), -2.0 * inverse * pair.dense(added)), 1e-12) << i;
    const BlockVector one = pair.view(v);
    double square = 0.0;
    pair.tracked.find_settled_squares(pair.threads, {&one, 1}, {&square, 1});
    ASSERT_EQ(square, pair.square(v)) << i;
  }
}

TEST(TrackedInverse, TakesOverAndGivesUpWhatOthersHave) {
  Rng rng(8, Stream::kTest);
  Pair whole(34, 0.5);
  Pair first(34, 0.5);
  Pair second(34, 0.5);
  for (int i = 0; i < 60; ++i) {
    for (Pair* pair : {&whole, &first, &second}) {
      if (pair != &first || i < 21) {  // some wait, some do not
        pair->add(pair->draw(rng, 1.0));
      }
    }
  }
  const Eigen::MatrixXd own = whole.z;
  const Eigen::MatrixXd others =
      first.z + second.z - 2.0 * 0.5 * Eigen::MatrixXd::Identity(own.rows(), own.cols());
  const TrackedInverse* const both[] = {&first.tracked, &second.tracked};
  const auto expect = [&](const Eigen::MatrixXd& z) {
    EXPECT_LT(relative_error(whole.tracked.dense_matrix(), z), 1e-13);
    EXPECT_LT(relative_error(whole.tracked.dense_inverse(), z.inverse()), 1e-11);
  };
  whole.tracked.add_sums(whole.threads, both, SymmetricMatrix::Sign::kPlus);
  expect(own + others);
  whole.tracked.add_sums(whole.threads, both, SymmetricMatrix::Sign::kMinus);
  expect(own);
  whole.tracked.add_sums(whole.threads, others);
  expect(own + others);
  whole.z = own + others;
  whole.add(whole.draw(rng, 1.0));
  whole.tracked.settle(whole.threads);
  expect(whole.z);
  EXPECT_EQ(whole.tracked.repair_count(), 0U);
}

TEST(TrackedInverse, RefusesAStateOfAnotherSize) {
  Rng rng(5, Stream::kTest);
  Pair pair(16, 1.0);
  pair.add(pair.draw(rng, 1.0));
  for (const std::size_t size : {8U, 24U}) {
    TrackedInverse other(size, 1.0);
    EXPECT_THROW(load(other, saved(pair.tracked)), Error);
  }
}

}  // namespace
}  // namespace mcnb::tracked_inverse_test
