#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/rating_rows.h"
#include "mcnb/data/formats/ratings_readers.h"

namespace mcnb {
namespace {

struct EdgePart : TextPart {
  explicit EdgePart(const NameTable& known) : nodes(known) {}

  NumberColumn nodes;  // the two ends of each link, one after the other

  void row(std::string_view line) {
    if (trimmed(line).starts_with('#')) {
      return;
    }
    std::array<std::string_view, 2> ends;
    const std::size_t count = split_at_blanks(line, ends);
    if (count != ends.size()) {
      refuse_column_count(ends.size(), count);
    }
    for (const std::string_view end : ends) {
      if (whole_number(end) == kNoWholeNumber) {
        refuse_field("node", "a whole number", end);
      }
    }
    if (ends[0] == ends[1]) {
      skip("links of a node to itself");
      return;
    }
    nodes.add("node", ends[0]);
    nodes.add("node", ends[1]);
  }

  void reset() {
    TextPart::reset();
    nodes.reset();
  }
};

// Every link once, from the lower to the higher number.
Ratings one_direction(const std::vector<std::uint32_t>& ends) {
  Ratings links;
  links.users.reserve(ends.size() / 2);
  links.items.reserve(ends.size() / 2);
  for (std::size_t k = 0; k < ends.size(); k += 2) {
    const auto [low, high] = std::minmax(ends[k], ends[k + 1]);
    links.users.push_back(low);
    links.items.push_back(high);
  }
  links.values.assign(links.users.size(), 1.0F);
  return links;
}

Ratings both_directions(const Ratings& links) {
  Ratings both;
  both.users.reserve(2 * links.size());
  both.items.reserve(2 * links.size());
  for (std::size_t k = 0; k < links.size(); ++k) {
    both.users.insert(both.users.end(), {links.users[k], links.items[k]});
    both.items.insert(both.items.end(), {links.items[k], links.users[k]});
  }
  both.values.assign(2 * links.size(), 1.0F);
  return both;
}

}  // namespace

Ratings read_edge_list(const Input& input, ThreadPool& threads) {
  constexpr std::size_t kMostEnds = std::size_t{1} << 32;
  TextReader text(input, threads);
  NameTable names;
  std::vector<std::uint32_t> ends;
  text.for_each_part([&] { return EdgePart(names); },
                     [&](std::span<EdgePart> parts) {
                       for (EdgePart& part : parts) {
                         part.nodes.settle(names, ends);
                       }
                       if (ends.size() >= kMostEnds) {
                         throw Error(ErrorKind::kLimit, text.name() + ": more than 2^31 links");
                       }
                     });
  if (ends.empty()) {
    throw Error(ErrorKind::kInput, text.name() + ": expected links, found none");
  }
  Ratings links = one_direction(ends);
  const std::uint64_t rows = links.size();
  const std::uint64_t duplicates = drop_duplicates(links, names.size(), names.size(), threads);
  Ratings ratings = both_directions(links);
  ratings.report = std::move(text.report());
  ratings.report.rows = rows;
  ratings.report.duplicates = duplicates;
  ratings.user_names = names.take_names();
  ratings.item_names = ratings.user_names;
  return ratings;
}

}  // namespace mcnb
