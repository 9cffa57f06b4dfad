#include "mcnb/experiment/plot/gnuplot.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr const char* kComplaints = "plot.log";

}  // namespace

std::string start_picture(const std::string& name, const std::string& kind,
                          const std::string& size) {
  const bool png = kind == "png";
  return fmt::format(
      "set terminal {} size {} font 'DejaVu Sans,{}' background rgb 'white'{}\n"
      "set output '{}.{}'\n",
      png ? "pngcairo" : "svg", size, png ? 14 : 16, png ? " rounded" : " rounded dynamic", name,
      kind);
}

std::string gnuplot_string(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
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
