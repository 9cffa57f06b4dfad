#include "mcnb/experiment/report/section_writer.h"

#include "mcnb/base/files.h"
#include "mcnb/experiment/results/plain_labels.h"

namespace mcnb {

void SectionWriter::add_file(const std::string& name, const std::string& text) {
  write_file(folder_ / name, text);
  section_.files.push_back(name);
}

void SectionWriter::add_table(const std::string& name, const std::string& caption,
                              TextTable for_people, const TextTable& for_machines) {
  add_file(name + ".csv", for_machines.csv());
  write_file(folder_ / (name + ".tex"), booktabs(for_people));
  section_.tables.push_back({name, caption, std::move(for_people)});
}

std::string SectionWriter::extent() const {
  const ExperimentOptions& options = plan_.options;
  return options.seeds == 1
             ? fmt::format("{} rounds, seed {}", options.rounds, options.first_seed)
             : fmt::format("{} rounds, seeds {} to {}", options.rounds, options.first_seed,
                           options.first_seed + options.seeds - 1);
}

}  // namespace mcnb
