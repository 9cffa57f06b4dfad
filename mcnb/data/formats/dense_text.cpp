#include "mcnb/data/formats/dense_text.h"

#include <fmt/format.h>

#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/class_labels.h"
#include "mcnb/data/formats/column_growth.h"
#include "mcnb/data/formats/rating_rows.h"

namespace mcnb {
namespace {

struct DensePart : TextPart {
  DensePart(const NameTable& known, const DenseLayout& row_layout)
      : labels(known), layout(&row_layout), known_labels(&known) {}

  std::vector<float> values;
  NumberColumn labels;
  const DenseLayout* layout;
  const NameTable* known_labels;
  std::vector<std::string_view> fields;
  std::string scratch;

  void row(std::string_view line) {
    split_row(line, layout->separator, fields, scratch);
    if (fields.size() != layout->columns) {
      refuse_column_count(layout->columns, fields.size());
    }
    for (std::size_t column = 0; column < fields.size(); ++column) {
      if (column != layout->label) {
        values.push_back(number(column));
      }
    }
    const std::string_view label = fields[layout->label];
    if (!layout->class_names.empty() &&
        known_labels->find(NameTable::key(label)) == NameTable::kNone) {
      refuse_field("class", fmt::format("one of {}", fmt::join(layout->class_names, ", ")), label);
    }
    labels.add("label", label);
  }

  float number(std::size_t column) const {
    const float value = parse_float(fields[column]);
    if (std::isnan(value)) {
      refuse_field(fmt::format("column {}", column + 1), "a number", fields[column]);
    }
    return value;
  }

  void reset() {
    TextPart::reset();
    values.clear();
    labels.reset();
  }
};

}  // namespace

void split_row(std::string_view line, char separator, std::vector<std::string_view>& fields,
               std::string& scratch) {
  if (separator == ' ') {
    fields.resize(split_at_blanks(line, fields));
    split_at_blanks(line, fields);
  } else {
    split_csv(line, separator, fields, scratch);
  }
}

Samples read_dense_text(TextReader& text, const DenseLayout& layout) {
  NameTable names;
  for (const std::string& name : layout.class_names) {
    names.add(NameTable::key(name));
  }
  Samples samples;
  samples.dimension = layout.columns - 1;
  std::vector<std::uint32_t> labels;
  text.for_each_part([&] { return DensePart(names, layout); },
                     [&](std::span<DensePart> parts) {
                       for (DensePart& part : parts) {
                         make_room(samples.values, part.values.size(), text.expected_growth());
                         samples.values.insert(samples.values.end(), part.values.begin(),
                                               part.values.end());
                         part.labels.settle(names, labels);
                       }
                     });
  if (labels.empty()) {
    throw Error(ErrorKind::kInput, text.name() + ": expected samples, found none");
  }
  if (layout.class_names.empty()) {
    std::vector<std::string> met;
    for (std::size_t k = 0; k < names.size(); ++k) {
      met.push_back(names.names().text(k));
    }
    set_class_labels(samples, labels, met, text.name());
  } else {
    samples.class_names = layout.class_names;
    samples.labels.assign(labels.begin(), labels.end());
  }
  samples.report = std::move(text.report());
  samples.report.rows = samples.size();
  return samples;
}

}  // namespace mcnb
