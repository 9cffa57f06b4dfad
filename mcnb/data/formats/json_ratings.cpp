#include "mcnb/data/formats/json_ratings.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <string_view>

#include "mcnb/data/formats/rating_rows.h"

namespace mcnb {
namespace {

static_assert(TextReader::kPadding >= simdjson::SIMDJSON_PADDING);

// The value of the field with this name, which must occur once.
simdjson::dom::element field_of(const simdjson::dom::object& object, const std::string& name) {
  const simdjson::dom::element* found = nullptr;
  simdjson::dom::element value;
  for (const simdjson::dom::key_value_pair field : object) {
    if (field.key != name) {
      continue;
    }
    if (found != nullptr) {
      throw RowError{fmt::format("{}: expected once, found twice", name)};
    }
    value = field.value;
    found = &value;
  }
  if (found == nullptr) {
    throw RowError{fmt::format("expected a field {}, found none", shown(name))};
  }
  return value;
}

std::string_view text_of(const simdjson::dom::object& object, const std::string& name) {
  const simdjson::dom::element value = field_of(object, name);
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) {
    refuse_field(name, "a string", simdjson::minify(value));
  }
  return text;
}

double number_of(const simdjson::dom::object& object, const std::string& name) {
  const simdjson::dom::element value = field_of(object, name);
  double number = 0.0;
  if (value.get(number) != simdjson::SUCCESS) {
    refuse_field(name, "a number", simdjson::minify(value));
  }
  return number;
}

class JsonPart : public RatingPart {
 public:
  JsonPart(const RatingRows& rows, const ReviewFields& fields)
      : RatingPart(rows), fields_(&fields) {}

  void row(std::string_view line) {
    simdjson::dom::object review;
    const bool line_is_padded = true;
    const auto error = parser_.parse(line.data(), line.size(), !line_is_padded).get(review);
    if (error != simdjson::SUCCESS) {
      throw RowError{fmt::format("expected a JSON object, found {} ({})", shown(line),
                                 simdjson::error_message(error))};
    }
    const std::string_view user = text_of(review, fields_->user);
    const std::string_view item = text_of(review, fields_->item);
    const double rating = number_of(review, fields_->rating);
    if (!(rating >= fields_->lowest && rating <= fields_->highest)) {
      refuse_number(fields_->rating, fmt::format("{}", rating), fields_->lowest, fields_->highest);
    }
    values.push_back(static_cast<float>(rating));
    users.add(fields_->user, user);
    items.add(fields_->item, item);
  }

 private:
  const ReviewFields* fields_;
  simdjson::dom::parser parser_;
};

}  // namespace

Ratings read_json_ratings(TextReader& text, const ReviewFields& fields, ThreadPool& threads) {
  RatingRows rows(text, threads);
  rows.read([&](const RatingRows& known) { return JsonPart(known, fields); });
  return rows.finish();
}

}  // namespace mcnb
