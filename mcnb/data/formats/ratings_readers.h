#pragma once

#include <string>

#include "mcnb/base/thread_pool.h"
#include "mcnb/data/formats/header_line.h"
#include "mcnb/data/formats/input.h"
#include "mcnb/data/ratings.h"

namespace mcnb {

// Readers of ratings, one per public format. Each reads plain text or gzip, with or without
// carriage returns and a byte order mark, and throws Error (kInput) of the form
// "ratings.csv:17: rating: expected a number from 0.5 to 5, found 'good'" at the first row that is
// not as its home publishes it. Blank lines mean nothing. Ids are kept as text, whatever they are.

// MovieLens, in all three forms, told apart by the first line: ratings.csv (userId,movieId,rating,
// timestamp under a header), ratings.dat (user::item::rating::timestamp) and u.data (tabs).
// Ratings from 0.5 to 5.
Ratings read_movielens(const Input& input, ThreadPool& threads);

// Yelp: one JSON object per line with user_id, business_id and stars from 1 to 5.
Ratings read_yelp_reviews(const Input& input, ThreadPool& threads);

// Amazon: one JSON object per line with reviewerID, asin and overall from 1 to 5.
Ratings read_amazon_reviews(const Input& input, ThreadPool& threads);

// Amazon "ratings only", the edition of 2018: item, user, rating from 1 to 5 and time, without a
// header. (Editions before have the user first, and nothing in the file says so.)
Ratings read_amazon_ratings(const Input& input, ThreadPool& threads);

// SNAP edge lists: two nodes, whole numbers, per line, parted by blanks; '#' starts a comment line.
// The graph is taken as undirected: nodes are users and items at once, under one numbering, and
// every link is there in both directions with the value 1, first from the node with the lower
// number. Links given again, in either direction, are duplicates; links of a node to itself are
// left out and reported. `rows` counts links, not directions.
Ratings read_edge_list(const Input& input, ThreadPool& threads);

// Any CSV with a user, an item and a rating per row. The columns are those of the names given here;
// else those that the first line calls by a usual name (user, userId, user_id, ...; item, movieId,
// asin, ...; rating, stars, overall, score); else the first three. Unless told, a first line
// without usual names is a header where no field of it is a number. Fields may be quoted, but not
// run over several lines. Every row has as many columns as the first line.
struct RatingsCsvOptions {
  std::string user_column;
  std::string item_column;
  std::string rating_column;
  char separator = ',';
  HeaderLine header = HeaderLine::kAuto;
};
Ratings read_ratings_csv(const Input& input, const RatingsCsvOptions& options, ThreadPool& threads);

}  // namespace mcnb
