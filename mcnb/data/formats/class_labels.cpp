#include "mcnb/data/formats/class_labels.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/text_fields.h"

namespace mcnb {

void set_class_labels(Samples& samples, const std::vector<std::uint32_t>& labels,
                      const std::vector<std::string>& names, const std::string& file) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint16_t>::max();
  if (names.size() > kMost) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: label: expected at most {} classes, found {}: labels are names of "
                            "classes, not measurements",
                            file, kMost, names.size()));
  }
  std::vector<double> numbers;
  for (const std::string& name : names) {
    numbers.push_back(parse_double(name));
  }
  const bool all_numbers =
      std::ranges::none_of(numbers, [](double number) { return std::isnan(number); });
  if (!all_numbers) {
    std::ranges::fill(numbers, 0.0);
  }
  std::vector<std::uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(numbers[a], names[a]) < std::tie(numbers[b], names[b]);
  });
  std::vector<std::uint16_t> class_of(names.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    class_of[order[k]] = static_cast<std::uint16_t>(k);
    samples.class_names.push_back(names[order[k]]);
  }
  samples.labels.reserve(labels.size());
  for (const std::uint32_t label : labels) {
    samples.labels.push_back(class_of[label]);
  }
}

}  // namespace mcnb
