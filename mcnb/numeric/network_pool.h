#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/ids.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/network.h"
#include "mcnb/numeric/slab.h"
#include "mcnb/numeric/training.h"

namespace mcnb {

// f(x_arm; user) for K arms and many users, one row per arm. Calls reuse the memory.
class Predictions {
 public:
  // Throws Error (kLimit) if there is not enough memory.
  void resize(std::size_t arms, std::size_t users);
  std::size_t arm_count() const { return arms_; }
  std::size_t user_count() const { return users_; }
  std::span<const float> row(std::size_t arm) const {
    return std::span(values_).subspan(arm * users_, users_);
  }
  float* data() { return values_.data(); }

 private:
  std::size_t arms_ = 0;
  std::size_t users_ = 0;
  std::vector<float> values_;
};

// The networks of all users, of one shape, in one slab. All users start from the same parameters. A
// user's network gets its own memory when it is first changed; until then it costs four bytes, and
// is evaluated once for all such users.
//
// Reading is safe from many threads at once; changing needs the pool to itself. Results do not
// depend on the number of threads. Bad features and rewards throw Error (kInput); a user outside
// the pool is a bug.
class NetworkPool {
 public:
  static constexpr std::size_t kMaxUsers = 0xfffffff0U;

  // An empty pool whose users will start from `start`. Throws Error (kUsage) for a bad shape.
  NetworkPool(const NetworkShape& shape, std::vector<float> start);

  const NetworkShape& shape() const { return shape_; }
  std::span<const float> start() const { return start_; }
  std::size_t user_count() const { return slots_.size(); }
  // How many users have a network of their own.
  std::size_t distinct_count() const { return distinct_; }
  bool is_distinct(UserId user) const;

  // Throws Error: kUsage for no users, kLimit for more than the pool or the machine can hold.
  void add_users(std::size_t count);

  std::span<const float> parameters(UserId user) const;
  void set_parameters(UserId user, std::span<const float> parameters);

  // f(x; user) of every arm, for all users (column = user) or a list (column = index in the list).
  void predict(ThreadPool& threads, std::span<const Features> arms, Predictions& out) const;
  void predict(ThreadPool& threads, std::span<const Features> arms, std::span<const UserId> users,
               Predictions& out) const;

  // The factors of the gradient at (user, x); they borrow the values of x.
  void find_gradient(UserId user, const Features& features, GradientFactors& factors) const;

  // One SGD step on (f(x) - r)^2 / 2 for every user of the list, which must be ascending.
  void step(ThreadPool& threads, std::span<const UserId> users, const Sample& sample, float rate);

  TrainingReport train(UserId user, std::span<const Sample> samples, const TrainingOptions& options,
                       Rng& rng, TrainingScratch& scratch);

  // Bytes held for the users' parameters and the table of users.
  std::size_t memory_bytes() const;

  // Bit-exact. save throws Error (kLimit) if a parameter is not finite, since load would refuse it.
  // A loaded pool remembers the instruction set that was in use when it was saved.
  void save(StateWriter& writer) const;
  static NetworkPool load(StateReader& reader);
  void save_file(const std::string& path) const;
  static NetworkPool load_file(const std::string& path);
  const std::string& saved_simd_target() const { return saved_simd_target_; }

 private:
  static constexpr std::uint32_t kShared = 0xffffffffU;

  const float* network(std::size_t user) const {
    const std::uint32_t slot = slots_[user];
    return slot == kShared ? start_.data() : slab_.data() + slot * stride_;
  }
  float* own_network(UserId user);
  std::vector<kernels::ArmTile> pack(std::span<const Features> arms) const;
  template <class UserAt>
  void predict_users(ThreadPool& threads, std::span<const Features> arms, std::size_t count,
                     UserAt user_at, Predictions& out) const;

  NetworkShape shape_;
  std::size_t stride_;                // floats from one network to the next
  std::vector<float> start_;          // parameters that every user starts with
  std::vector<std::uint32_t> slots_;  // by user: slot in the slab, or kShared
  Slab slab_;
  std::size_t distinct_ = 0;
  std::string saved_simd_target_;
};

}  // namespace mcnb
