#include "mcnb/experiment/plot/plot_style.h"

#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "mcnb/base/files.h"
#include "mcnb/experiment/plot/gnuplot.h"

namespace mcnb {
namespace {

// Okabe and Ito's colours, which colour-blind people can tell apart, black last.
constexpr std::array<const char*, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#B8A800", "#000000"};
// gnuplot's numbers of a filled circle, square, triangles, diamond, pentagon, and a ring. Their
// count has no common divisor with that of the colours, so every pair of both is different.
constexpr std::array<std::size_t, 7> kMarks = {7, 5, 9, 13, 11, 15, 6};
// The index of a policy is its look. Policies that share small pictures come first, so that each
// has a colour of its own.
constexpr std::array<std::string_view, 15> kLooks = {
    "mcnb",           "neuucb-one", "neuau", "linucb:users=each", "neural-linear", "linucb",
    "random",         "kernelucb",  "locb",  "neuucb-ind",        "neuralts",      "club",
    "epsilon-greedy", "cofiba",     "sclub"};

}  // namespace

std::string colour_of(std::size_t look) { return kColours[look % kColours.size()]; }
std::string dashes_of(std::size_t look) { return look < kColours.size() ? "solid" : "(10,5)"; }
std::size_t mark_of(std::size_t look) { return kMarks[look % kMarks.size()]; }

std::vector<std::size_t> looks_of(const std::vector<std::string>& labels) {
  std::vector<std::optional<std::size_t>> looks(labels.size());
  std::set<std::size_t> taken;
  for (const bool exactly : {true, false}) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      for (std::size_t look = 0; look < kLooks.size() && !looks[i]; ++look) {
        const std::string name(kLooks[look]);
        if ((labels[i] == name || (!exactly && labels[i].starts_with(name + ":"))) &&
            taken.insert(look).second) {
          looks[i] = look;
        }
      }
    }
  }
  std::vector<std::size_t> all;
  std::size_t free = 0;
  for (const std::optional<std::size_t>& look : looks) {
    while (!look && !taken.insert(free).second) {
      ++free;
    }
    all.push_back(look.value_or(free));
  }
  return all;
}

PlotFiles draw_picture(const std::filesystem::path& folder, const std::string& name,
                       const std::string& data, const std::string& script) {
  write_file(folder / (name + ".dat"), data);
  write_file(folder / (name + ".gp"), script);
  run_gnuplot(folder, name + ".gp");
  return {folder / (name + ".png"), folder / (name + ".svg")};
}

}  // namespace mcnb
