#include "mcnb/data/prepare/recommendation_data.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/data/prepare/rating_labels.h"
#include "mcnb/data/prepare/truncated_svd.h"

namespace mcnb {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// A row of the singular vectors that is shorter than this consists of rounding errors: no rating
// connects its user or item with those that the leading vectors describe.
constexpr double kShortest = 1e-7;

constexpr std::uint64_t kMostMembers = 1'000'000'000;
constexpr std::uint64_t kMostPairs = 100'000'000'000;

std::size_t component_count(const PreparationOptions& preparation) {
  return preparation.protocol == Protocol::kNotebook ? kRecommendationFeatures - 1
                                                     : kRecommendationFeatures;
}

// Calls take(user, item) for every (user, item) that a labelled pair stands for.
template <class Take>
void for_pairs(const LabelledPair& pair, bool mirrored, const Take& take) {
  take(pair.user, pair.item);
  if (mirrored) {
    take(pair.item, pair.user);
  }
}

SparseMatrix make_matrix(const RatingLabels& labels, const std::vector<bool>& in_matrix,
                         const ReducedRatings& reduced) {
  std::vector<Eigen::Triplet<float, std::int32_t>> entries;
  entries.reserve(labels.rows.size() * (labels.mirrored ? 2 : 1));
  for (std::size_t k = 0; k < labels.rows.size(); ++k) {
    const LabelledPair& pair = labels.rows[k];
    if (in_matrix[k] && pair.entry != 0.0F) {
      for_pairs(pair, labels.mirrored, [&](std::uint32_t user, std::uint32_t item) {
        entries.emplace_back(static_cast<std::int32_t>(user), static_cast<std::int32_t>(item),
                             pair.entry);
      });
    }
  }
  SparseMatrix matrix(static_cast<Eigen::Index>(reduced.users.size()),
                      static_cast<Eigen::Index>(reduced.items.size()));
  matrix.setFromTriplets(entries.begin(), entries.end());
  return matrix;
}

// Features of the users or of the items, for those that have any.
struct Side {
  std::vector<float> features;
  std::vector<std::uint32_t> numbers;  // in the ratings
  std::vector<std::uint32_t> rows;     // by kept number: row of its features, or kNone
  std::uint64_t without = 0;
};

Side make_features(std::span<const double> vectors, std::size_t components,
                   std::span<const std::uint32_t> numbers) {
  Side side;
  side.rows.assign(numbers.size(), kNone);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto row = vectors.subspan(i * components, components);
    double squares = 0.0;
    for (const double value : row) {
      squares += value * value;
    }
    double length = std::sqrt(squares);
    if (length < kShortest) {
      ++side.without;
      continue;
    }
    side.rows[i] = static_cast<std::uint32_t>(side.numbers.size());
    side.numbers.push_back(numbers[i]);
    // A constant replaces a missing component; its length is that of all others.
    const bool constant = components < kRecommendationFeatures;
    length *= constant ? std::sqrt(2.0) : 1.0;
    for (const double value : row) {
      side.features.push_back(static_cast<float>(value / length));
    }
    if (constant) {
      side.features.push_back(static_cast<float>(1.0 / std::sqrt(2.0)));
    }
  }
  return side;
}

// Lists the pairs for rounds by member. Pairs without features are counted and left out.
void make_lists(const RatingLabels& labels, const std::vector<bool>& in_rounds, const Side& members,
                const Side& items, RecommendationData& data) {
  const auto for_all = [&](const auto& take) {
    for (std::size_t k = 0; k < labels.rows.size(); ++k) {
      if (in_rounds[k]) {
        const LabelledPair& pair = labels.rows[k];
        for_pairs(pair, labels.mirrored, [&](std::uint32_t user, std::uint32_t item) {
          take(members.rows[user], items.rows[item], pair.liked ? data.liked : data.not_liked);
        });
      }
    }
  };
  for (ItemLists* lists : {&data.liked, &data.not_liked}) {
    lists->begin.assign(members.numbers.size() + 1, 0);
  }
  for_all([&](std::uint32_t member, std::uint32_t item, ItemLists& lists) {
    if (member == kNone || item == kNone) {
      ++data.counts.pairs_without_features;
    } else {
      ++lists.begin[member + 1];
    }
  });
  for (ItemLists* lists : {&data.liked, &data.not_liked}) {
    for (std::size_t member = 0; member < members.numbers.size(); ++member) {
      lists->begin[member + 1] += lists->begin[member];
    }
    lists->items.resize(static_cast<std::size_t>(lists->begin.back()));
  }
  std::vector<std::uint64_t> next_liked(data.liked.begin);
  std::vector<std::uint64_t> next_not_liked(data.not_liked.begin);
  for_all([&](std::uint32_t member, std::uint32_t item, ItemLists& lists) {
    if (member != kNone && item != kNone) {
      std::vector<std::uint64_t>& next = &lists == &data.liked ? next_liked : next_not_liked;
      lists.items[static_cast<std::size_t>(next[member]++)] = item;
    }
  });
}

