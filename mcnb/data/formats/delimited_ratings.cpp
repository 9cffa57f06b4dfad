#include "mcnb/data/formats/delimited_ratings.h"

#include <array>
#include <span>
#include <vector>

#include "mcnb/base/check.h"
#include "mcnb/data/formats/rating_rows.h"

namespace mcnb {
namespace {

// The largest number of columns in a format without quotes.
constexpr std::size_t kPlainColumns = 4;

struct DelimitedPart : RatingPart {
  DelimitedPart(const RatingRows& rows, const RatingLayout& row_layout)
      : RatingPart(rows), layout(&row_layout) {}

  const RatingLayout* layout;
  std::vector<std::string_view> unquoted;
  std::string scratch;

  void row(std::string_view line) {
    if (layout->quotes) {
      split_csv(line, layout->separator[0], unquoted, scratch);
      add(unquoted, unquoted.size());
    } else {
      std::array<std::string_view, kPlainColumns> fields;
      add(fields, split_padded(line, layout->separator, fields));
    }
  }

  void add(std::span<const std::string_view> fields, std::size_t count) {
    if (count != layout->columns) {
      refuse_column_count(layout->columns, count);
    }
    values.push_back(
        parse_float_field("rating", fields[layout->rating], layout->lowest, layout->highest));
    users.add("user", fields[layout->user]);
    items.add("item", fields[layout->item]);
  }
};

}  // namespace

Ratings read_delimited_ratings(TextReader& text, const RatingLayout& layout, ThreadPool& threads) {
  check(layout.quotes || layout.columns <= kPlainColumns, "plain rows have few columns");
  check(layout.separator.size() == 1 || (layout.separator.size() == 2 && !layout.quotes),
        "a separator has one character, or two where nothing is quoted");
  RatingRows rows(text, threads);
  rows.read([&](const RatingRows& known) { return DelimitedPart(known, layout); });
  return rows.finish();
}

}  // namespace mcnb
