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
// not in the published format. Blank lines are ignored. Ids of any form are kept as text.

// MovieLens in all three forms, recognised by the first line: ratings.csv (userId,movieId,rating,
// timestamp under a header), ratings.dat (user::item::rating::timestamp) and u.data (tabs).
// Ratings from 0.5 to 5.
Ratings read_movielens(const Input& input, ThreadPool& threads);

// Yelp: one JSON object per line with user_id, business_id and stars from 1 to 5.
Ratings read_yelp_reviews(const Input& input, ThreadPool& threads);

// Amazon: one JSON object per line with reviewerID, asin and overall from 1 to 5.
Ratings read_amazon_reviews(const Input& input, ThreadPool& threads);

// Amazon "ratings only", the edition of 2018: item, user, rating from 1 to 5 and time, without a
// header. (Earlier editions have the user first, which the file does not tell.)
Ratings read_amazon_ratings(const Input& input, ThreadPool& threads);

// SNAP edge lists: two nodes (whole numbers) per line, separated by blanks; '#' starts a comment
// line. The graph is undirected: a node is both a user and an item, with the same number, and every
// link occurs in both directions with the value 1, first from the node with the lower number.
// Repeated links, in either direction, are duplicates; links of a node to itself are left out and
// reported. `rows` counts links, not directions.
Ratings read_edge_list(const Input& input, ThreadPool& threads);

// Any table with a user, an item and a rating per row. The separator is the given one, otherwise a
// comma, a semicolon, a tab or "::" (with at most four columns, and no quotes), recognised by the
// first line. The columns are those named in the options; else those with a usual name in the first
// line (user, userId, User-ID, ...; item, movieId, ISBN, ...; rating, Book-Rating, stars, ...);
// else the first three. With HeaderLine::kAuto, a first line without usual names is a header if
// none of its fields is a number. Fields may be quoted, but must end on their line. Every row has
// as many columns as the first line.
struct RatingsCsvOptions {
  std::string user_column;
  std::string item_column;
  std::string rating_column;
  char separator = '\0';  // recognised by the first line
  HeaderLine header = HeaderLine::kAuto;
};
Ratings read_ratings_csv(const Input& input, const RatingsCsvOptions& options, ThreadPool& threads);

}  // namespace mcnb
