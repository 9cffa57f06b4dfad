#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/linear/user_models.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/random.h"
#include "mcnb/numeric/kernel_ridge.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostArmsTogether = 32;  // in one triangular solve

struct KernelUcbOptions {
  double bandwidth = 1.0;
  double lambda = 1.0;  // gamma in the paper
  double alpha = 0.1;   // eta in the paper
  std::uint64_t history_limit = 1000;
  UserModels users = UserModels::kOne;
};

OptionTable<KernelUcbOptions> option_table() {
  using Options = KernelUcbOptions;
  OptionTable<Options> table;
  table
      .number("bandwidth", &Options::bandwidth, {1e-6, 1e6},
              "of the kernel: exp(-|x - y|^2 / (2 bandwidth^2))")
      .number("lambda", &Options::lambda, {1e-6, 1e6}, "weight of the ridge: K + lambda I")
      .number("alpha", &Options::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .count("history_limit", &Options::history_limit, {1, KernelRidge::kMostSamples},
             "samples that a regression holds, a uniform choice of all that came")
      .choice("users", &Options::users, {{"one", UserModels::kOne}, {"each", UserModels::kEach}},
              "one regression for all users, or one for each");
  return table;
}

// KernelUCB: a kernel ridge regression for all users together or for each, made with the first
// sample. As in the paper, an arm's score is
//   k^T (K + lambda I)^-1 r + alpha / sqrt(lambda) sqrt(k(x, x) - k^T (K + lambda I)^-1 k),
// where k holds the kernels of the arm with the samples, K those of the samples with each other,
// and r the rewards. With the linear kernel this is LinUCB without its log(1 + t), which the paper
// does not have.
//
// A regression holds at most `history_limit` samples, which bounds time and memory. A full one is a
// uniform sample of all that came (a reservoir): the t-th sample joins with probability limit / t
// and replaces one that is drawn uniformly. So late samples count as much as early ones.
class KernelUcb final : public BasicPolicy {
 public:
  KernelUcb(const KernelUcbOptions& options, const PolicySetup& setup)
      : BasicPolicy(setup),
        options_(options),
        shape_{.inputs = setup.inputs},
        seed_(setup.seed),
        threads_(*setup.threads) {}

  void start(UserId user, const Sample& sample) override {
    check(user, sample);
    take_in(user, sample);
  }

  std::size_t arms_apart() const override { return kMostArmsTogether; }
  std::vector<Score> scores(const Round& round) override {
    check(round);
    const std::vector<Batch> batches = batches_of(round);
    std::vector<Score> scores(round.arms.size());
    threads_.parallel_for(batches.size(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        score(batches[i], round, scores);
      }
    });
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check(round, arm, reward);
    take_in(arm.user, {arm.features, reward});
  }

  std::size_t memory_bytes() const override {
    std::size_t bytes = sizeof *this + slots_.size() * (sizeof *slots_.begin() + sizeof(void*)) +
                        slots_.bucket_count() * sizeof(void*) +
                        (regressions_.capacity() - regressions_.size()) * sizeof regressions_[0];
    for (const Regression& regression : regressions_) {
      bytes += sizeof regression - sizeof regression.ridge + regression.ridge.memory_bytes();
    }
    return bytes;
  }

  void save(StateWriter& writer) const override {
    save_users(writer);
    writer.write(static_cast<std::uint64_t>(regressions_.size()));
    for (const Regression& regression : regressions_) {
      writer.write(regression.owner);
      writer.write(regression.met);
      regression.ridge.save(writer);
    }
  }

  void load(StateReader& reader) override {
    load_users(reader);
    slots_.clear();
    regressions_.clear();
    const auto count = reader.read<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto owner = reader.read<UserId>();
      if (index(owner) >= user_count() || owner != owner_for(owner) || slot_of(owner) != kNowhere) {
        reader.fail("a regression belongs to a user that cannot have one");
      }
      Regression& regression = make_regression(owner);
      regression.met = reader.read<std::uint64_t>();
      regression.ridge.load(reader, shape_, static_cast<std::size_t>(options_.history_limit));
      if (regression.ridge.size() != std::min(regression.met, options_.history_limit)) {
        reader.fail("a regression does not hold as many samples as it met");
      }
    }
  }

 private:
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

  struct Regression {
    UserId owner;
    std::uint64_t met = 0;  // samples that came, held or not
    KernelRidge ridge;
  };

  // Arms of a round that one regression scores together.
  struct Batch {
    std::uint32_t regression;  // or kNowhere
    std::vector<std::size_t> arms;
  };

  UserId owner_for(UserId user) const { return model_owner(options_.users, user); }

  std::uint32_t slot_of(UserId owner) const {
    const auto found = slots_.find(owner);
    return found == slots_.end() ? kNowhere : found->second;
  }

  Regression& make_regression(UserId owner) {
    slots_.emplace(owner, static_cast<std::uint32_t>(regressions_.size()));
    regressions_.push_back({owner, 0, KernelRidge(options_.bandwidth, options_.lambda)});
    return regressions_.back();
  }

  void take_in(UserId user, const Sample& sample) {
    const UserId owner = owner_for(user);
    const std::uint32_t slot = slot_of(owner);
    Regression& regression = slot == kNowhere ? make_regression(owner) : regressions_[slot];
    const std::uint64_t before = regression.met++;
    if (before >= options_.history_limit) {
      const std::uint64_t leaver =
          Rng(seed_, Stream::kReservoir, before, static_cast<std::uint32_t>(owner))
              .below(before + 1);
      if (leaver >= options_.history_limit) {
        return;
      }
      regression.ridge.remove(static_cast<std::size_t>(leaver));
    }
    regression.ridge.add(sample);
  }

  // Which arms are scored together depends on the round, never on the threads: the rounding of a
  // matrix product depends on all its columns.
  std::vector<Batch> batches_of(const Round& round) const {
    std::vector<std::pair<std::uint32_t, std::size_t>> arms;  // by regression
    for (std::size_t i = 0; i < round.arms.size(); ++i) {
      arms.emplace_back(slot_of(owner_for(round.arms[i].user)), i);
    }
    std::ranges::sort(arms);
    std::vector<Batch> batches;
    for (const auto& [regression, arm] : arms) {
      if (batches.empty() || batches.back().regression != regression ||
          batches.back().arms.size() == kMostArmsTogether) {
        batches.push_back({.regression = regression});
      }
      batches.back().arms.push_back(arm);
    }
    return batches;
  }

  void score(const Batch& batch, const Round& round, std::span<Score> scores) const {
    std::vector<KernelPrediction> predictions(
        batch.arms.size(), {.estimate = 0.0, .uncertainty = 1.0 / std::sqrt(options_.lambda)});
    if (batch.regression != kNowhere) {
      std::vector<Features> points;
      for (const std::size_t arm : batch.arms) {
        points.push_back(round.arms[arm].features);
      }
      regressions_[batch.regression].ridge.predict(points, predictions);
    }
    const std::size_t sharing = options_.users == UserModels::kOne ? user_count() : 1;
    for (std::size_t i = 0; i < batch.arms.size(); ++i) {
      scores[batch.arms[i]] =
          Score(predictions[i].estimate,
                {{"uncertainty", options_.alpha * predictions[i].uncertainty}}, sharing);
    }
  }

  KernelUcbOptions options_;
  NetworkShape shape_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  std::unordered_map<UserId, std::uint32_t> slots_;  // by owner: the index in regressions_
  std::vector<Regression> regressions_;
};

}  // namespace

PolicyKind kernelucb_policy() {
  return policy_kind<KernelUcb>(
      {.name = "kernelucb",
       .help = "kernel ridge regression (RBF) on a bounded history, with confidence bounds",
       .paper = "Valko, Korda, Munos, Flaounas, Cristianini: Finite-Time Analysis of Kernelised "
                "Contextual Bandits, UAI 2013"},
      option_table(), [](const KernelUcbOptions& options, const PolicySetup& setup) {
        const bool each = options.users == UserModels::kEach;
        const auto samples = static_cast<double>(options.history_limit);
        constexpr double kRegression = 1200.0;  // with room for the first samples
        PolicySize size;
        size.fixed_bytes = 1000.0 + (each ? 0.0 : kRegression);
        size.event_bytes = 4.0 * setup.inputs + 40.0 + 8.0 * samples;
        size.user_bytes = each ? kRegression + 4.0 * setup.inputs : size.event_bytes;
        size.arm_operations = samples * (samples / 2.0 + setup.inputs);
        return size;
      });
}

}  // namespace mcnb
