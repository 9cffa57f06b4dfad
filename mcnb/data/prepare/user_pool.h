#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/data/prepare/recommendation_data.h"

namespace mcnb {

// The users of a recommendation environment: groups of members with similar features, by k-means.
// Groups that lack a liked pair, or a pair that is not liked, are left out.
struct UserPool {
  std::vector<std::uint32_t> members;  // by user, ascending within each user
  std::vector<std::uint32_t> begin;    // members of user u: members[begin[u]] up to begin[u + 1]
  // Features of the users: the centres of their members, scaled to unit length.
  std::vector<float> features;

  std::uint64_t wanted = 0;            // users asked for
  std::uint64_t found = 0;             // groups that k-means made: fewer if members are alike
  std::uint64_t members_left_out = 0;  // in groups that are left out
  std::uint64_t pairs_left_out = 0;

  std::size_t user_count() const { return begin.size() - 1; }
  std::span<const std::uint32_t> of(std::size_t user) const {
    return std::span(members).subspan(begin[user], begin[user + 1] - begin[user]);
  }

  bool operator==(const UserPool&) const = default;
};

// Number of k-means++ starts; the best one wins.
inline constexpr std::size_t kPoolStarts = 10;

// Equal data and seeds give equal pools with any number of threads. Throws Error: kUsage for more
// users than the data has members, kInput if no group has both kinds of pairs.
UserPool make_user_pool(const RecommendationData& data, std::uint64_t users, std::uint64_t seed,
                        ThreadPool& threads);

// What was kept and what was left out, in words.
std::string describe(const UserPool& pool);

inline const StateHeader kUserPoolState{"user-pool", 1};

// Like save_recommendation and load_recommendation. `data` must be what the pool was made from.
void save_user_pool(const std::filesystem::path& path, const UserPool& pool,
                    const Provenance& made_from);
UserPool load_user_pool(const std::filesystem::path& path, const RecommendationData& data,
                        const Provenance& made_from);

}  // namespace mcnb
