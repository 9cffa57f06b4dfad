#include "mcnb/experiment/report/html_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "mcnb/base/error.h"
#include "mcnb/experiment/report/shown_study.h"
#include "mcnb/experiment/results/plain_labels.h"
#include "mcnb/experiment/results/table_numbers.h"

namespace mcnb {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light; }
body { font: 16px/1.5 "DejaVu Sans", Verdana, sans-serif; color: #222; background: #fff;
       max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin-top: 3rem; border-bottom: 1px solid #ddd; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; }
figure { margin: 1.5rem 0; }
.wide { overflow-x: auto; }
figure .wide { border: 1px solid #eee; }
figure svg { display: block; width: 100%; min-width: 56rem; height: auto; }
figure svg g[id^=gnuplot_plot]:hover path { stroke-width: 5; }
figcaption, caption { text-align: left; color: #444; font-size: .9rem; padding: .3rem 0; }
figcaption { overflow-wrap: anywhere; }
figcaption output { display: block; min-height: 1.5em; color: #222; font-weight: bold; }
.wide { margin-bottom: 1.5rem; container-type: inline-size; }
caption { position: sticky; left: 0; max-width: 100cqw; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #eee; vertical-align: top; }
th { text-align: left; border-bottom: 2px solid #999; vertical-align: bottom; }
.number { text-align: right; }
td.number, .short { white-space: nowrap; }
figure .wide { margin-bottom: 0; }
.made th { border-bottom-width: 1px; vertical-align: top; }
.made td { white-space: normal; overflow-wrap: anywhere; }
.note { background: #fff6e0; padding: .5rem 1rem; overflow-wrap: anywhere; }
@media (max-width: 58rem) {
  figure .wide::before { content: "Scroll sideways to see all of it."; position: sticky; left: 0;
    display: inline-block; padding: .3rem .5rem; color: #555; font-size: .85rem; }
}
@media (max-width: 600px) {
  body { margin: .5rem auto; padding: 0 .6rem; }
  h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
  .made, .made tbody, .made tr, .made th, .made td { display: block; }
}
)";

// Says which curve is next to the pointer, and its numbers there. data-axes has a line of ten
// numbers for each plot: see axes_commands.
constexpr const char* kScript = R"(
for (const figure of document.querySelectorAll('figure[data-axes]')) {
  const svg = figure.querySelector('svg'), out = figure.querySelector('output');
  const axes = figure.dataset.axes.split(';').map(line => line.split(' ').map(Number));
  const curves = [];
  for (const group of svg.querySelectorAll('g[id^=gnuplot_plot]')) {
    const name = group.querySelector('title');
    if (!name) continue;
    for (const path of group.querySelectorAll('path')) {
      const points = [...path.getAttribute('d').matchAll(/[ML]?\s*(-?[\d.]+),(-?[\d.]+)/g)]
        .map(found => [Number(found[1]), Number(found[2])]);
      if (points.length > 3) curves.push({label: name.textContent, points});
    }
  }
  const plain = value => Number(value.toPrecision(4)).toLocaleString('en');
  figure.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = null, least = 60 * 60;
    for (const curve of curves) for (const [px, py] of curve.points) {
      const far = (px - x) ** 2 + (py - y) ** 2;
      if (far < least) { least = far; best = {label: curve.label, px, py}; }
    }
    const plot = best && axes.find(a => best.px >= a[0] - 1 && best.px <= a[1] + 1);
    if (!plot) { out.textContent = ''; return; }
    const [left, right, low, high, height, x0, x1, y0, y1, log] = plot;
    const share = (best.px - left) / (right - left);
    const atX = log ? x0 * (x1 / x0) ** share : x0 + share * (x1 - x0);
    const atY = y0 + (height - best.py - low) / (high - low) * (y1 - y0);
    out.textContent = `${best.label}: ${plain(atY)} at ${plain(atX)}`;
  });
  figure.addEventListener('pointerleave', () => { out.textContent = ''; });
}
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

std::string text_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && text.empty()) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be read", path.string()));
  }
  return text;
}

void remove_all(std::string& text, const std::string& begin, const std::string& end) {
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    const std::size_t after = text.find(end, at);
    text.erase(at, after == std::string::npos ? after : after + end.size() - at);
  }
}

// A picture of gnuplot as a part of the page. Its titles of lines that are in the legend stay, and
// show when the pointer rests on a line; names that gnuplot made up do not.
std::string inline_picture(const std::filesystem::path& path) {
  std::string svg = text_in(path);
  svg.erase(0, svg.find("<svg"));
  remove_all(svg, "<title>Gnuplot", "</title>");
  remove_all(svg, "<title>gnuplot_plot_", "</title>");
  remove_all(svg, "<desc>", "</desc>");
  return svg;
}

// "1 2 3;4 5 6" of the lines of a file; empty if there is none.
std::string axes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (std::string line; std::getline(file, line);) {
    text += (text.empty() ? "" : ";") + line;
  }
  return text;
}

