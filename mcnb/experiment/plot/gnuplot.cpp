#include "mcnb/experiment/plot/gnuplot.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string_view>

#include "mcnb/base/error.h"
#include "mcnb/experiment/results/plain_labels.h"

namespace mcnb {
namespace {

constexpr const char* kComplaints = "plot.log";

}  // namespace

std::string start_picture(const std::string& name, const PictureKind& kind, PictureSize size) {
  const std::string ending = kind.ending;
  const auto output = fmt::format("set output '{}{}'\n", name, ending);
  if (ending == ".png" || ending == ".svg") {
    const bool png = ending == ".png";
    return fmt::format(
               "set terminal {} size {},{} font 'DejaVu Sans,{}' background rgb 'white' "
               "rounded{}\n",
               png ? "pngcairo" : "svg", size.width, size.height, png ? 14 : 16,
               png ? "" : " dynamic") +
           output + (png ? "" : fmt::format("set print '{}.axes'\n", name));
  }
  constexpr double kPixelsPerInch = 200.0;  // 1,300 pixels are as wide as the text of a page
  const auto inches = fmt::format("size {:.2f}in,{:.2f}in rounded linewidth 0.5 fontscale 0.8",
                                  size.width / kPixelsPerInch, size.height / kPixelsPerInch);
  return (kind.is_latex ? "set terminal cairolatex pdf input blacktext " + inches
                        : "set terminal pdfcairo font 'DejaVu Sans,9' " + inches) +
         "\n" + output;
}

std::string end_picture() { return "unset output\n"; }

std::string title_command(const std::string& title, const PictureKind& kind) {
  return kind.has_title ? fmt::format("set title {} noenhanced\n", gnuplot_string(title, kind))
                        : "unset title\n";
}

std::string axes_commands(const PictureKind& kind, bool log_x) {
  if (std::string_view(kind.ending) != ".svg") {
    return {};
  }
  return fmt::format(
      "print GPVAL_TERM_XMIN, GPVAL_TERM_XMAX, GPVAL_TERM_YMIN, GPVAL_TERM_YMAX, "
      "GPVAL_TERM_YSIZE / GPVAL_TERM_SCALE, GPVAL_X_MIN, GPVAL_X_MAX, GPVAL_Y_MIN, GPVAL_Y_MAX, "
      "{}\n",
      log_x ? 1 : 0);
}

std::string gnuplot_string(const std::string& text, const PictureKind& kind) {
  std::string out = "'";
  for (const char c : kind.is_latex ? latex_text(text) : text) {
    out += c == '\'' ? std::string("''") : std::string(1, c);
  }
  return out + "'";
}

void run_gnuplot(const std::filesystem::path& folder, const std::string& script) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: gnuplot {}", (folder / script).string(), why));
  };
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, kComplaints,
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
  std::string program = "gnuplot";
  std::string argument = script;
  char* arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT) {
    fail("is not installed (Debian: gnuplot-nox)");
  }
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) != child) {
    fail("could not be started");
  }
  std::ifstream log(folder / kComplaints, std::ios::binary);
  const std::string complaints(std::istreambuf_iterator<char>(log), {});
  std::error_code ignored;
  std::filesystem::remove(folder / kComplaints, ignored);
  if (status != 0) {
    fail("failed: " + complaints);
  }
}

}  // namespace mcnb
