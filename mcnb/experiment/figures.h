#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/base/table.h"
#include "mcnb/experiment/plan_run.h"

namespace mcnb {

struct NamedTable {
  std::string name;  // of its CSV file
  std::string caption;
  Table for_people;
};

struct NamedPicture {
  std::string name;  // of its files, .png and .svg
  std::string caption;
};

// What a plan came to, ready to be shown.
struct Section {
  std::string name;
  std::string title;
  std::string settings;  // of all environments, beside the plan's: tells sections apart
  std::vector<std::string> notes;
  std::vector<NamedTable> tables;
  std::vector<NamedPicture> pictures;
  double seconds = 0.0;  // of all its runs, in choosing and learning
  Origins origins;       // of all its runs
};

// Draws the pictures of a plan and makes its tables, into the folder: pictures as PNG and SVG, all
// tables as CSV with nothing but numbers in their columns of numbers, all curves in curves.csv.
// Settings of an environment that are not its defaults are in titles, captions and names of files.
// A policy that failed is left out and named in a note, and so is a study with missing cells.
// Throws Error (kSystem) where files cannot be written; a picture that gnuplot cannot draw is a
// note.
Section make_section(const std::filesystem::path& folder, const Plan& plan,
                     const PlanResults& results);

}  // namespace mcnb
