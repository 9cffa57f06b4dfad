#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <string>

#include "mcnb/base/error.h"
#include "mcnb/experiment/report/section.h"

namespace mcnb {

// Puts tables, pictures and notes into a section, and writes their files into its folder.
class SectionWriter {
 public:
  // The plan is borrowed.
  SectionWriter(std::filesystem::path folder, const Plan& plan)
      : folder_(std::move(folder)), plan_(plan) {
    section_.name = plan.name;
    section_.title = plan.title;
  }

  Section& section() { return section_; }
  const std::filesystem::path& folder() const { return folder_; }

  void note(std::string text) { section_.notes.push_back(std::move(text)); }

  // Writes a text file, by its name with the ending.
  void add_file(const std::string& name, const std::string& text);

  // Writes `for_machines` as NAME.csv; the section shows `for_people`, which is also NAME.tex.
  void add_table(const std::string& name, const std::string& caption, TextTable for_people,
                 const TextTable& for_machines);

  // Calls `draw`, which draws NAME as every PictureKind. An Error that it throws becomes a note.
  template <class Draw>
  void add_picture(const std::string& name, const std::string& caption, const Draw& draw) {
    try {
      draw();
      section_.pictures.push_back({name, caption});
    } catch (const Error& error) {
      note(fmt::format("no picture {}: {}", name, error.what()));
    }
  }

  // "10000 rounds, seeds 1 to 10", and both numbers.
  std::string extent() const;
  std::string rounds() const { return std::to_string(plan_.options.rounds); }
  std::string seeds() const { return std::to_string(plan_.options.seeds); }

  // True if the line was published for as many rounds as the plan has, or for any number.
  bool applies(const PublishedLine& line) const {
    return line.rounds == 0 || line.rounds == plan_.options.rounds;
  }

 private:
  std::filesystem::path folder_;
  const Plan& plan_;
  Section section_;
};

}  // namespace mcnb
