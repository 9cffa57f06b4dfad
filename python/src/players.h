#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/environment/environment.h"
#include "python/src/bandit.h"

namespace mcnb::python {

// Holds a Python object in code that runs without the GIL. The destructor takes the GIL.
class Held {
 public:
  explicit Held(py::object object) : object_(std::move(object)) {}
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const py::object& get() const { return object_; }

 private:
  py::object object_;
};

// Lets the runner use an object of the class mcnb.Policy. Takes the GIL for each call. Exceptions
// of the object are passed on unchanged.
class PythonPolicy final : public Policy {
 public:
  PythonPolicy(py::object policy, const PolicySetup& setup);

  std::size_t user_count() const override { return users_; }
  void add_users(std::size_t count) override { users_ += count; }
  void start(UserId user, const Sample& sample) override;
  ArmIndex choose(const Round& round) override;
  std::vector<Score> scores(const Round& round) override;
  std::optional<std::vector<UserId>> cluster(const Arm& arm) override;
  void learn(RoundId round, const Arm& arm, float reward) override;
  std::size_t memory_bytes() const override;
  void save(StateWriter& writer) const override;
  void load(StateReader& reader) override;

 private:
  Held policy_;
  std::size_t users_;
  std::uint32_t features_;
};

// The policy of a bandit that was made in Python.
class BanditPlayer final : public Policy {
 public:
  explicit BanditPlayer(std::shared_ptr<Model> model) : model_(std::move(model)) {}

  std::size_t user_count() const override { return inner().user_count(); }
  void add_users(std::size_t count) override { inner().add_users(count); }
  void start(UserId user, const Sample& sample) override { inner().start(user, sample); }
  ArmIndex choose(const Round& round) override { return inner().choose(round); }
  std::vector<Score> scores(const Round& round) override { return inner().scores(round); }
  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    return inner().cluster(arm);
  }
  void learn(RoundId round, const Arm& arm, float reward) override {
    inner().learn(round, arm, reward);
  }
  StepCounts steps() const override { return inner().steps(); }
  std::size_t memory_bytes() const override { return inner().memory_bytes(); }
  void save(StateWriter& writer) const override { inner().save(writer); }
  void load(StateReader& reader) override { inner().load(reader); }

 private:
  Policy& inner() const { return *model_->policy; }

  std::shared_ptr<Model> model_;
};

// Lets the runner use an object of the class mcnb.Environment.
class PythonEnvironment final : public Environment {
 public:
  // Requires the GIL.
  explicit PythonEnvironment(py::object environment);

  std::size_t user_count() const override { return users_; }
  std::uint32_t inputs() const override { return features_; }
  std::uint32_t block_length() const override { return block_; }
  std::span<const float> user_features() const override { return user_features_; }
  std::size_t user_feature_count() const override { return user_feature_count_; }
  std::span<const StartDatum> start_data() const override { return start_data_; }
  const Round& next_round() override;
  float reward(ArmIndex arm) const override;
  double expected_reward(ArmIndex arm) const override;
  bool knows_clusters() const override { return knows_clusters_; }
  std::vector<UserId> true_cluster(ArmIndex arm) const override;

 private:
  Held environment_;
  std::size_t users_;
  std::uint32_t features_;
  std::uint32_t block_;
  bool knows_clusters_;
  std::vector<float> user_features_;
  std::size_t user_feature_count_ = 0;
  std::vector<float> start_values_;
  std::vector<StartDatum> start_data_;
  std::vector<float> values_;     // features of the round's arms
  std::vector<double> rewards_;   // of the round's arms; if empty, Python is asked
  std::vector<double> expected_;  // of the round's arms; if empty, Python is asked
  Round round_;
  std::uint64_t next_id_ = 0;
};

// A round for Python: (id, users, arms, items, offsets), all copies. Items are None if arms have no
// item; offsets are None if every arm has all `features`.
py::tuple round_tuple(const Round& round, std::uint32_t features);

}  // namespace mcnb::python
