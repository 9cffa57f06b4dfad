#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/delimited_ratings.h"
#include "mcnb/data/formats/npy_header.h"
#include "mcnb/data/formats/ratings_readers.h"

namespace mcnb {
namespace {

// Usual names of columns, compared without capitals, underscores and blanks.
constexpr std::array<std::string_view, 8> kUserNames = {
    "user", "userid", "reviewerid", "uid", "username", "customerid", "memberid", "profileid"};
constexpr std::array<std::string_view, 20> kItemNames = {
    "item",   "itemid",  "movieid", "businessid", "asin",    "parentasin", "productid",
    "iid",    "isbn",    "bookid",  "songid",     "gameid",  "artistid",   "trackid",
    "newsid", "animeid", "jokeid",  "recipeid",   "videoid", "articleid"};
constexpr std::array<std::string_view, 8> kRatingNames = {
    "rating", "stars", "overall", "score", "ratings", "bookrating", "userrating", "ratingscore"};

// What may be between columns if nothing is said; a comma first.
constexpr std::array<std::string_view, 4> kRatingSeparators = {",", ";", "\t", "::"};
constexpr std::size_t kMostPlainColumns = 4;  // of DelimitedPart, for separators of two characters

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_' && c != ' ' && c != '-') {
      plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
  }
  return plain;
}

using Header = std::vector<std::string_view>;

// The column with the given name, or with a usual one.
std::optional<std::size_t> find_column(const Header& header, const std::string& given,
                                       std::span<const std::string_view> usual) {
  for (std::size_t column = 0; column < header.size(); ++column) {
    const bool is_it = given.empty()
                           ? std::ranges::find(usual, plain_name(header[column])) != usual.end()
                           : header[column] == given;
    if (is_it) {
      return column;
    }
  }
  return std::nullopt;
}

bool names_given(const RatingsCsvOptions& options) {
  return !options.user_column.empty() || !options.item_column.empty() ||
         !options.rating_column.empty();
}

// Finds the columns by their names in the first line. Returns false if no name is known: then the
// line is a row, or a header with other names.
bool find_columns(TextReader& text, const Header& header, const RatingsCsvOptions& options,
                  RatingLayout& layout) {
  const auto user = find_column(header, options.user_column, kUserNames);
  const auto item = find_column(header, options.item_column, kItemNames);
  const auto rating = find_column(header, options.rating_column, kRatingNames);
  if (!user && !item && !rating && !names_given(options)) {
    return false;
  }
  const auto need = [&](std::optional<std::size_t> column, std::string_view what,
                        const std::string& name) {
    if (!column) {
      text.refuse_line(
          name.empty()
              ? fmt::format("expected a column with a usual name for the {0}, such as {1}, found "
                            "none: {0}_column= names it",
                            what, shown(what))
              : fmt::format("expected a column {} for the {}, found none of that name", shown(name),
                            what));
    }
    return *column;
  };
  layout.user = need(user, "user", options.user_column);
  layout.item = need(item, "item", options.item_column);
  layout.rating = need(rating, "rating", options.rating_column);
  return true;
}

// A comma in quotes is no separator; "::" has no quotes.
void split_first(std::string_view line, std::string_view separator, Header& fields,
                 std::string& scratch) {
  if (separator.size() == 1) {
    split_csv(line, separator[0], fields, scratch);
    return;
  }
  fields.resize(split(line, separator, {}));
  split(line, separator, fields);
}

void refuse_array(const Input& input) {
  if (is_npy(input)) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected a table with a user, an item and a rating in each row, "
                            "found a NumPy array (.npy); the environment samples reads those",
                            input.name()));
  }
}

bool is_number(std::string_view field) { return !std::isnan(parse_float(field)); }

}  // namespace

Ratings read_ratings_csv(const Input& input, const RatingsCsvOptions& options,
                         ThreadPool& threads) {
  refuse_names_without_header(options.header, "user_column", options.user_column);
  refuse_names_without_header(options.header, "item_column", options.item_column);
  refuse_names_without_header(options.header, "rating_column", options.rating_column);
  refuse_array(input);
  TextReader text(input, threads);
  const std::string_view first = text.need_line();
  Header header;
  std::string scratch;
  const std::string separator(options.separator == '\0'
                                  ? recognised_separator(first, kRatingSeparators)
                                  : std::string_view(&options.separator, 1));
  try {
    split_first(first, separator, header, scratch);
  } catch (const RowError& error) {
    text.refuse_line(error.message);
  }
  if (header.size() < 3) {
    text.refuse_line(
        options.separator == '\0'
            ? fmt::format("expected at least 3 columns separated by commas, semicolons, tabs or "
                          "'::', found {}; separator= names what separates them",
                          header.size())
            : fmt::format("expected at least 3 columns separated by {}, found {}; separator= names "
                          "what separates them",
                          shown(separator), header.size()));
  }
  if (separator.size() > 1 && header.size() > kMostPlainColumns) {
    text.refuse_line(fmt::format("expected at most {} columns separated by {}, found {}",
                                 kMostPlainColumns, shown(separator), header.size()));
  }
  RatingLayout layout{.separator = separator,
                      .quotes = separator.size() == 1,
                      .columns = header.size(),
                      .lowest = std::numeric_limits<float>::lowest(),
                      .highest = std::numeric_limits<float>::max()};
  if (options.header != HeaderLine::kNo) {
    const bool has_names = find_columns(text, header, options, layout);
    if (has_names || options.header == HeaderLine::kYes ||
        std::ranges::none_of(header, is_number)) {
      text.skip_line();
    }
  }
  return read_delimited_ratings(text, layout, threads);
}

}  // namespace mcnb
