#pragma once

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/data/prepare/recommendation_data.h"
#include "tests/expect_error.h"

// Ratings made by hand or at random, and expectations that tests of prepared data share.
namespace mcnb {

struct Rated {
  std::uint32_t user;
  std::uint32_t item;
  float value;
};

inline Ratings make_ratings(std::span<const Rated> rows, std::size_t users, std::size_t items) {
  Ratings ratings;
  for (const Rated& row : rows) {
    ratings.users.push_back(row.user);
    ratings.items.push_back(row.item);
    ratings.values.push_back(row.value);
  }
  for (std::size_t user = 0; user < users; ++user) {
    ratings.user_names.add("user " + std::to_string(user));
  }
  for (std::size_t item = 0; item < items; ++item) {
    ratings.item_names.add("item " + std::to_string(item));
  }
  return ratings;
}

// Rates every pair with the given probability, from 0.5 to 5 in halves. Users and items differ in
// their number of ratings.
inline Ratings random_ratings(std::size_t users, std::size_t items, double chance,
                              std::uint64_t seed) {
  Rng rng(seed, Stream::kTest);
  std::vector<Rated> rows;
  for (std::uint32_t user = 0; user < users; ++user) {
    for (std::uint32_t item = 0; item < items; ++item) {
      const double factor = (0.5 + (user * 7 % 10) / 10.0) * (0.5 + (item * 3 % 10) / 10.0);
      if (rng.chance(chance * factor)) {
        rows.push_back({user, item, static_cast<float>(1 + rng.below(10)) / 2});
      }
    }
  }
  rng.shuffle(std::span(rows));
  return make_ratings(rows, users, items);
}

// An undirected graph, as read_edge_list gives it.
inline Ratings random_links(std::size_t nodes, double chance, std::uint64_t seed) {
  Rng rng(seed, Stream::kTest);
  std::vector<Rated> rows;
  for (std::uint32_t low = 0; low < nodes; ++low) {
    for (std::uint32_t high = low + 1; high < nodes; ++high) {
      if (rng.chance(low % 4 == high % 4 ? chance : chance / 4)) {
        rows.push_back({low, high, 1.0F});
        rows.push_back({high, low, 1.0F});
      }
    }
  }
  return make_ratings(rows, nodes, nodes);
}

// The features that the leading singular vectors of a full matrix give, row by row.
struct DenseFeatures {
  Eigen::MatrixXd users;
  Eigen::MatrixXd items;
};
inline DenseFeatures dense_features(const Eigen::MatrixXd& matrix, Eigen::Index components) {
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(matrix, Eigen::ComputeThinU | Eigen::ComputeThinV);
  DenseFeatures features{svd.matrixU().leftCols(components), svd.matrixV().leftCols(components)};
  for (Eigen::Index k = 0; k < components; ++k) {
    Eigen::Index farthest = 0;
    features.items.col(k).cwiseAbs().maxCoeff(&farthest);
    if (features.items(farthest, k) < 0.0) {
      features.users.col(k) *= -1.0;
      features.items.col(k) *= -1.0;
    }
  }
  features.users.rowwise().normalize();
  features.items.rowwise().normalize();
  return features;
}

inline double length(std::span<const float> vector) {
  double squares = 0.0;
  for (const float value : vector) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(squares);
}

}  // namespace mcnb
