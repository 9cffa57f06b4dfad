#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace mcnb {

// Adds version, help, completion and manual, which tell of the program itself. Requires that all
// other commands have been added.
void add_program_commands(CLI::App& app);

// What a shell (bash, zsh or fish) reads to complete the program's commands and flags. Throws Error
// (kUsage) for another shell.
std::string completion_of(const CLI::App& app, const std::string& shell);

// The manual page, in the language of man(7).
std::string manual_of(const CLI::App& app);

}  // namespace mcnb