constexpr std::size_t kShortHeading = 10;  // letters that stay on one line

// Columns of numbers are aligned to the right, with their headings.
std::string table_html(const NamedTable& table) {
  const std::vector<std::vector<std::string>>& rows = table.for_people.rows();
  std::string out = "<div class=\"wide\"><table>";
  out += "<caption>" + escaped(with_plain_labels(table.caption)) +
         (table.name.empty() ? "" : " (" + escaped(table.name) + ".csv, .tex)") + "</caption>";
  out += "<thead><tr>";
  std::vector<const char*> classes;
  for (const std::string& heading : table.for_people.headings()) {
    const std::size_t column = classes.size();
    const bool of_numbers =
        std::ranges::all_of(rows, [&](const auto& row) { return is_number_cell(row[column]); });
    classes.push_back(of_numbers ? " class=\"number\"" : "");
    out += fmt::format(
        "<th{}>{}</th>",
        of_numbers && heading.size() <= kShortHeading ? " class=\"number short\"" : classes.back(),
        escaped(plain_label(heading)));
  }
  out += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t column = 0; column < row.size(); ++column) {
      out += fmt::format("<td{}>{}</td>", classes[column], escaped(plain_label(row[column])));
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

// Who has the least regret where, all environments of all sections in one table.
std::string winners_html(const std::vector<Section>& sections) {
  std::vector<Winner> winners;
  std::vector<std::string> names;
  for (const Section& section : sections) {
    for (const Winner& winner : section.winners) {
      winners.push_back(winner);
      names.push_back(section.name + in_brackets(section.settings));
    }
  }
  std::vector<PairedComparison*> compared;
  for (Winner& winner : winners) {
    if (winner.against) {
      compared.push_back(&*winner.against);
    }
  }
  correct_by_holm(compared);
  TextTable table({"section", "environment", "least regret", "mean", "next", "its mean",
                   "difference [95 %]", "p-value", "Holm's p"});
  for (std::size_t i = 0; i < winners.size(); ++i) {
    const Winner& winner = winners[i];
    const Difference difference{winner.other_regret - winner.regret, winner.against};
    table.add_row({names[i], winner.environment, winner.policy,
                   fmt::format("{:.1f}", winner.regret), winner.runner_up,
                   fmt::format("{:.1f}", winner.other_regret), difference_text(difference),
                   p_text(winner.against), holm_text(winner.against)});
  }
  if (winners.empty()) {
    return {};
  }
  return "<h2 id=\"winners\">Winners</h2>\n" +
         table_html({"",
                     "The least mean regret in each environment, beside the next. The best were "
                     "chosen after the fact, so p-values flatter them; Holm's p allows for the "
                     "number of rows.",
                     std::move(table)});
}

}  // namespace

std::string html_page(const std::string& title, const std::vector<Section>& sections,
                      const std::filesystem::path& folder, const MadeBy& made_by) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{}</title><style>{}</style></head><body>\n<h1>{}</h1>\n<nav>",
      escaped(title), kStyle, escaped(title));
  const std::string winners = winners_html(sections);
  out += winners.empty() ? "" : "<a href=\"#winners\">winners</a>";
  for (const Section& section : sections) {
    out += fmt::format("<a href=\"#{}\">{}</a>", anchor_of(section),
                       escaped(section.name + in_brackets(section.settings)));
  }
  out += "<a href=\"#made\">how it was made</a></nav>\n" + winners;
  for (const Section& section : sections) {
    out += fmt::format("<h2 id=\"{}\">{}</h2>\n", anchor_of(section),
                       escaped(section.title + in_brackets(section.settings)));
    for (const std::string& note : section.notes) {
      out += "<p class=\"note\">" + escaped(note) + "</p>\n";
    }
    for (const NamedPicture& picture : section.pictures) {
      const std::filesystem::path file = folder / section.name / picture.name;
      const std::string caption = escaped(with_plain_labels(picture.caption));
      out += fmt::format(
          "<figure data-axes=\"{}\"><div class=\"wide\" tabindex=\"0\" role=\"img\" "
          "aria-label=\"{}\">{}</div><figcaption>{} ({}.png, .svg, .pdf, -latex.tex)"
          "<output></output></figcaption></figure>\n",
          escaped(axes_of(file.string() + ".axes")), caption,
          inline_picture(file.string() + ".svg"), caption, escaped(picture.name));
    }
    std::string explained;  // once for tables that share it
    for (const NamedTable& table : section.tables) {
      if (!table.explanation.empty() && table.explanation != explained) {
        explained = table.explanation;
        out += "<p>" + escaped(with_plain_labels(explained)) + ".</p>\n";
      }
      out += table_html(table);
    }
  }
  out += "<h2 id=\"made\">How it was made</h2>\n<table class=\"made\">";
  for (const auto& [what, text] : made_by) {
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>", escaped(what), escaped(text));
  }
  return out + "</table>\n<script>" + kScript + "</script></body></html>\n";
}

}  // namespace mcnb
