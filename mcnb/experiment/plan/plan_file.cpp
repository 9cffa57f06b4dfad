#include "mcnb/experiment/plan/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/experiment/plan/plan_check.h"
#include "mcnb/experiment/run/experiment_policies.h"

// Only this file of the layer includes TOML, because its header takes long to compile.
#include <toml++/toml.h>

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// Notes the lines of all fields, and of the entries of their tables.
void add_lines(const toml::table& table, const std::string& prefix, PlanSource& source) {
  for (const auto& [key, value] : table) {
    const std::string field = prefix + std::string(key.str());
    source.lines[field] = value.source().begin.line;
    if (prefix.empty() && value.is_table()) {
      add_lines(*value.as_table(), field + ".", source);
    }
  }
}

// Reads the fields of one file. Errors name the file, the line and the field.
class PlanReader {
 public:
  explicit PlanReader(PlanSource source) : source_(std::move(source)) {}

  [[noreturn]] void refuse(const toml::node& node, const std::string& field,
                           const std::string& expected) const {
    throw PlanFileError(ErrorKind::kUsage, source_, node.source().begin.line,
                        fmt::format("{}: expected {}", field, expected));
  }

  // The value as text, as option tables and lists of policies expect it.
  std::string text(const toml::node& node, const std::string& field) const {
    if (const auto value = node.value_exact<std::string>()) {
      return *value;
    }
    if (const auto value = node.value_exact<std::int64_t>()) {
      return std::to_string(*value);
    }
    if (const auto value = node.value_exact<double>()) {
      return number_text(*value);
    }
    if (const auto value = node.value_exact<bool>()) {
      return *value ? "yes" : "no";
    }
    refuse(node, field, "a text, a number, true or false");
  }

