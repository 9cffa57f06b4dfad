#include "mcnb/experiment/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/experiment/experiment_policies.h"

// Only this file of the layer knows of TOML: its header takes long to compile.
#include <toml++/toml.h>

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// Reads the fields of one file, and says where it was when something is wrong.
class PlanReader {
 public:
  explicit PlanReader(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void refuse(const toml::node& node, const std::string& field,
                           const std::string& expected) const {
    throw Error(ErrorKind::kUsage, fmt::format("{}: line {}: {}: expected {}", file_,
                                               node.source().begin.line, field, expected));
  }

  // As option tables and lists of policies are written.
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

  // No policy has two grids.
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
      refuse(node, "published", "as many values as places in at, and at least one");
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

  void field(const std::string& key, const toml::node& value, Plan& plan) const {
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

  void check(const toml::table& root, const Plan& plan) const {
    if (plan.environments.empty() || plan.policies.empty()) {
      refuse(root, "environments, policies", "both, with at least one entry");
    }
    const bool may_vary = plan.figure == Figure::kAxis || plan.figure == Figure::kBreakdown;
    if (plan.axis ? !may_vary : plan.figure == Figure::kAxis) {
      refuse(root, "axis", "[axis] with figure = \"axis\" or \"breakdown\", and only there");
    }
    for (const std::string& reference : plan.references) {
      if (reference != "sqrt" && reference != "sqrt-users") {
        refuse(at(root, "references"), "references", "sqrt, sqrt-users");
      }
    }
    const bool has_axis_figure = plan.figure == Figure::kAxis;
    const std::pair<const char*, bool> needs_axis[] = {{"lines", plan.lines.has_value()},
                                                       {"references", !plan.references.empty()},
                                                       {"order_of_arms", plan.order_of_arms}};
    for (const auto& [field, is_there] : needs_axis) {
      if (is_there && !has_axis_figure) {
        refuse(at(root, field), field, "figure = \"axis\" beside it");
      }
    }
    if (plan.lines && plan.lines->of_environment) {
      refuse(at(root, "lines"), "lines", "policy.NAME as its option");
    }
    check_policies(root, plan);
    check_entries(root, plan);
    if (plan.figure == Figure::kBreakdown) {
      check_breakdown(root, plan);
    }
    check_distinct(at(root, "environments"), "environments", plan.environments);
    check_distinct(at(root, "policies"), "policies", plan.policies);
    check_environment(root, plan);
    check_worlds(root, plan);
    if (plan.log_axis) {
      for (const std::string& value : plan.axis->values) {
        if (parse_number("values", {-1e300, 1e300}, value) <= 0.0) {
          refuse(at(root, "axis"), "values", "numbers above zero with log = true");
        }
      }
    }
    const TuningPlan& tuning = plan.tuning;
    if (!tuning.grids.empty() && tuning.first_seed < plan.options.first_seed + plan.options.seeds &&
        plan.options.first_seed < tuning.first_seed + tuning.seeds) {
      refuse(at(root, "tune"), "first_seed", "seeds that are not reported");
    }
  }

 private:
  static const toml::node& at(const toml::table& root, const char* field) {
    const toml::node* node = root.get(field);
    return node == nullptr ? static_cast<const toml::node&>(root) : *node;
  }

  // Errors of `check` are named with the place of the node.
  template <class Check>
  void said_at(const toml::node& node, const char* field, const Check& check) const {
    try {
      check();
    } catch (const Error& error) {
      const std::string why = error.what();
      throw why.starts_with(file_)
          ? error
          : Error(ErrorKind::kUsage,
                  fmt::format("{}: line {}: {}: {}", file_, node.source().begin.line, field, why));
    }
  }

  // The settings of all environments; which of them is wrong, where one is so by itself.
  void check_environment(const toml::table& root, const Plan& plan) const {
    const auto check = [](const Plan& one) {
      check_settings(one.settings, {one});
      studies_of(one, nullptr);
    };
    const toml::node& table = at(root, "environment");
    said_at(table, "environment", [&] {
      try {
        check(plan);
      } catch (const Error&) {
        for (const auto& [option, value] : plan.settings) {
          Plan alone = plan;
          alone.settings = {{option, value}};
          said_at(*table.as_table()->get(option), "environment", [&] { check(alone); });
        }
        throw;
      }
    });
  }

  // No environment comes twice, in whatever words.
  void check_worlds(const toml::table& root, const Plan& plan) const {
    Plan bare = plan;
    bare.axis.reset();
    bare.lines.reset();
    std::set<std::pair<std::string, OptionValues>> worlds;
    for (const Study& study : studies_of(bare, nullptr)) {
      const EnvironmentSpec& world = study.experiment.environment;
      if (!worlds.emplace(world.name, all_options(world)).second) {
        refuse(at(root, "environments"), "environments",
               fmt::format("every entry once: {} is the same as another", study.environment));
      }
    }
  }

  void check_distinct(const toml::node& node, const char* field,
                      const std::vector<std::string>& names) const {
    if (std::set(names.begin(), names.end()).size() < names.size()) {
      refuse(node, field, "every entry once");
    }
  }

  // That environments and policies exist, with the options they have.
  void check_entries(const toml::table& root, const Plan& plan) const {
    const auto check_all = [&](const char* field, const std::vector<std::string>& entries,
                               const auto& resolve) {
      for (const std::string& entry : entries) {
        said_at(at(root, field), field, [&] { resolve(entry); });
      }
    };
    check_all("environments", plan.environments,
              [](const std::string& entry) { all_options(parse_environment(entry)); });
    check_all("policies", plan.policies, [](const std::string& entry) {
      for (const PolicySpec& policy : parse_policies(entry)) {
        policy.name == kOracle ? OptionValues() : resolved_options(policy);
      }
    });
    for (const char* field : {"axis", "lines"}) {
      if (const auto& axis = field == std::string("axis") ? plan.axis : plan.lines) {
        check_distinct(at(root, field), "values", axis->values);
        check_all(field, {axis->option}, [&](const std::string&) { studies_of(plan, nullptr); });
      }
    }
  }

  // The benchmark behind this figure has a world and a policy of its own.
  void check_breakdown(const toml::table& root, const Plan& plan) const {
    if (plan.environments != std::vector<std::string>{"synthetic"}) {
      refuse(at(root, "environments"), "environments", "[\"synthetic\"] with this figure");
    }
    if (plan.policies != std::vector<std::string>{"mcnb:preset=algorithm"}) {
      refuse(at(root, "policies"), "policies", "[\"mcnb:preset=algorithm\"] with this figure");
    }
    if (plan.axis && (!plan.axis->of_environment || plan.axis->option != "users")) {
      refuse(at(root, "axis"), "option", "environment.users with this figure");
    }
  }

  // That what is said of policies is said of those there are.
  void check_policies(const toml::table& root, const Plan& plan) const {
    const auto is_there = [&](const std::string& policy) {
      return std::ranges::count(plan.policies, policy) > 0;
    };
    if (!plan.matched_to.empty() && !is_there(plan.matched_to)) {
      refuse(at(root, "matched_to"), "matched_to", "one of the plan's policies");
    }
    for (const Replacement& one : plan.replacements) {
      if (!is_there(one.policy)) {
        refuse(at(root, "replace"), "policy",
               fmt::format("one of the plan's policies, not {}", one.policy));
      }
      if (one.by->empty() &&
          (one.policy == plan.policies.front() || one.policy == plan.matched_to)) {
        refuse(at(root, "replace"), "by",
               fmt::format("a policy for {}, which others are compared with", one.policy));
      }
    }
    if (const std::optional<AxisClash> clash = find_clash(plan)) {
      refuse(at(root, "policies"), "policies",
             fmt::format("{} without {}, which the axis sets", clash->policy, clash->option));
    }
  }

  std::string file_;
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
  const std::string file = path.string();
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: line {}: {}", file, error.source().begin.line,
                                               error.description()));
  }
  const PlanReader reader(file);
  Plan plan;
  plan.name = path.stem().string();
  plan.text = text;
  for (const auto& [key, value] : root) {
    try {
      reader.field(std::string(key.str()), value, plan);
    } catch (const Error& error) {
      const std::string why = error.what();
      if (why.starts_with(file)) {
        throw;
      }
      throw Error(error.kind(),
                  fmt::format("{}: line {}: {}", file, value.source().begin.line, why));
    }
  }
  try {
    reader.check(root, plan);
  } catch (const Error& error) {
    const std::string why = error.what();
    throw why.starts_with(file) ? error : Error(error.kind(), fmt::format("{}: {}", file, why));
  }
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
  refuse_option("plan", fmt::format("{}or the path of a .toml file", known), name_or_path);
}

}  // namespace mcnb
