#include "mcnb/experiment/results/plain_labels.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "mcnb/base/text_table.h"

namespace mcnb {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

constexpr std::array<Names, 16> kPolicyNames = {{{"club", "CLUB"},
                                                 {"cofiba", "COFIBA"},
                                                 {"epsilon-greedy", "epsilon-greedy"},
                                                 {"hierarchical", "hierarchical"},
                                                 {"kernelucb", "KernelUCB"},
                                                 {"linucb", "LinUCB"},
                                                 {"locb", "LOCB"},
                                                 {"mcnb", "M-CNB"},
                                                 {"neuau", "NeuA+U"},
                                                 {"neural-linear", "NeuralLinear"},
                                                 {"neuralts", "NeuralTS"},
                                                 {"neuucb-ind", "NeuUCB-IND"},
                                                 {"neuucb-one", "NeuUCB-ONE"},
                                                 {"oracle", "oracle"},
                                                 {"random", "random"},
                                                 {"sclub", "SCLUB"}}};

constexpr std::array<Names, 3> kUsers = {
    {{"users=each", "one per user"}, {"users=one", "one for all"}, {"users=hybrid", "hybrid"}}};

template <std::size_t count>
std::string_view name_in(const std::array<Names, count>& names, std::string_view key) {
  const auto found = std::ranges::find(names, key, &Names::first);
  return found == names.end() ? std::string_view() : found->second;
}

// "alpha=0.3" as "alpha 0.3"; underscores become spaces.
std::string plain_option(std::string_view option) {
  if (const std::string_view users = name_in(kUsers, option); !users.empty()) {
    return std::string(users);
  }
  std::string text(option);
  std::ranges::replace(text, '=', ' ');
  std::ranges::replace(text, '_', ' ');
  return text;
}

}  // namespace

std::string plain_label(const std::string& label) {
  std::size_t end = std::min(label.find(':'), label.size());
  const std::string_view name = name_in(kPolicyNames, std::string_view(label).substr(0, end));
  if (name.empty()) {
    return label;
  }
  std::string text(name);
  while (end < label.size()) {
    const std::size_t begin = end + 1;
    end = std::min(label.find(':', begin), label.size());
    text += ", " + plain_option(std::string_view(label).substr(begin, end - begin));
  }
  return text;
}

std::string latex_text(const std::string& text) {
  static constexpr std::array<Names, 12> kEscapes = {{{"\\", "\\textbackslash{}"},
                                                      {"&", "\\&"},
                                                      {"%", "\\%"},
                                                      {"$", "\\$"},
                                                      {"#", "\\#"},
                                                      {"_", "\\_"},
                                                      {"{", "\\{"},
                                                      {"}", "\\}"},
                                                      {"~", "\\textasciitilde{}"},
                                                      {"^", "\\textasciicircum{}"},
                                                      {"±", "\\ensuremath{\\pm}"},
                                                      {"<", "\\ensuremath{<}"}}};
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto escape = std::ranges::find_if(kEscapes, [&](const Names& one) {
      return std::string_view(text).substr(i).starts_with(one.first);
    });
    if (escape == kEscapes.end()) {
      out += text[i++];
    } else {
      out += escape->second;
      i += escape->first.size();
    }
  }
  return out;
}

bool is_number_cell(const std::string& cell) {
  return cell.empty() || std::isdigit(static_cast<unsigned char>(cell[0])) != 0 || cell[0] == '-' ||
         cell[0] == '+' || cell[0] == '<';
}

std::string booktabs(const TextTable& table) {
  const auto row_text = [](const std::vector<std::string>& cells) {
    std::string text;
    for (const std::string& cell : cells) {
      text += (text.empty() ? "" : " & ") + latex_text(plain_label(cell));
    }
    return text + " \\\\\n";
  };
  std::string columns;
  for (std::size_t column = 0; column < table.headings().size(); ++column) {
    columns += std::ranges::all_of(table.rows(),
                                   [&](const auto& row) { return is_number_cell(row[column]); })
                   ? 'r'
                   : 'l';
  }
  std::string text = "% Needs \\usepackage{booktabs}.\n\\begin{tabular}{" + columns +
                     "}\n\\toprule\n" + row_text(table.headings()) + "\\midrule\n";
  for (const std::vector<std::string>& row : table.rows()) {
    text += row_text(row);
  }
  return text + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace mcnb