  std::vector<std::string> texts(const toml::node& node, const std::string& field) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->empty()) {
      refuse(node, field, "a list with at least one entry");
    }
    std::vector<std::string> all;
    for (const toml::node& entry : *array) {
      all.push_back(text(entry, field));
    }
    return all;
  }

  double number(const toml::node& node, const std::string& field) const {
    return parse_number(field, {-1e300, 1e300}, text(node, field));
  }

  bool yes(const toml::node& node, const std::string& field) const {
    return parse_switch(field, text(node, field));
  }

  const toml::table& table(const toml::node& node, const std::string& field) const {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      refuse(node, field, "a table");
    }
    return *table;
  }

  [[noreturn]] void refuse_unknown(const toml::node& node, std::string_view field,
                                   const std::string& known) const {
    refuse(node, std::string(field), "one of the fields " + known);
  }

  Axis axis(const toml::node& node, const std::string& field, bool& log) const {
    Axis axis;
    for (const auto& [key, value] : table(node, field)) {
      if (key == "option") {
        const std::string name = text(value, "option");
        const std::size_t dot = name.find('.');
        const std::string owner = name.substr(0, dot);
        if (dot == std::string::npos || (owner != "environment" && owner != "policy")) {
          refuse(value, "option", "environment.NAME or policy.NAME");
        }
        axis.of_environment = owner == "environment";
        axis.option = name.substr(dot + 1);
      } else if (key == "values") {
        axis.values = texts(value, "values");
      } else if (key == "log") {
        log = yes(value, "log");
      } else {
        refuse_unknown(value, key.str(), "option, values, log");
      }
    }
    if (axis.option.empty() || axis.values.empty()) {
      refuse(node, field, "an option and its values");
    }
    return axis;
  }

  // A table of a grid: policies, and options with their values.
  Grid grid(const toml::node& node) const {
    Grid grid;
    for (const auto& [key, value] : table(node, "grid")) {
      if (key == "policies") {
        grid.policies = texts(value, "policies");
      } else {
        grid.options.push_back({false, std::string(key.str()), texts(value, std::string(key))});
      }
    }
    if (grid.policies.empty() || grid.options.empty()) {
      refuse(node, "grid", "policies, and options with their values");
    }
    for (const std::string& policy : grid.policies) {
      for (const Axis& axis : grid.options) {
        for (const std::string& value : axis.values) {
          resolved_options(parse_policy(fmt::format("{}:{}={}", policy, axis.option, value)));
        }
      }
    }
    return grid;
  }

  TuningPlan tuning(const toml::node& node) const {
    TuningPlan tuning;
    for (const auto& [key, value] : table(node, "tune")) {
      if (key == "rounds") {
        tuning.rounds = parse_count("tune.rounds", {1, 1e9}, text(value, "rounds"));
      } else if (key == "seeds") {
        tuning.seeds = parse_count("tune.seeds", {1, 1e5}, text(value, "seeds"));
      } else if (key == "first_seed") {
        tuning.first_seed = parse_count("tune.first_seed", {0, 1e15}, text(value, "first_seed"));
      } else if (key == "grid" && value.is_array()) {
        for (const toml::node& entry : *value.as_array()) {
          tuning.grids.push_back(grid(entry));
          check_once(entry, tuning.grids);
        }
      } else {
        refuse_unknown(value, key.str(), "rounds, seeds, first_seed, [[tune.grid]]");
      }
    }
    return tuning;
  }

  // A policy must not have two grids.
  void check_once(const toml::node& node, const std::vector<Grid>& grids) const {
    std::set<std::string> seen;
    for (const Grid& grid : grids) {
      for (const std::string& policy : grid.policies) {
        if (!seen.insert(policy).second) {
          refuse(node, "policies", fmt::format("one grid for {}", policy));
        }
      }
    }
  }

  PublishedLine published(const toml::node& node) const {
    PublishedLine line;
    for (const auto& [key, value] : table(node, "published")) {
      if (key == "label") {
        line.label = text(value, "label");
      } else if (key == "rounds") {
        line.rounds = parse_count("rounds", {1, 1e9}, text(value, "rounds"));
      } else if (key == "at") {
        line.at = texts(value, "at");
      } else if (key == "values" && value.is_array()) {
        for (const toml::node& entry : *value.as_array()) {
          line.values.push_back(number(entry, "values"));
        }
      } else if (key == "settings") {
        for (const auto& [name, setting] : table(value, "settings")) {
          line.settings[std::string(name.str())] = text(setting, std::string(name.str()));
        }
      } else {
        refuse_unknown(value, key.str(), "label, at, values (a list), rounds, settings");
      }
    }
    if (line.at.size() != line.values.size() || line.values.empty()) {
      refuse(node, "published", "as many values as entries of at, and at least one");
    }
    return line;
  }

  Replacement replacement(const toml::node& node) const {
    Replacement one;
    for (const auto& [key, value] : table(node, "replace")) {
      if (key == "environments") {
        one.environments = texts(value, "environments");
        for (const std::string& name : one.environments) {
          if (!parse_environment(name).options.empty()) {
            refuse(value, "environments", fmt::format("names without options, not {}", name));
          }
          all_options(parse_environment(name));
        }
      } else if (key == "policy") {
        one.policy = text(value, "policy");
      } else if (key == "by") {
        one.by = text(value, "by");
        if (!one.by->empty()) {
          parse_policy(*one.by);
        }
      } else {
        refuse_unknown(value, key.str(), "environments, policy, by");
      }
    }
    if (one.environments.empty() || one.policy.empty() || !one.by) {
      refuse(node, "replace", "environments, policy and by (\"\": nothing)");
    }
    return one;
  }

  Figure figure(const toml::node& node) const {
    const std::string name = text(node, "figure");
    const std::pair<const char*, Figure> names[] = {{"curves", Figure::kCurves},
                                                    {"runtime", Figure::kRuntime},
                                                    {"axis", Figure::kAxis},
                                                    {"breakdown", Figure::kBreakdown}};
    for (const auto& [known, figure] : names) {
      if (name == known) {
        return figure;
      }
    }
    refuse(node, "figure", "curves | runtime | axis | breakdown");
  }

  // Reads one field of the file into the plan.
  void read(const std::string& key, const toml::node& value, Plan& plan) const {
    if (key == "title") {
      plan.title = text(value, key);
    } else if (key == "figure") {
      plan.figure = figure(value);
    } else if (key == "environments") {
      plan.environments = texts(value, key);
    } else if (key == "environment") {
      for (const auto& [name, setting] : table(value, key)) {
        plan.settings[std::string(name.str())] = text(setting, std::string(name.str()));
      }
    } else if (key == "policies") {
      plan.policies = texts(value, key);
    } else if (key == "rounds" || key == "seeds" || key == "first_seed" || key == "threads") {
      experiment_option_table().set(plan.options, key, text(value, key));
    } else if (key == "axis") {
      plan.axis = axis(value, key, plan.log_axis);
    } else if (key == "lines") {
      bool ignored = false;
      plan.lines = axis(value, key, ignored);
    } else if (key == "order_of_arms") {
      plan.order_of_arms = yes(value, key);
    } else if (key == "references") {
      plan.references = texts(value, key);
    } else if (key == "matched_to") {
      plan.matched_to = text(value, key);
    } else if (key == "tune") {
      plan.tuning = tuning(value);
    } else if (key == "replace" && value.is_array()) {
      for (const toml::node& entry : *value.as_array()) {
        plan.replacements.push_back(replacement(entry));
      }
    } else if (key == "published" && value.is_array()) {
      for (const toml::node& entry : *value.as_array()) {
        plan.published.push_back(published(entry));
      }
    } else {
      refuse_unknown(value, key,
                     "title, figure, environments, [environment], policies, rounds, seeds, "
                     "first_seed, threads, [axis], [lines], order_of_arms, references, "
                     "matched_to, [[replace]], [tune], [[published]]");
    }
  }

 private:
  PlanSource source_;
};

}  // namespace

