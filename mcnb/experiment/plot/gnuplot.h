#pragma once

#include <array>
#include <filesystem>
#include <string>

namespace mcnb {

// Commands that all pictures begin with: quiet axes and a light grid.
inline constexpr const char* kPlotStyle =
    "set encoding utf8\n"
    "set border 3 linecolor rgb '#555555'\n"
    "set tics nomirror textcolor rgb '#222222'\n"
    "set grid linecolor rgb '#dddddd' linetype 1 linewidth 1\n";

// What every picture is drawn as. PNG files have a title, because people pass them on alone; the
// others stand above a caption.
struct PictureKind {
  const char* ending;
  bool has_title;
  bool is_latex;  // its texts are LaTeX: NAME-latex.tex, which includes NAME-latex.pdf
};
inline constexpr std::array<PictureKind, 4> kPictureKinds = {{{".png", true, false},
                                                              {".svg", false, false},
                                                              {".pdf", false, false},
                                                              {"-latex.tex", false, true}}};

// A picture's size in pixels, as most programs show it.
struct PictureSize {
  unsigned width = 1300;
  unsigned height = 720;
};

// Commands that begin and end the picture <name><ending>.
std::string start_picture(const std::string& name, const PictureKind& kind, PictureSize size = {});
std::string end_picture();

// "set title ..." if the kind has one.
std::string title_command(const std::string& title, const PictureKind& kind);

// Call it after a plot: of a picture as SVG, writes where its axes are into <name>.axes, from which
// the page tells what is under the pointer. One line for each plot: the left, right, lower and
// upper ends in pixels, from the lower left corner, the height of the picture, the values at these
// four ends, and 1 if x is logarithmic.
std::string axes_commands(const PictureKind& kind, bool log_x);

// The text as a quoted string of gnuplot's language.
std::string gnuplot_string(const std::string& text, const PictureKind& kind = kPictureKinds[0]);

// Runs a script of the folder, with that folder as the current one and without a shell. Throws
// Error (kSystem) if gnuplot is missing or fails.
void run_gnuplot(const std::filesystem::path& folder, const std::string& script);

}  // namespace mcnb
