#include "mcnb/bandit/mcnb/learner_walk.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "mcnb/bandit/mcnb/walk_order.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

// Learners that are evaluated before the searches look at them: enough to share out over threads,
// not many more than the searches may need.
constexpr std::size_t kShortestStretch = 64;
constexpr std::size_t kLongestStretch = 4096;
constexpr std::size_t kMostEstimatesOfAStretch = std::size_t{1} << 22;

std::size_t same_round(std::span<const Candidate> arms, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < arms.size() && arms[end].round == arms[begin].round) {
    ++end;
  }
  return end - begin;
}

}  // namespace

LearnerWalk::LearnerWalk(const McnbOptions& options, std::uint64_t seed, float gap)
    : seed_(seed),
      gap_(gap),
      enough_(static_cast<std::size_t>(options.meta_samples * options.meta_steps)),
      limit_(static_cast<std::size_t>(options.scan_limit)) {}

void LearnerWalk::forget(UserId learner) {
  const auto found = std::ranges::find(learners_, learner);
  if (found != learners_.end()) {
    *found = learners_.back();
    learners_.pop_back();
  }
}

std::size_t LearnerWalk::most_visits() const {
  return limit_ == 0 ? learners_.size() : std::min(limit_, learners_.size());
}

// With few rounds the threads share the learners of each walk, with many rounds the walks.
std::vector<std::optional<FoundCluster>> LearnerWalk::find(ThreadPool& threads,
                                                           const NetworkPool& pool,
                                                           const Histories& histories,
                                                           std::span<const Candidate> arms) const {
  std::vector<std::span<const Candidate>> rounds;
  for (std::size_t begin = 0; begin < arms.size(); begin += rounds.back().size()) {
    rounds.push_back(arms.subspan(begin, same_round(arms, begin)));
  }
  std::vector<std::optional<FoundCluster>> clusters(arms.size());
  const std::size_t grain = rounds.size() < threads.thread_count() ? rounds.size() : 1;
  threads.parallel_for(rounds.size(), grain, [&](std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      const std::span<const Candidate> round = rounds[i];
      const std::size_t offset = static_cast<std::size_t>(round.data() - arms.data());
      for (Search& search : walk(threads, pool, round)) {
        if (std::isfinite(search.own)) {
          const std::size_t arm = search.arm;
          clusters[offset + arm] = finish(round[arm], std::move(search), pool, histories);
        }
      }
    }
  });
  return clusters;
}

// Visits stretches of learners until every search has met enough members. How long the stretches
// are changes nothing: a search ends at the very learner that makes its members enough.
std::vector<LearnerWalk::Search> LearnerWalk::walk(ThreadPool& threads, const NetworkPool& pool,
                                                   std::span<const Candidate> arms) const {
  std::vector<Search> searches = begin(pool, arms);
  if (learners_.empty()) {
    return searches;
  }
  std::vector<Search*> active;
  for (Search& search : searches) {
    active.push_back(&search);
  }
  WalkOrder order(seed_, arms.front().round, learners_.size());
  std::vector<UserId> met;
  std::vector<Features> features;
  Predictions estimates;
  std::size_t left = most_visits();
  while (left > 0 && !active.empty()) {
    met.resize(next_stretch(active, left));
    std::ranges::generate(met, [&] { return learners_[order.next()]; });
    features.clear();
    for (const Search* search : active) {
      features.push_back(arms[search->arm].arm.features);
    }
    pool.predict(threads, features, met, estimates);
    for (std::size_t i = 0; i < active.size(); ++i) {
      look_at(met, estimates.row(i), *active[i]);
    }
    std::erase_if(active, [](const Search* search) { return search->is_done; });
    left -= met.size();
  }
  return searches;
}

