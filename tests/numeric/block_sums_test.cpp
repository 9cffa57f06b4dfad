// The fixed order of sums over many draws.

#include "mcnb/numeric/block_sums.h"

#include <gtest/gtest.h>

#include "mcnb/numeric/kernels.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::block_sums_test {
namespace {

using Parts = std::vector<std::vector<float>>;

// The definition: groups of 64 terms, then groups of their sums, until one is left.
std::vector<float> sum_by_groups(Parts parts) {
  while (parts.size() > 1) {
    Parts groups;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i % 64 == 0) {
        groups.push_back(parts[i]);
        continue;
      }
      for (std::size_t k = 0; k < parts[i].size(); ++k) {
        groups.back()[k] += parts[i][k];
      }
    }
    parts = std::move(groups);
  }
  return parts.front();
}

TEST(BlockSums, AddGroupsOfSixtyFourInTheirOrder) {
  Rng rng(1, Stream::kTest);
  for (const std::size_t count : {1U, 2U, 63U, 64U, 65U, 128U, 200U, 4096U, 4097U, 4161U, 9000U}) {
    Parts parts;
    BlockSums sums(3);
    for (std::size_t i = 0; i < count; ++i) {
      parts.push_back(plain::draw(rng, 3));
      sums.add(parts.back().data());
    }
    std::vector<float> found(3);
    sums.finish(found.data());
    EXPECT_TRUE(plain::same_bits(found, sum_by_groups(parts))) << count << " parts";
  }
}

struct OwnDraws {
  std::vector<std::vector<float>> xs;
  std::vector<kernels::AdaptationDraw> draws;
};

OwnDraws make_draws(Rng& rng, std::size_t count, std::uint32_t inputs) {
  OwnDraws own;
  for (std::size_t i = 0; i < count; ++i) {
    own.xs.push_back(plain::draw(rng, inputs));
  }
  for (const std::vector<float>& x : own.xs) {
    own.draws.push_back({.x = x.data(),
                         .count = inputs,
                         .row = 0,
                         .reward = static_cast<float>(rng.uniform()),
                         .factor = static_cast<float>(-rng.uniform() / double(count)),
                         .inner = static_cast<float>(rng.normal())});
  }
  return own;
}

TEST(BlockSums, AdaptationsOfManyDrawsHaveTheirOrder) {
  Rng rng(2, Stream::kTest);
  const NetworkShape shape{.inputs = 5, .width = 37};
  const std::vector<float> network = plain::draw_network(rng, shape);
  const std::size_t padded = shape.padded_width();
  for (const std::size_t count : {64U, 65U, 300U, 4500U}) {
    const OwnDraws own = make_draws(rng, count, shape.inputs);
    const std::vector<float> base = plain::draw(rng, padded);
    std::vector<float> room;
    const auto adapt = [&](std::size_t begin, std::size_t end, bool from_base) {
      std::vector<float> sums = from_base ? base : std::vector<float>(padded);
      std::vector<float> last = sums;
      kernels::adapt(shape, network.data(), std::span(own.draws).subspan(begin, end - begin),
                     sums.data(), last.data(), room);
      sums.insert(sums.end(), last.begin(), last.end());
      return sums;
    };
    Parts blocks;
    for (std::size_t begin = 0; begin < count; begin += 64) {
      blocks.push_back(adapt(begin, std::min<std::size_t>(count, begin + 64), begin == 0));
    }
    EXPECT_TRUE(plain::same_bits(adapt(0, count, true), sum_by_groups(blocks)))
        << count << " draws";
  }
}

TEST(BlockSums, StepsAlongManyDrawsHaveTheirOrder) {
  Rng rng(3, Stream::kTest);
  const NetworkShape shape{.inputs = 5, .width = 37};
  // What one block moves is seen at a network whose changed weights are zero in front.
  const std::vector<float> network = plain::draw_network(rng, shape);
  const OwnDraws own = make_draws(rng, 300, shape.inputs);
  std::vector<float> all = network;
  std::vector<float> room;
  kernels::batch_step(shape, all.data(), own.draws, room);
  std::vector<double> moved(network.size());
  for (std::size_t begin = 0; begin < 300; begin += 64) {
    std::vector<float> part = network;
    kernels::batch_step(shape, part.data(),
                        std::span(own.draws).subspan(begin, std::min<std::size_t>(300 - begin, 64)),
                        room);
    for (std::size_t i = 0; i < part.size(); ++i) {
      moved[i] += static_cast<double>(part[i]) - network[i];
    }
  }
  for (std::size_t i = 0; i < network.size(); ++i) {
    EXPECT_NEAR(all[i] - network[i], moved[i], 1e-6) << "parameter " << i;
  }
}

}  // namespace
}  // namespace mcnb::block_sums_test
