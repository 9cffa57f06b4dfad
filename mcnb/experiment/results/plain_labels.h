#pragma once

#include <string>

namespace mcnb {

// A policy for people who do not know our flags: "linucb:users=each:alpha=0.3" becomes "LinUCB, one
// per user, alpha 0.3". Any other text stays as it is.
std::string plain_label(const std::string& label);

// LaTeX for a text, and for a table with the rules of the package booktabs, whose columns of
// numbers are aligned to the right.
class TextTable;
std::string latex_text(const std::string& text);
std::string booktabs(const TextTable& table);

// A dash, or an empty cell, stands for a missing number.
bool is_number_cell(const std::string& cell);

}  // namespace mcnb
