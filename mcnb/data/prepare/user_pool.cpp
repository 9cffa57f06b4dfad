#include "mcnb/data/prepare/user_pool.h"

#include <fmt/core.h>

#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/base/options.h"
#include "mcnb/numeric/kmeans.h"

namespace mcnb {
namespace {

struct PairCounts {
  std::uint64_t liked = 0;
  std::uint64_t not_liked = 0;

  bool both() const { return liked > 0 && not_liked > 0; }
};

PairCounts count_pairs(const RecommendationData& data, std::span<const std::uint32_t> members) {
  PairCounts counts;
  for (const std::uint32_t member : members) {
    counts.liked += data.liked.count(member);
    counts.not_liked += data.not_liked.count(member);
  }
  return counts;
}

// Appends the centre, scaled to unit length. If the members cancel each other out, appends the
// features of the first member instead.
void add_features(std::span<const float> centre, std::span<const float> first_member,
                  std::vector<float>& features) {
  double squares = 0.0;
  for (const float value : centre) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double length = std::sqrt(squares);
  if (length < 1e-6) {
    features.insert(features.end(), first_member.begin(), first_member.end());
    return;
  }
  for (const float value : centre) {
    features.push_back(static_cast<float>(static_cast<double>(value) / length));
  }
}

}  // namespace

UserPool make_user_pool(const RecommendationData& data, std::uint64_t users, std::uint64_t seed,
                        ThreadPool& threads) {
  if (users == 0 || users > data.member_count()) {
    refuse_option(
        "users",
        fmt::format("1 to {}, the users of the data that have features", data.member_count()),
        std::to_string(users));
  }
  constexpr std::size_t kIterations = 100;
  const KMeans groups =
      k_means(data.member_features, kRecommendationFeatures, static_cast<std::size_t>(users), seed,
              kIterations, kPoolStarts, &threads);
  UserPool pool;
  pool.wanted = users;
  pool.found = groups.centres.size() / kRecommendationFeatures;
  pool.begin.push_back(0);
  std::vector<std::vector<std::uint32_t>> members(static_cast<std::size_t>(pool.found));
  for (std::uint32_t member = 0; member < groups.group.size(); ++member) {
    members[groups.group[member]].push_back(member);
  }
  for (std::size_t group = 0; group < members.size(); ++group) {
    const PairCounts counts = count_pairs(data, members[group]);
    if (!counts.both()) {
      pool.members_left_out += members[group].size();
      pool.pairs_left_out += counts.liked + counts.not_liked;
      continue;
    }
    pool.members.insert(pool.members.end(), members[group].begin(), members[group].end());
    pool.begin.push_back(static_cast<std::uint32_t>(pool.members.size()));
    add_features(
        std::span(groups.centres).subspan(group * kRecommendationFeatures, kRecommendationFeatures),
        data.member(members[group].front()), pool.features);
  }
  if (pool.user_count() == 0) {
    throw Error(ErrorKind::kInput,
                fmt::format("none of {} users has both pairs that are liked and pairs that are not",
                            pool.found));
  }
  return pool;
}

std::string describe(const UserPool& pool) {
  std::string text =
      fmt::format("{} users with {} members", pool.user_count(), pool.members.size());
  if (pool.found < pool.wanted) {
    text +=
        fmt::format("; k-means made {} groups where {} were asked for", pool.found, pool.wanted);
  }
  if (pool.user_count() < pool.found) {
    text += fmt::format(
        "; left out: {} users with pairs of one kind only, or of none, with {} "
        "members and {} pairs",
        pool.found - pool.user_count(), pool.members_left_out, pool.pairs_left_out);
  }
  if (pool.members_left_out > pool.members.size()) {
    text += "; CAUTION: most members are left out, and results say little about the data set";
  }
  return text;
}

void save_user_pool(const std::filesystem::path& path, const UserPool& pool,
                    const Provenance& made_from) {
  save_state_file(path, kUserPoolState, [&](StateWriter& writer) {
    write_provenance(writer, made_from);
    writer.write_all(pool.members);
    writer.write_all(pool.begin);
    writer.write_all(pool.features);
    writer.write(pool.wanted);
    writer.write(pool.found);
    writer.write(pool.members_left_out);
    writer.write(pool.pairs_left_out);
  });
}

UserPool load_user_pool(const std::filesystem::path& path, const RecommendationData& data,
                        const Provenance& made_from) {
  UserPool pool;
  load_state_file(path, kUserPoolState, [&](StateReader& reader) {
    check_provenance(reader, made_from);
    pool.members = reader.read_all<std::uint32_t>(data.member_count());
    pool.begin = reader.read_all<std::uint32_t>(data.member_count() + 1);
    pool.features =
        reader.read_all<float>(data.member_count() * std::uint64_t{kRecommendationFeatures});
    pool.wanted = reader.read<std::uint64_t>();
    pool.found = reader.read<std::uint64_t>();
    pool.members_left_out = reader.read<std::uint64_t>();
    pool.pairs_left_out = reader.read<std::uint64_t>();
    for (const std::uint32_t member : pool.members) {
      if (member >= data.member_count()) {
        reader.fail("a member has a number that is too large");
      }
    }
    if (pool.begin.size() < 2 || pool.begin.front() != 0 ||
        pool.begin.back() != pool.members.size() ||
        pool.features.size() != pool.user_count() * kRecommendationFeatures) {
      reader.fail("members and features do not match the users");
    }
    for (std::size_t user = 0; user < pool.user_count(); ++user) {
      if (pool.begin[user] > pool.begin[user + 1] || pool.begin[user + 1] > pool.members.size() ||
          !count_pairs(data, pool.of(user)).both()) {
        reader.fail("a user lacks pairs of one kind");
      }
    }
    for (const float value : pool.features) {
      if (!(std::abs(value) <= 1.0F)) {
        reader.fail("a feature of a unit vector is larger than one");
      }
    }
  });
  return pool;
}

}  // namespace mcnb
