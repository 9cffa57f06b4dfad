#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "mcnb/data/formats/dense_text.h"
#include "mcnb/data/formats/samples_readers.h"

namespace mcnb {
namespace {

// What may be between columns if nothing is said; a comma first.
constexpr std::array<std::string_view, 4> kSampleSeparators = {",", ";", "\t", " "};

// The column of the label, by its name in the header.
std::size_t label_column(const TextReader& text, const std::vector<std::string_view>& header,
                         const std::string& name) {
  const auto found = std::ranges::find(header, name);
  if (found == header.end()) {
    text.refuse_line(
        fmt::format("expected a column {} for the label, found none of that name", shown(name)));
  }
  return static_cast<std::size_t>(found - header.begin());
}

}  // namespace

Samples read_labelled_csv(const Input& input, const LabelledCsvOptions& options,
                          ThreadPool& threads) {
  refuse_names_without_header(options.header, "label_column", options.label_column);
  TextReader text(input, threads);
  std::vector<std::string_view> first;
  std::string scratch;
  const std::string_view line = text.need_line();
  const char separator = options.separator == '\0'
                             ? recognised_separator(line, kSampleSeparators).front()
                             : options.separator;
  try {
    split_row(line, separator, first, scratch);
  } catch (const RowError& error) {
    text.refuse_line(error.message);
  }
  if (first.size() < 2) {
    text.refuse_line(fmt::format(
        "expected at least 2 columns separated by {}, found {}",
        options.separator == '\0' ? "commas, semicolons, tabs or blanks" : shown({&separator, 1}),
        first.size()));
  }
  DenseLayout layout{.separator = separator,
                     .columns = first.size(),
                     .label = first.size() - 1,
                     .class_names = {}};
  bool is_header = options.header != HeaderLine::kNo;
  if (!options.label_column.empty()) {
    layout.label = label_column(text, first, options.label_column);
  } else if (options.header == HeaderLine::kAuto) {
    for (std::size_t column = 0; column < layout.label; ++column) {
      is_header = is_header && std::isnan(parse_float(first[column]));
    }
  }
  if (is_header) {
    text.skip_line();
  }
  return read_dense_text(text, layout);
}

}  // namespace mcnb
