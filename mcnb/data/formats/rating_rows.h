#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/data/formats/name_table.h"
#include "mcnb/data/formats/text_fields.h"
#include "mcnb/data/formats/text_reader.h"
#include "mcnb/data/ratings.h"

namespace mcnb {

// The users or the items of the rows of one part. Known names are looked up in `known`; new ones
// get a number within the part, marked kNew, until the part is merged.
class NumberColumn {
 public:
  explicit NumberColumn(const NameTable& known) : known_(&known) {}

  // Appends the number of a name. Throws RowError, naming the field, if the text is not a name.
  void add(std::string_view field, std::string_view name) {
    const NameTable::Key key = NameTable::key(name);
    // Rows often repeat the number of the row before. (Texts with equal codes may still differ.)
    if (key.code != last_code_ || key.is_text()) {
      const std::uint32_t number = known_->find(key);
      last_number_ = number != NameTable::kNone ? number : fresh_number(field, name, key);
      last_code_ = key.code;
    }
    numbers_.push_back(last_number_);
  }

  // Adds the new names to `known`, and appends the numbers in `known` to a column. May be called
  // once until reset.
  void settle(NameTable& known, std::vector<std::uint32_t>& column);

  void reset();

 private:
  static constexpr std::uint32_t kNew = std::uint32_t{1} << 31;

  std::uint32_t fresh_number(std::string_view field, std::string_view name,
                             const NameTable::Key& key);

  const NameTable* known_;
  NameTable fresh_;
  std::vector<std::uint32_t> numbers_;
  std::uint64_t last_code_ = NameList::kIsText;
  std::uint32_t last_number_ = 0;
};

struct RatingPart;

// Collects the parts of a text, in order, into Ratings.
class RatingRows {
 public:
  RatingRows(TextReader& text, ThreadPool& threads) : text_(text), threads_(threads) {}

  // Parses all remaining lines with parts made by `make_part(rows)`, which derive from RatingPart.
  template <class MakePart>
  void read(MakePart&& make_part) {
    text_.for_each_part([&] { return make_part(*this); },
                        [&](auto parts) {
                          merge({parts.begin(), parts.end()});
                        });
  }

  // All rows without duplicates. Throws Error (kInput) naming the file if there are none.
  Ratings finish();

 private:
  friend struct RatingPart;

  void merge(const std::vector<std::reference_wrapper<RatingPart>>& parts);

  TextReader& text_;
  ThreadPool& threads_;
  NameTable users_;
  NameTable items_;
  Ratings ratings_;
};

// The ratings in one piece of a text. A reader derives from it and adds its own `row`.
struct RatingPart : TextPart {
  explicit RatingPart(const RatingRows& rows) : users(rows.users_), items(rows.items_) {}

  NumberColumn users;
  NumberColumn items;
  std::vector<float> values;

  void reset();
};

// Keeps one row for every pair (user, item): the first row, with the value of the last. Returns how
// many rows were dropped. Requires numbers below the counts given.
std::uint64_t drop_duplicates(Ratings& ratings, std::size_t user_count, std::size_t item_count,
                              ThreadPool& threads);

}  // namespace mcnb