void write_lists(StateWriter& writer, const ItemLists& lists) {
  writer.write_all(lists.begin);
  writer.write_all(lists.items);
}

ItemLists read_lists(StateReader& reader, std::size_t members, std::size_t items) {
  ItemLists lists;
  lists.begin = reader.read_all<std::uint64_t>(members + 1);
  lists.items = reader.read_all<std::uint32_t>(kMostPairs);
  if (lists.begin.size() != members + 1 || lists.begin.front() != 0 ||
      lists.begin.back() != lists.items.size()) {
    reader.fail("the items are not one list for every member");
  }
  for (std::size_t member = 0; member < members; ++member) {
    if (lists.begin[member] > lists.begin[member + 1]) {
      reader.fail("the items are not one list for every member");
    }
  }
  for (const std::uint32_t item : lists.items) {
    if (item >= items) {
      reader.fail("an item has a number that is too large");
    }
  }
  return lists;
}

void check_features(StateReader& reader, std::span<const float> features, std::size_t rows) {
  if (features.size() != rows * kRecommendationFeatures) {
    reader.fail("a member or an item has not ten features");
  }
  for (const float value : features) {
    if (!(std::abs(value) <= 1.0F)) {
      reader.fail("a feature of a unit vector is larger than one");
    }
  }
}

}  // namespace

std::string preparation_text(const PreparationOptions& preparation) {
  return fmt::format(
      "kind={} protocol={} svd={} liked_above={} disliked_below={} most_users={} most_items={} "
      "data_seed={}",
      preparation.kind == RatingKind::kStars ? "stars" : "links",
      preparation.protocol == Protocol::kText ? "text" : "notebook",
      preparation.svd == SvdSource::kAll ? "all" : "held-out", preparation.liked_above,
      preparation.disliked_below, preparation.most_users, preparation.most_items,
      preparation.data_seed);
}

RecommendationData prepare_recommendation(const Ratings& ratings,
                                          const PreparationOptions& preparation,
                                          ThreadPool& threads) {
  const bool links = preparation.kind == RatingKind::kLinks;
  const std::uint64_t directions = links ? 2 : 1;
  const auto most_users = static_cast<std::size_t>(
      links ? std::min(preparation.most_users, preparation.most_items) : preparation.most_users);
  const auto most_items = links ? most_users : static_cast<std::size_t>(preparation.most_items);
  ReducedRatings reduced = reduce_ratings(ratings, most_users, most_items);
  RecommendationData data;
  data.counts = {.ratings = ratings.size() / directions,
                 .users = ratings.user_count(),
                 .items = ratings.item_count(),
                 .kept_ratings = reduced.rows.size() / directions,
                 .kept_users = reduced.users.size(),
                 .kept_items = reduced.items.size()};

  const RatingLabels labels =
      links ? label_links(reduced, preparation) : label_stars(reduced, preparation);
  reduced.rows = {};
  data.counts.between_bounds = labels.dropped;
  data.counts.non_links = labels.non_links;
  std::vector<bool> in_matrix(labels.rows.size(), true);
  std::vector<bool> in_rounds = in_matrix;
  if (preparation.svd == SvdSource::kHeldOut) {
    in_matrix = draw_half(labels.rows.size(), preparation.data_seed);
    in_rounds = in_matrix;
    in_rounds.flip();
  }

  const SparseMatrix matrix = make_matrix(labels, in_matrix, reduced);
  if (matrix.nonZeros() == 0) {
    throw Error(ErrorKind::kInput, fmt::format("no ratings to make features of: {} of {} are left",
                                               labels.rows.size(), data.counts.ratings));
  }
  const std::size_t components = component_count(preparation);
  const TruncatedSvd svd = truncated_svd(matrix, components, threads);
  const Side members = make_features(svd.left, components, reduced.users);
  const Side items = make_features(svd.right, components, reduced.items);
  make_lists(labels, in_rounds, members, items, data);
  if (data.liked.items.empty() || data.not_liked.items.empty()) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("no rounds can be made: {} pairs are liked and {} are not, of users and "
                    "items that have features",
                    data.liked.items.size(), data.not_liked.items.size()));
  }
  data.counts.rank = svd.rank;
  data.counts.svd_ratings = static_cast<std::uint64_t>(matrix.nonZeros()) / directions;
  data.counts.round_ratings = (data.liked.items.size() + data.not_liked.items.size()) / directions;
  data.counts.users_without_features = members.without;
  data.counts.items_without_features = items.without;
  data.member_features = members.features;
  data.member_numbers = members.numbers;
  data.item_features = items.features;
  data.item_numbers = items.numbers;
  return data;
}