std::vector<LearnerWalk::Search> LearnerWalk::begin(const NetworkPool& pool,
                                                    std::span<const Candidate> arms) const {
  std::vector<Search> searches(arms.size());
  std::vector<float> activations(pool.shape().hidden_count());
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const Features& x = arms[i].arm.features;
    searches[i].arm = i;
    searches[i].own = kernels::forward(pool.shape(), pool.parameters(arms[i].learner).data(),
                                       x.values, x.offset, activations.data());
  }
  return searches;
}

// The learners to evaluate next: most of those that the slowest search is expected to need.
std::size_t LearnerWalk::next_stretch(std::span<Search* const> searches, std::size_t left) const {
  const std::size_t room = std::max<std::size_t>(kMostEstimatesOfAStretch / searches.size(), 1);
  std::size_t wanted = kLongestStretch;
  if (enough_ > 0) {
    wanted = 0;
    for (const Search* search : searches) {
      const std::size_t missing = enough_ - search->members.size();
      const double visits_each = static_cast<double>(search->visited + 1) /
                                 static_cast<double>(search->members.size() + 1);
      const double expected = 0.75 * visits_each * static_cast<double>(missing);
      wanted = std::max(wanted, expected < kLongestStretch ? static_cast<std::size_t>(expected)
                                                           : kLongestStretch);
    }
  }
  return std::min({std::max(wanted, kShortestStretch), room, left});
}

void LearnerWalk::look_at(std::span<const UserId> met, std::span<const float> estimates,
                          Search& search) const {
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (std::abs(estimates[i] - search.own) <= gap_) {
      search.members.push_back(met[i]);
      if (search.members.size() == enough_) {
        search.visited += i + 1;
        search.is_done = true;
        return;
      }
    }
  }
  search.visited += met.size();
}

// Turns what the walk found into a cluster: if it ended before it met enough members, those it met
// are put in the order of scan=all, whose draws a small cluster then gets.
FoundCluster LearnerWalk::finish(const Candidate& arm, Search search, const NetworkPool& pool,
                                 const Histories& histories) const {
  FoundCluster cluster;
  cluster.is_enough = search.is_done;
  cluster.members = std::move(search.members);
  const bool met_everybody = search.visited == learners_.size();
  if (!search.is_done) {
    std::ranges::sort(cluster.members);
    if (histories.size(arm.learner) > 0) {
      const auto position = std::ranges::lower_bound(cluster.members, arm.learner);
      if (position == cluster.members.end() || *position != arm.learner) {
        cluster.members.insert(position, arm.learner);
      }
    }
  }
  const std::size_t found = cluster.members.size();
  cluster.sample = ClusterSample{found, search.visited};
  cluster.size = found;
  if (!met_everybody && found > 0) {
    const double share = static_cast<double>(found - 1) /
                         static_cast<double>(std::max<std::size_t>(search.visited - 1, 1));
    cluster.size = std::max(found, static_cast<std::size_t>(
                                       std::llround(share * static_cast<double>(listed().size()))));
  }
  const Features& x = arm.arm.features;
  std::vector<float> activations(pool.shape().hidden_count());
  const float untouched =
      kernels::forward(pool.shape(), pool.start().data(), x.values, x.offset, activations.data());
  if (std::abs(untouched - search.own) <= gap_) {
    cluster.size += pool.user_count() - learners_.size();
  }
  return cluster;
}

void LearnerWalk::load(StateReader& reader, const Histories& histories) {
  learners_ = reader.read_all<UserId>(histories.user_count());
  std::vector<bool> has_history(histories.user_count());
  std::size_t expected = 0;
  for (std::size_t i = 0; i < has_history.size(); ++i) {
    has_history[i] = histories.size(UserId{static_cast<std::uint32_t>(i)}) > 0;
    expected += has_history[i] ? 1 : 0;
  }
  for (const UserId learner : learners_) {
    if (index(learner) >= has_history.size() || !has_history[index(learner)]) {
      reader.fail("the list of learners names one twice, or one without a history");
    }
    has_history[index(learner)] = false;
  }
  if (learners_.size() != expected) {
    reader.fail("the list of learners lacks one that has a history");
  }
}

}  // namespace mcnb
