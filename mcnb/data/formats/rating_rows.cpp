#include "mcnb/data/formats/rating_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/column_growth.h"

namespace mcnb {
namespace {

constexpr std::uint32_t kDropped = std::numeric_limits<std::uint32_t>::max();

// The rows of each user, in order: row(i) for i from begins[user] to begins[user + 1].
struct RowsByUser {
  std::vector<std::uint32_t> begins;
  std::vector<std::uint32_t> rows;  // empty if the rows are in this order already

  std::uint32_t row(std::uint32_t index) const { return rows.empty() ? index : rows[index]; }
};

RowsByUser rows_by_user(const std::vector<std::uint32_t>& users, std::size_t user_count) {
  RowsByUser result;
  result.begins.resize(user_count + 1);
  for (const std::uint32_t user : users) {
    ++result.begins[user + 1];
  }
  std::partial_sum(result.begins.begin(), result.begins.end(), result.begins.begin());
  if (std::ranges::is_sorted(users)) {
    return result;
  }
  std::vector<std::uint32_t> next = result.begins;
  result.rows.resize(users.size());
  for (std::size_t row = 0; row < users.size(); ++row) {
    result.rows[next[users[row]]++] = static_cast<std::uint32_t>(row);
  }
  return result;
}

template <class T>
void keep_rows(std::vector<T>& column, const std::vector<std::uint32_t>& users) {
  std::size_t kept = 0;
  for (std::size_t row = 0; row < users.size(); ++row) {
    if (users[row] != kDropped) {
      column[kept++] = column[row];
    }
  }
  column.resize(kept);
}

}  // namespace

std::uint32_t NumberColumn::fresh_number(std::string_view field, std::string_view name,
                                         const NameTable::Key& key) {
  check_name(field, name);
  return kNew | fresh_.add(key);
}

void NumberColumn::settle(NameTable& known, std::vector<std::uint32_t>& column) {
  const std::vector<std::uint32_t> settled = known.add_all(fresh_);
  for (std::uint32_t& number : numbers_) {
    if ((number & kNew) != 0) {
      number = settled[number ^ kNew];
    }
  }
  column.insert(column.end(), numbers_.begin(), numbers_.end());
}

void NumberColumn::reset() {
  fresh_.clear();
  numbers_.clear();
  last_code_ = NameList::kIsText;
}

void RatingPart::reset() {
  TextPart::reset();
  users.reset();
  items.reset();
  values.clear();
}

void RatingRows::merge(const std::vector<std::reference_wrapper<RatingPart>>& parts) {
  std::size_t added = 0;
  for (const RatingPart& part : parts) {
    added += part.values.size();
  }
  if (ratings_.size() + added >= kDropped) {
    throw Error(ErrorKind::kLimit,
                fmt::format("{}: more than {} ratings", text_.name(), kDropped - 1));
  }
  const double growth = text_.expected_growth();
  const auto add_users = [&] {
    make_room(ratings_.users, added, growth);
    for (RatingPart& part : parts) {
      part.users.settle(users_, ratings_.users);
    }
  };
  const auto add_items = [&] {
    make_room(ratings_.items, added, growth);
    for (RatingPart& part : parts) {
      part.items.settle(items_, ratings_.items);
    }
  };
  const auto add_values = [&] {
    make_room(ratings_.values, added, growth);
    for (const RatingPart& part : parts) {
      ratings_.values.insert(ratings_.values.end(), part.values.begin(), part.values.end());
    }
  };
  const std::array<std::function<void()>, 3> columns = {add_users, add_items, add_values};
  threads_.parallel_for(columns.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t column = begin; column < end; ++column) {
      columns[column]();
    }
  });
}

Ratings RatingRows::finish() {
  if (ratings_.size() == 0) {
    throw Error(ErrorKind::kInput, text_.name() + ": expected ratings, found none");
  }
  ratings_.report = std::move(text_.report());
  ratings_.report.rows = ratings_.size();
  ratings_.report.duplicates = drop_duplicates(ratings_, users_.size(), items_.size(), threads_);
  ratings_.user_names = users_.take_names();
  ratings_.item_names = items_.take_names();
  return std::move(ratings_);
}

std::uint64_t drop_duplicates(Ratings& ratings, std::size_t user_count, std::size_t item_count,
                              ThreadPool& threads) {
  const RowsByUser by_user = rows_by_user(ratings.users, user_count);
  // Each range of users has an array over all items, so there are only a few ranges.
  const std::size_t grain = user_count / (4 * threads.thread_count()) + 1;
  std::vector<std::uint64_t> dropped(user_count / grain + 1);
  threads.parallel_for(user_count, grain, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint32_t> met(item_count);  // 1 + the index of the item's latest first row
    for (std::size_t user = begin; user < end; ++user) {
      const std::uint32_t first = by_user.begins[user];
      for (std::uint32_t index = first; index < by_user.begins[user + 1]; ++index) {
        const std::uint32_t row = by_user.row(index);
        std::uint32_t& note = met[ratings.items[row]];
        if (note > first) {  // written by this user: earlier users have lower indices
          ratings.values[by_user.row(note - 1)] = ratings.values[row];
          ratings.users[row] = kDropped;
          ++dropped[begin / grain];
        } else {
          note = index + 1;
        }
      }
    }
  });
  const std::uint64_t count = std::accumulate(dropped.begin(), dropped.end(), std::uint64_t{0});
  if (count > 0) {
    keep_rows(ratings.items, ratings.users);
    keep_rows(ratings.values, ratings.users);
    std::erase(ratings.users, kDropped);
  }
  return count;
}

}  // namespace mcnb