std::string describe(const RecommendationData& data) {
  const PreparationCounts& counts = data.counts;
  std::string text = fmt::format(
      "{} ratings by {} users of {} items; kept {} by {} of {}; features from {}; rounds from {}: "
      "{} pairs that are liked, {} that are not",
      counts.ratings, counts.users, counts.items, counts.kept_ratings, counts.kept_users,
      counts.kept_items, counts.svd_ratings, counts.round_ratings, data.liked.items.size(),
      data.not_liked.items.size());
  if (counts.non_links > 0) {
    text += fmt::format("; {} non-links drawn", counts.non_links);
  }
  if (counts.between_bounds > 0) {
    text += fmt::format("; left out: {} ratings neither high nor low", counts.between_bounds);
  }
  if (counts.users_without_features + counts.items_without_features > 0) {
    text += fmt::format("; left out: {} users and {} items without features, with {} pairs",
                        counts.users_without_features, counts.items_without_features,
                        counts.pairs_without_features);
  }
  if (counts.rank < kRecommendationFeatures - 1) {
    text += fmt::format("; the matrix has only {} singular values", counts.rank);
  }
  return text;
}

void save_recommendation(const std::filesystem::path& path, const RecommendationData& data,
                         const Provenance& made_from) {
  save_state_file(path, kRecommendationState, [&](StateWriter& writer) {
    write_provenance(writer, made_from);
    writer.write(data.counts);
    writer.write_all(data.item_numbers);
    writer.write_all(data.member_numbers);
    writer.write_all(data.item_features);
    writer.write_all(data.member_features);
    write_lists(writer, data.liked);
    write_lists(writer, data.not_liked);
  });
}

RecommendationData load_recommendation(const std::filesystem::path& path,
                                       const Provenance& made_from) {
  RecommendationData data;
  load_state_file(path, kRecommendationState, [&](StateReader& reader) {
    check_provenance(reader, made_from);
    data.counts = reader.read<PreparationCounts>();
    data.item_numbers = reader.read_all<std::uint32_t>(kMostMembers);
    data.member_numbers = reader.read_all<std::uint32_t>(kMostMembers);
    data.item_features =
        reader.read_all<float>(data.item_count() * std::uint64_t{kRecommendationFeatures});
    data.member_features =
        reader.read_all<float>(data.member_count() * std::uint64_t{kRecommendationFeatures});
    check_features(reader, data.item_features, data.item_count());
    check_features(reader, data.member_features, data.member_count());
    data.liked = read_lists(reader, data.member_count(), data.item_count());
    data.not_liked = read_lists(reader, data.member_count(), data.item_count());
    if (data.liked.items.empty() || data.not_liked.items.empty()) {
      reader.fail("there are no pairs of both kinds");
    }
  });
  return data;
}

}  // namespace mcnb
