// What the online service asks of M-CNB: many rounds and much feedback in one pass over the
// learners, and users who want to be forgotten.

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/bandit/stopwatch.h"
#include "mcnb/base/error.h"

namespace mcnb {

std::vector<std::vector<Score>> Mcnb::scores_of(std::span<const Round> rounds) {
  const std::size_t at_once = most_arms_at_once();
  std::vector<std::vector<Score>> all(rounds.size());
  std::vector<std::vector<std::size_t>> looked_at(rounds.size());
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    check_round(rounds[i], user_count(), shape());
    all[i].resize(rounds[i].arms.size());
    looked_at[i] = preselect(rounds[i], all[i]);
  }
  std::vector<Cluster> clusters;
  std::vector<Place> places;
  for (std::size_t begin = 0; begin < rounds.size();) {
    places.clear();
    std::size_t end = begin;
    do {
      for (const std::size_t i : looked_at[end]) {
        places.push_back({rounds[end].id, &rounds[end].arms[i], &all[end][i]});
      }
      ++end;
    } while (end < rounds.size() && places.size() + looked_at[end].size() <= at_once);
    clusters.resize(std::max(clusters.size(), places.size()));
    for (std::size_t i = 0; i < places.size(); ++i) {
      places[i].cluster = &clusters[i];
    }
    score_places(places);
    begin = end;
  }
  return all;
}

// Feedback that changes one learner each can share the pass over all learners: the estimates of
// those that the feedback before has changed are then made anew.
std::size_t Mcnb::learn_all(std::span<const RewardedArm> rewarded) {
  if (options_.feedback != Feedback::kServed || options_.training != TrainingMode::kOnline) {
    return Policy::learn_all(rewarded);
  }
  std::size_t refused = 0;
  std::vector<RewardedArm> sound;
  for (const RewardedArm& one : rewarded) {
    try {
      check_feedback(one.round, one.arm, one.reward, user_count(), shape());
      sound.push_back(one);
    } catch (const Error&) {
      ++refused;
    }
  }
  const std::size_t at_once = most_arms_at_once();
  Predictions estimates;
  Predictions renewed;
  std::vector<Features> features;
  for (std::size_t begin = 0; begin < sound.size(); begin += at_once) {
    const std::span<const RewardedArm> some =
        std::span(sound).subspan(begin, std::min(at_once, sound.size() - begin));
    features.clear();
    for (const RewardedArm& one : some) {
      features.push_back(one.arm.features);
    }
    Stopwatch watch;
    learners_.predict(threads_, features, estimates);
    seconds_.clustering += watch.lap();
    Cluster changed;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const UserId learner = learner_of(some[i].arm.user);
      Cluster cluster;
      watch.lap();
      try {
        if (!changed.empty()) {
          learners_.predict(threads_, {&features[i], 1}, changed, renewed);
          float* row = estimates.data() + i * estimates.user_count();
          for (std::size_t k = 0; k < changed.size(); ++k) {
            row[index(changed[k])] = renewed.row(0)[k];
          }
        }
        find_cluster(learner, estimates.row(i), cluster);
        seconds_.clustering += watch.lap();
        learn_from(some[i].round, some[i].arm, some[i].reward, std::move(cluster));
      } catch (const Error&) {
        ++refused;
      }
      const auto place = std::ranges::lower_bound(changed, learner);
      if (place == changed.end() || *place != learner) {
        changed.insert(place, learner);
      }
    }
  }
  return refused;
}

bool Mcnb::forget(UserId user) {
  if (index(user) >= user_count()) {
    throw Error(ErrorKind::kInput,
                fmt::format("user {} is unknown, there are {} users", index(user), user_count()));
  }
  const UserId learner = learner_of(user);
  if (std::ranges::count(learner_of_, learner) > 1) {
    return false;  // a pre-cluster: nobody knows whose part is whose
  }
  decision_.fresh = false;
  if (learners_.is_distinct(learner)) {
    learners_.set_parameters(learner, learners_.start());
  }
  histories_.forget(learner);
  trained_[index(learner)] = 0;
  has_own_datum_[index(learner)] = 0;
  return true;
}

}  // namespace mcnb
