#include "mcnb/experiment/report/html_page.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>

#include "mcnb/base/error.h"
#include "mcnb/experiment/report/shown_study.h"

namespace mcnb {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light; }
body { font: 16px/1.5 "DejaVu Sans", Verdana, sans-serif; color: #222; background: #fff;
       max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 3rem; border-bottom: 1px solid #ddd; }
nav a { margin-right: 1rem; }
img { max-width: 100%; height: auto; border: 1px solid #eee; }
figure { margin: 1.5rem 0; }
figcaption, caption { text-align: left; color: #444; font-size: .9rem; padding: .3rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #eee; white-space: nowrap; }
th { text-align: left; border-bottom: 2px solid #999; }
.number { text-align: right; }
.made th { border-bottom-width: 1px; vertical-align: top; }
.made td { white-space: normal; overflow-wrap: anywhere; }
.note { background: #fff6e0; padding: .5rem 1rem; }
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string base64_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && bytes.empty()) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be read", path.string()));
  }
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// A dash, or an empty cell, stands for a missing number.
bool is_number(const std::string& cell) {
  return cell.empty() || std::isdigit(static_cast<unsigned char>(cell[0])) != 0 || cell[0] == '-' ||
         cell[0] == '+' || cell[0] == '<';
}

// Columns of numbers are aligned to the right, with their headings.
std::string table_html(const NamedTable& table) {
  const std::vector<std::vector<std::string>>& rows = table.for_people.rows();
  std::string out = "<div class=\"wide\"><table>";
  out += "<caption>" + escaped(table.caption) + " (" + escaped(table.name) + ".csv)</caption>";
  out += "<thead><tr>";
  std::vector<const char*> classes;
  for (const std::string& heading : table.for_people.headings()) {
    const std::size_t column = classes.size();
    const bool of_numbers =
        std::ranges::all_of(rows, [&](const auto& row) { return is_number(row[column]); });
    classes.push_back(of_numbers ? " class=\"number\"" : "");
    out += fmt::format("<th{}>{}</th>", classes.back(), escaped(heading));
  }
  out += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t column = 0; column < row.size(); ++column) {
      out += fmt::format("<td{}>{}</td>", classes[column], escaped(row[column]));
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div>\n";
}

std::string in_brackets(const std::string& settings) {
  return settings.empty() ? "" : " (" + settings + ")";
}

// The HTML anchor of the section.
std::string anchor_of(const Section& section) {
  return file_name(section.name + (section.settings.empty() ? "" : "-" + section.settings));
}

}  // namespace

std::string html_page(const std::string& title, const std::vector<Section>& sections,
                      const std::filesystem::path& folder, const MadeBy& made_by) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{}</title><style>{}</style></head><body>\n<h1>{}</h1>\n<nav>",
      escaped(title), kStyle, escaped(title));
  for (const Section& section : sections) {
    out += fmt::format("<a href=\"#{}\">{}</a>", anchor_of(section),
                       escaped(section.name + in_brackets(section.settings)));
  }
  out += "<a href=\"#made\">how it was made</a></nav>\n";
  for (const Section& section : sections) {
    out += fmt::format("<h2 id=\"{}\">{}</h2>\n", anchor_of(section),
                       escaped(section.title + in_brackets(section.settings)));
    for (const std::string& note : section.notes) {
      out += "<p class=\"note\">" + escaped(note) + "</p>\n";
    }
    for (const NamedPicture& picture : section.pictures) {
      const std::filesystem::path file = folder / section.name / (picture.name + ".svg");
      out += fmt::format(
          "<figure><img alt=\"{0}\" src=\"data:image/svg+xml;base64,{1}\">"
          "<figcaption>{0}</figcaption></figure>\n",
          escaped(picture.caption), base64_of(file));
    }
    for (const NamedTable& table : section.tables) {
      out += table_html(table);
    }
  }
  out += "<h2 id=\"made\">How it was made</h2>\n<table class=\"made\">";
  for (const auto& [what, text] : made_by) {
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>", escaped(what), escaped(text));
  }
  return out + "</table>\n</body></html>\n";
}

}  // namespace mcnb
