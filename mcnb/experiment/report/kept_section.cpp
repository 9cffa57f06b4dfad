#include "mcnb/experiment/report/kept_section.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"

namespace mcnb {
namespace {

constexpr const char* kSectionFile = "section.json";

Section read_section(const std::filesystem::path& file) {
  try {
    std::ifstream in(file, std::ios::binary);
    const nlohmann::json json = nlohmann::json::parse(in);
    Section section;
    section.name = file.parent_path().filename().string();  // the folder may have been renamed
    section.title = json.at("title").get<std::string>();
    section.notes = json.at("notes").get<std::vector<std::string>>();
    for (const nlohmann::json& one : json.at("tables")) {
      TextTable table(one.at("headings").get<std::vector<std::string>>());
      for (const nlohmann::json& row : one.at("rows")) {
        auto cells = row.get<std::vector<std::string>>();
        cells.resize(table.headings().size());
        table.add_row(std::move(cells));
      }
      section.tables.push_back({one.at("name").get<std::string>(),
                                one.at("caption").get<std::string>(), std::move(table)});
    }
    for (const nlohmann::json& one : json.at("pictures")) {
      section.pictures.push_back(
          {one.at("name").get<std::string>(), one.at("caption").get<std::string>()});
    }
    return section;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: not a section of a page: {}", file.string(), error.what()));
  }
}

}  // namespace

void keep_section(const std::filesystem::path& folder, const Section& section) {
  nlohmann::json json{{"title", section.title},
                      {"notes", section.notes},
                      {"tables", nlohmann::json::array()},
                      {"pictures", nlohmann::json::array()}};
  for (const NamedTable& table : section.tables) {
    json["tables"].push_back({{"name", table.name},
                              {"caption", table.caption},
                              {"headings", table.for_people.headings()},
                              {"rows", table.for_people.rows()}});
  }
  for (const NamedPicture& picture : section.pictures) {
    json["pictures"].push_back({{"name", picture.name}, {"caption", picture.caption}});
  }
  write_file(folder / section.name / kSectionFile, json.dump(1) + "\n");
}

std::vector<Section> kept_sections(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (std::filesystem::exists(entry.path() / kSectionFile, missing)) {
      files.push_back(entry.path() / kSectionFile);
    }
  }
  std::ranges::sort(files);
  std::vector<Section> sections;
  for (const std::filesystem::path& file : files) {
    sections.push_back(read_section(file));
  }
  return sections;
}

}  // namespace mcnb