Plan read_plan(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad() || fs::is_directory(path)) {
    throw Error(ErrorKind::kInput, fmt::format("{}: cannot read it", path.string()));
  }
  return read_plan(path, text);
}

Plan read_plan(const fs::path& path, const std::string& text) {
  PlanSource source{.file = path.string(), .lines = {}};
  toml::table root;
  try {
    root = toml::parse(text, source.file);
  } catch (const toml::parse_error& error) {
    throw PlanFileError(ErrorKind::kUsage, source, error.source().begin.line,
                        std::string(error.description()));
  }
  add_lines(root, "", source);
  const PlanReader reader(source);
  Plan plan;
  plan.name = path.stem().string();
  plan.text = text;
  for (const auto& [key, value] : root) {
    try {
      reader.read(std::string(key.str()), value, plan);
    } catch (const PlanFileError&) {
      throw;
    } catch (const Error& error) {
      throw PlanFileError(error.kind(), source, value.source().begin.line, error.what());
    }
  }
  check_plan(plan, source);
  if (plan.title.empty()) {
    plan.title = plan.name;
  }
  return plan;
}

std::vector<std::string> plan_names(const std::vector<fs::path>& folders) {
  std::set<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".toml") {
        names.insert(entry.path().stem().string());
      }
    }
  }
  return {names.begin(), names.end()};
}

const std::vector<std::string>& paper_plans() {
  static const std::vector<std::string> names = {"fig-recommendation", "fig-classification",
                                                 "fig-runtime",        "table-breakdown",
                                                 "fig-nu-gamma",       "fig-s",
                                                 "fig-users",          "fig-clusters"};
  return names;
}

fs::path find_plan(const std::string& name_or_path, const std::vector<fs::path>& folders) {
  if (name_or_path.ends_with(".toml")) {
    return name_or_path;
  }
  for (const fs::path& folder : folders) {
    const fs::path path = folder / (name_or_path + ".toml");
    if (fs::exists(path)) {
      return path;
    }
  }
  std::string known;
  for (const std::string& name : plan_names(folders)) {
    known += name + ", ";
  }
  refuse_option("plan",
                known.empty() ? "the path of a .toml file (there is no folder of plans here)"
                              : known + "or the path of a .toml file",
                name_or_path);
}

}  // namespace mcnb
