#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mcnb {

// The kinds of features that share one prior variance.
enum class FeatureGroup : std::uint8_t { kConstant, kLinear, kProducts, kUser };
inline constexpr std::size_t kFeatureGroups = 4;
template <class T>
using ByFeatureGroup = std::array<T, kFeatureGroups>;

// How an arm's numbers become the features of a hierarchical model. Both feature vectors begin with
// the constant 1 and the numbers themselves. The own vector (of the part that differs from user to
// user) is a prefix of the shared one.
class FeatureMap {
 public:
  struct Options {
    std::size_t inputs = 0;         // numbers of an arm
    bool shared_products = false;   // x_i x_j in the shared vector
    bool own_products = false;      // and in the own one; requires shared_products
    std::size_t user_features = 0;  // numbers of a user, in the shared vector alone
  };
  explicit FeatureMap(const Options& options);

  std::size_t inputs() const { return options_.inputs; }
  std::size_t user_features() const { return options_.user_features; }
  std::size_t shared_size() const { return groups_.size(); }
  std::size_t own_size() const { return own_size_; }
  // The group of every shared feature; the own features have the groups of the first own_size().
  std::span<const FeatureGroup> groups() const { return groups_; }

  // Writes the shared features of an arm to out[0 .. shared_size()). Requires inputs() numbers of
  // the arm and user_features numbers of the user.
  void expand(std::span<const float> arm, std::span<const float> user, double* out) const;
  // Writes the own features to out[0 .. own_size()).
  void expand_own(std::span<const float> arm, double* out) const;

 private:
  double* expand_arm(std::span<const float> arm, bool products, double* out) const;

  Options options_;
  std::size_t own_size_;
  std::vector<FeatureGroup> groups_;
};

}  // namespace mcnb
