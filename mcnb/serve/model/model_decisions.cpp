// How a model decides requests. Deciding does not change its state.

#include <algorithm>

#include "mcnb/base/check.h"
#include "mcnb/serve/model/exploration.h"
#include "mcnb/serve/model/model.h"

namespace mcnb {
namespace {

void note_score(const Score& score, LoggedAction& action) {
  action.value = static_cast<float>(score.value);
  action.estimate = static_cast<float>(score.estimate);
  std::ranges::transform(score.parts(), action.parts.begin(),
                         [](const ScorePart& part) { return static_cast<float>(part.value); });
  action.cluster_size = static_cast<std::uint32_t>(score.cluster_size);
  if (const std::optional<ClusterSample>& sample = score.cluster_sample) {
    action.cluster_found = static_cast<std::uint32_t>(sample->found);
    action.cluster_visited = static_cast<std::uint32_t>(sample->visited);
  }
}

}  // namespace

Round Model::round_of(const RankRequest& request) const {
  const std::optional<std::uint32_t> learner = users_.learner(user_key(request.user_id));
  check(learner.has_value(), "a served user has arrived");
  return round_of(request, *learner);
}

Round Model::round_of(const RankRequest& request, std::uint32_t learner) const {
  const auto dimension = static_cast<std::size_t>(options_.dimension);
  check(request.features.size() == request.actions.size() * dimension,
        "the features fit the model");
  Round round{.id = RoundId{event_key(request.event_id)}, .arms = {}};
  for (std::size_t i = 0; i < request.actions.size(); ++i) {
    if (request.eligible[i]) {
      round.arms.push_back(
          {.index = ArmIndex{static_cast<std::uint32_t>(round.arms.size())},
           .user = UserId{learner},
           .features = {std::span(request.features).subspan(i * dimension, dimension)}});
    }
  }
  return round;
}

std::vector<Decision> Model::decide(std::span<const RankRequest* const> requests,
                                    std::int64_t time) {
  learn_now();
  std::vector<std::vector<Score>> scores(requests.size());
  std::vector<std::vector<std::uint32_t>> challenged;
  if (options_.mode != ModelMode::kLogging) {
    std::vector<Round> rounds;
    for (const RankRequest* request : requests) {
      rounds.push_back(round_of(*request));
    }
    scores = policy_->scores_of(rounds);
    challenged = choices_of_challengers(rounds);
  }
  std::vector<Decision> decisions;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::vector<std::uint32_t> arms;
    for (const std::vector<std::uint32_t>& choices : challenged) {
      arms.push_back(choices[i]);
    }
    decisions.push_back(decide_one(*requests[i], scores[i], arms, time));
  }
  return decisions;
}

std::size_t Model::taught_count() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      learners_, [](const LearnerCounts& counts) { return counts.lessons > 0; }));
}

void Model::opinions(std::span<const UserId> learners, std::span<const Features> arms,
                     std::vector<float>& out) {
  learn_now();
  find_opinions(*policy_, learners, arms, out);
}

std::optional<CloserLook> Model::closer_look(const Decision& decision, std::size_t most) {
  learn_now();
  const std::optional<std::uint32_t> learner = users_.learner(user_key(decision.user_id));
  if (!learner) {
    return std::nullopt;
  }
  const auto dimension = static_cast<std::size_t>(options_.dimension);
  const Arm arm{
      .index = ArmIndex{decision.arm},
      .user = UserId{*learner},
      .features = {std::span(decision.features).subspan(decision.chosen * dimension, dimension)}};
  return look_closer(*policy_, RoundId{event_key(decision.event_id)}, arm, most);
}

std::optional<Decision> Model::try_decision(const RankRequest& request, std::int64_t time) {
  learn_now();
  std::optional<std::uint32_t> learner = users_.learner(user_key(request.user_id));
  if (!learner) {
    const auto fresh = std::ranges::find(learners_, std::uint64_t{0}, &LearnerCounts::lessons);
    if (fresh == learners_.end()) {
      return std::nullopt;
    }
    learner = static_cast<std::uint32_t>(fresh - learners_.begin());
  }
  std::vector<Score> scores;
  if (options_.mode != ModelMode::kLogging) {
    scores = policy_->scores(round_of(request, *learner));
  }
  return decide_one(request, scores, {}, time);
}

