#pragma once

#include <simdjson.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/data/formats/read_report.h"
#include "mcnb/data/formats/text_fields.h"
#include "mcnb/evaluate/readers/log_reader.h"

namespace mcnb {

// Reads the rounds of one line. Throws RowError or Error (kInput) for a damaged line, before it has
// visited any of its rounds. `leave_out` is called instead with the kind of a line that is sound,
// but no round. After a line TextReader::kPadding bytes can be read.
class LineReader {
 public:
  virtual ~LineReader() = default;
  using LeaveOut = std::function<void(std::string_view kind)>;
  virtual void read(std::string_view line, const VisitRound& visit, const LeaveOut& leave_out) = 0;
};

std::unique_ptr<LineReader> make_dsjson_reader();
std::unique_ptr<LineReader> make_json_lines_reader();
// The header is the first line. `input` is read once before, if its rows do not name all actions.
std::unique_ptr<LineReader> make_csv_reader(std::string_view header, const Input& input);
std::unique_ptr<LineReader> make_open_bandit_reader(std::string_view header,
                                                    const LogReadOptions& options);

// Access to members of JSON objects. They throw RowError naming the member unless it has the type.
namespace json {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

std::optional<Element> find(const Object& object, const char* name);
Element need(const Object& object, const char* name);
Object object_of(const Element& value, const char* name);
Array array_of(const Element& value, const char* name);
double number_of(const Element& value, const char* name);
std::uint32_t index_of(const Element& value, const char* name);
std::string text_of(const Element& value, const char* name);
bool flag_of(const Element& value, const char* name);

// The object as text, without the members that `leave_out` names; empty if none is left.
std::string without(const Object& object, std::initializer_list<std::string_view> leave_out);

// Parses a line of TextReader; the result is valid until the next call.
Object parse_line(simdjson::dom::parser& parser, std::string_view line);

}  // namespace json

// Reads a round of our own shape into `round`.
void read_json_round(const json::Object& line, LoggedRound& round);

}  // namespace mcnb
