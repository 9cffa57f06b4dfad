#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/feature_body.h"

namespace mcnb {

// The kinds of features that share one prior variance.
enum class FeatureGroup : std::uint8_t { kConstant, kLinear, kProducts, kUser, kHidden };
inline constexpr std::size_t kFeatureGroups = 5;
template <class T>
using ByFeatureGroup = std::array<T, kFeatureGroups>;

// How an arm's numbers become the features of a hierarchical model. Both feature vectors begin with
// the constant 1, the numbers themselves, and the units of a body, where there is one. The own
// vector (of the part that differs from user to user) is a prefix of the shared one.
class FeatureMap {
 public:
  struct Options {
    std::size_t inputs = 0;         // numbers of an arm
    bool linear = true;             // the numbers themselves
    bool shared_products = false;   // x_i x_j in the shared vector
    bool own_products = false;      // and in the own one; requires shared_products
    std::size_t user_features = 0;  // numbers of a user, in the shared vector alone
    // A hidden layer, in both vectors; null: none. Excludes products.
    std::shared_ptr<const FeatureBody> body;
  };
  explicit FeatureMap(const Options& options);

  // The same features of another body, of the same shape.
  FeatureMap with_body(std::shared_ptr<const FeatureBody> body) const;

  std::size_t inputs() const { return options_.inputs; }
  std::size_t user_features() const { return options_.user_features; }
  std::size_t shared_size() const { return groups_.size(); }
  std::size_t own_size() const { return own_size_; }
  const std::shared_ptr<const FeatureBody>& body() const { return options_.body; }
  // The group of every shared feature; the own features have the groups of the first own_size().
  std::span<const FeatureGroup> groups() const { return groups_; }

  // Writes the shared features of an arm to out[0 .. shared_size()). Requires inputs() numbers of
  // the arm and user_features numbers of the user.
  void expand(std::span<const float> arm, std::span<const float> user, double* out) const;
  // The own features alone.
  void expand_own(std::span<const float> arm, double* out) const;
  // Like `expand`, but remembers the last hidden layer: arms with the same numbers, one after the
  // other, share it. The result is the same.
  struct LastHidden {
    std::shared_ptr<const FeatureBody> body;
    std::vector<float> arm;
    std::vector<double> units;
  };
  void expand(std::span<const float> arm, std::span<const float> user, double* out,
              LastHidden& last) const;

 private:
  double* expand_arm(std::span<const float> arm, bool products, const double* hidden,
                     double* out) const;
  void expand_user(std::span<const float> arm, std::span<const float> user, double* out) const;

  Options options_;
  std::size_t own_size_;
  std::vector<FeatureGroup> groups_;
};

}  // namespace mcnb