Model::PartedDecision Model::begin_parts(const RankRequest& request) {
  learn_now();
  check(arms_apart() > 0 && options_.mode != ModelMode::kLogging, "the round can be cut");
  return {round_of(request), {}, {}};
}

bool Model::score_part(PartedDecision& parted, std::size_t arms) {
  check(lessons_.empty(), "nothing is learned between the parts of a decision");
  const std::size_t begin = parted.scores.size();
  const std::size_t end = std::min(begin + arms, parted.round.arms.size());
  const std::vector<Score> scores = policy_->scores_of_part(parted.round, begin, end);
  parted.scores.insert(parted.scores.end(), scores.begin(), scores.end());
  score_challengers(parted, begin, end);
  return end == parted.round.arms.size();
}

Decision Model::finish_parts(const PartedDecision& parted, const RankRequest& request,
                             std::int64_t time) {
  check(parted.scores.size() == parted.round.arms.size(), "every arm has a score");
  std::vector<std::uint32_t> challenged;
  for (const std::vector<Score>& scores : parted.challengers) {
    const bool whole = scores.size() == parted.round.arms.size();
    challenged.push_back(whole ? static_cast<std::uint32_t>(index(highest(scores))) : 0);
  }
  return decide_one(request, parted.scores, challenged, time);
}

// `scores` holds the scores of the eligible actions; it is empty if the model only logs.
// `challenged` is what each challenger would choose, an index among the eligible actions.
Decision Model::decide_one(const RankRequest& request, const std::vector<Score>& scores,
                           std::span<const std::uint32_t> challenged, std::int64_t time) const {
  Decision decision;
  decision.event_id = request.event_id;
  decision.user_id = request.user_id;
  decision.time = std::max(time, last_time_);
  decision.model_version = version();
  decision.mode = options_.mode;
  decision.deferred = request.deferred;
  decision.features = request.features;
  decision.slot = request.slot;
  decision.kept = request.kept;
  std::vector<std::uint32_t> eligible;
  for (std::uint32_t i = 0; i < request.actions.size(); ++i) {
    decision.actions.push_back({.id = request.actions[i], .eligible = request.eligible[i]});
    if (request.eligible[i]) {
      eligible.push_back(i);
    }
  }
  if (!scores.empty()) {
    for (const ScorePart& part : scores.front().parts()) {
      decision.part_names.emplace_back(part.name);
    }
  }
  for (std::size_t k = 0; k < scores.size(); ++k) {
    note_score(scores[k], decision.actions[eligible[k]]);
    decision.estimated_sizes = decision.estimated_sizes || scores[k].cluster_sample.has_value();
  }
  decision.preferred = scores.empty() ? eligible.front() : eligible[index(highest(scores))];
  for (const std::uint32_t arm : challenged) {
    decision.challenged.push_back(eligible[arm]);
  }
  std::vector<double> probabilities(request.actions.size());
  if (options_.mode == ModelMode::kOnline) {
    probabilities = epsilon_floor(request.eligible, decision.preferred, options_.epsilon);
    const Rng rng(options_.seed, Stream::kServedAction, event_key(request.event_id));
    decision.chosen = static_cast<std::uint32_t>(draw_action(probabilities, rng));
    std::ranges::stable_sort(eligible, [&](std::uint32_t a, std::uint32_t b) {
      return decision.actions[a].value > decision.actions[b].value;
    });
  } else {
    decision.chosen = eligible.front();
    probabilities[decision.chosen] = 1.0;
  }
  decision.arm = static_cast<std::uint32_t>(
      std::count(request.eligible.begin(), request.eligible.begin() + decision.chosen, true));
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    decision.actions[i].probability = static_cast<float>(probabilities[i]);
  }
  // The answer, then the other eligible actions from the best down, then the excluded ones.
  decision.ranking.push_back(decision.chosen);
  std::ranges::copy_if(eligible, std::back_inserter(decision.ranking),
                       [&](std::uint32_t i) { return i != decision.chosen; });
  for (std::uint32_t i = 0; i < request.actions.size(); ++i) {
    if (!request.eligible[i]) {
      decision.ranking.push_back(i);
    }
  }
  return decision;
}

}  // namespace mcnb
