#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/data/formats/input.h"
#include "mcnb/evaluate/estimate/estimators.h"

namespace mcnb {

// True for the header of a table that says what a policy would have done: it has a column
// policy_probability.
bool is_policy_table(std::string_view header);

// A row of such a table.
struct PolicyRow {
  EvaluatedRow row;
  double probability = 0.0;  // of the logged action, in the log
};

// Reads a CSV table with the columns `probability` (that the log gave the logged action),
// `policy_probability` (that the policy gives it) and `reward`, and perhaps `model_logged` and
// `model_policy`: what a model expects of the logged action, and of the policy. Other columns are
// skipped. Keeps a few MiB in memory, whatever the length of the table.
class ColumnReader {
 public:
  // Throws Error (kInput), which names the file and the line, as `read` does, for a header without
  // these columns.
  ColumnReader(const Input& input, std::uint64_t skip_bad);

  // Fills rows from the front; returns how many. 0: the table has ended.
  std::size_t read(std::span<PolicyRow> rows);

  bool has_model() const { return has_model_; }
  std::uint64_t skipped() const { return skipped_; }

 private:
  enum Field : std::uint8_t {
    kProbability,
    kPolicyProbability,
    kReward,
    kModelLogged,
    kModelPolicy,
    kSkipped
  };

  bool next_line(std::string_view& line);
  bool fill();
  void read_header(std::string_view line);
  // Empty if the line is sound, else what is wrong with it.
  std::string parse(std::string_view line, PolicyRow& row) const;

  std::string name_;
  std::unique_ptr<ByteStream> stream_;
  std::uint64_t skip_bad_;
  std::uint64_t skipped_ = 0;
  std::uint64_t line_ = 0;
  std::vector<Field> fields_;
  bool has_model_ = false;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of what is left in the buffer
  std::size_t end_ = 0;
  bool ended_ = false;
};

}  // namespace mcnb
