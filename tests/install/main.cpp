// A program of somebody who uses the installed mcnb: evaluates and trains the networks of three
// users, and meets an error.
#include <cmath>
#include <cstdio>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/numeric/network_pool.h"
#include "mcnb/numeric/ridge.h"

namespace {

bool networks_learn() {
  const mcnb::NetworkShape shape{.inputs = 3, .width = 8};
  mcnb::NetworkPool pool(shape, mcnb::random_network(shape, mcnb::Initialisation::kPaper, 1));
  pool.add_users(3);
  mcnb::ThreadPool threads(2);
  const std::vector<float> values{0.6F, 0.0F, 0.8F};
  const std::vector<mcnb::Features> arms{{values}};
  mcnb::Predictions before;
  pool.predict(threads, arms, before);
  const float start = before.row(0)[1];
  const float reward = start + 1.0F;
  const std::vector<mcnb::UserId> users{mcnb::UserId{1}};
  pool.step(threads, users, {arms[0], reward}, 0.01F);
  mcnb::Predictions after;
  pool.predict(threads, arms, after);
  std::printf("user 1: from %g to %g, towards %g\n", start, after.row(0)[1], reward);
  return after.user_count() == 3 && std::isfinite(start) && after.row(0)[0] == start &&
         std::abs(after.row(0)[1] - reward) < std::abs(start - reward);
}

bool ridge_learns() {
  mcnb::RidgeState ridge(2, 1.0);
  const std::vector<float> x{1.0F, 0.0F};
  ridge.add(x, 1.0);
  return std::abs(ridge.estimate(x) - 0.5) < 1e-12;  // 1 / (1 + lambda)
}

bool errors_are_caught() {
  try {
    const mcnb::NetworkShape empty{.inputs = 0};
    empty.validate();
    return false;
  } catch (const mcnb::Error& error) {
    std::puts(error.what());
    return error.kind() == mcnb::ErrorKind::kUsage;
  }
}

}  // namespace

int main() { return networks_learn() && ridge_learns() && errors_are_caught() ? 0 : 1; }
