#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/mcnb/candidate.h"
#include "mcnb/bandit/mcnb/mcnb_options.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/network_pool.h"

namespace mcnb {

// Finds clusters with scan=sampled: visits the learners that have a history in a random order and
// stops when it has met enough members. The first members of a random order are a uniform sample of
// the cluster, so a decision need not evaluate every learner.
//
// All arms of a round share an order, which its id names. What is found about an arm does not
// depend on the other arms, on the number of threads, or on how rounds are batched.
class LearnerWalk {
 public:
  // Borrows nothing. Learners agree about an arm if their estimates differ by at most `gap`.
  LearnerWalk(const McnbOptions& options, std::uint64_t seed, float gap);

  // A learner has got its first event. Requires that it is not listed.
  void add(UserId learner) { learners_.push_back(learner); }
  // The last learner of the list takes the place of this one, if this one is listed.
  void forget(UserId learner);
  // The learners with a history.
  std::span<const UserId> listed() const { return learners_; }

  // What the walks of these arms find, in their order. Arms of one round must follow each other.
  // Nothing is found about an arm if the estimate of its own learner is not finite.
  std::vector<std::optional<FoundCluster>> find(ThreadPool& threads, const NetworkPool& pool,
                                                const Histories& histories,
                                                std::span<const Candidate> arms) const;

  std::size_t memory_bytes() const { return learners_.capacity() * sizeof learners_[0]; }
  void save(StateWriter& writer) const { writer.write_all(learners_); }
  // Throws Error (kCorrupt) unless the list has exactly the learners with a history.
  void load(StateReader& reader, const Histories& histories);

 private:
  // What a walk has found out about one arm so far.
  struct Search {
    std::size_t arm = 0;  // its index among the arms of the walk
    float own = 0.0F;     // f(x; theta^u)
    Cluster members;      // in the order of the walk
    std::size_t visited = 0;
    bool is_done = false;  // the members are enough
  };

  std::vector<Search> walk(ThreadPool& threads, const NetworkPool& pool,
                           std::span<const Candidate> arms) const;
  std::vector<Search> begin(const NetworkPool& pool, std::span<const Candidate> arms) const;
  std::size_t next_stretch(std::span<Search* const> searches, std::size_t left) const;
  void look_at(std::span<const UserId> met, std::span<const float> estimates, Search& search) const;
  FoundCluster finish(const Candidate& arm, Search search, const NetworkPool& pool,
                      const Histories& histories) const;
  std::size_t most_visits() const;

  std::uint64_t seed_;
  float gap_;
  std::size_t enough_;            // members for all steps of an adaptation; 0: all members
  std::size_t limit_;             // of visits; 0: none
  std::vector<UserId> learners_;  // with a history, in the order of their first event
};

}  // namespace mcnb
