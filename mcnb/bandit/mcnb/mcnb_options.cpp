#include <fmt/core.h>

#include <algorithm>

#include "mcnb/bandit/mcnb/device_mcnb.h"
#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/bandit/mcnb/mcnb_options.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr double kMany = 1e9;
constexpr std::uint64_t kScanLimit = 20'000;  // of the presets that sample
constexpr double kUsersOfAMember = 10.0;      // of whom one is in the cluster of an arm, in general

McnbOptions experiments_preset() {
  McnbOptions options;
  options.feedback = Feedback::kServed;
  options.training = TrainingMode::kReplay;
  options.meta_steps = 5;
  options.meta_samples = 20;
  options.eta_2 = 0.01;
  return options;
}

// The best that we have measured (docs/PAPER.md).
McnbOptions default_preset() {
  McnbOptions options;
  options.feedback = Feedback::kServed;
  options.gamma = 0.3;
  options.eta_1 = 0.4;
  options.eta_2 = 0.1;
  options.exploration = 0.01;
  // With small bonuses, an arm whose first estimate is below zero might never be tried if the other
  // arms give nothing.
  options.network.initialisation = Initialisation::kSymmetric;
  options.meta_steps = 10;
  options.meta_samples = 20;
  options.normalise = Normalise::kUnit;
  options.scan = Scan::kSampled;
  options.scan_limit = kScanLimit;
  return options;
}

// The paper's own regime with a smaller bonus, because the paper's bonus keeps trying rare classes
// (Shuttle), and with longer trainings of Theta (docs/PAPER.md).
McnbOptions default_classification_preset() {
  McnbOptions options = experiments_preset();
  options.exploration = 0.1;
  // The estimate of a class that was tried only in vain may fall so far below zero that no bonus
  // makes up for it.
  options.nonnegative = true;
  options.theta_steps = 3000;
  options.normalise = Normalise::kUnit;
  options.scan = Scan::kSampled;
  options.scan_limit = kScanLimit;
  return options;
}

struct Preset {
  const char* name;
  McnbOptions (*make)();
};
const Preset kPresets[] = {
    {"algorithm", [] { return McnbOptions{}; }},
    {"experiments", experiments_preset},
    {"default", default_preset},
    {"default-classification", default_classification_preset},
};

std::string preset_names() {
  std::string names;
  for (const Preset& preset : kPresets) {
    names += fmt::format("{}{}", names.empty() ? "" : " | ", preset.name);
  }
  return names;
}

const OptionTable<McnbOptions>& table() {
  static const OptionTable<McnbOptions> kTable = [] {
    using O = McnbOptions;
    OptionTable<O> t;
    t.number("gamma", &O::gamma, {0, 1, true, true},
             "expected rewards of users who disagree differ by at least this");
    t.number("nu", &O::nu, {1, kMany, true}, "users agree within gamma (nu - 1)/nu");
    t.number("S", &O::s, {0, kMany}, "norm bound in the user-side bonus");
    t.number("delta", &O::delta, {0, 1, true, true}, "one minus the confidence of the bonus");
    t.number("eta_1", &O::eta_1, {0, 1000, true}, "learning rate of the user-learners");
    t.number("eta_2", &O::eta_2, {0, 1000, true}, "learning rate of the meta-learner");
    t.number("exploration", &O::exploration, {0, kMany}, "factor of the whole bonus");
    t.yes_no("nonnegative", &O::nonnegative, kNonnegativeHelp);
    t.part(&O::network, network_option_table());
    t.choice<Normalise>("normalise", &O::normalise,
                        {{"none", Normalise::kNone}, {"unit", Normalise::kUnit}},
                        "unit: arms are scaled to length 1 first; none: they stay as they are");
    t.choice<Scan>("scan", &O::scan, {{"all", Scan::kAll}, {"sampled", Scan::kSampled}},
                   "all: every learner is evaluated; sampled: learners in random order, until "
                   "there are members for all steps");
    t.count("scan_limit", &O::scan_limit, {0, kMany},
            "sampled: at most so many learners are evaluated; 0: no limit");
    t.count("meta_samples", &O::meta_samples, {0, kMany},
            "members of the cluster that take part in an adaptation; 0: all");
    t.count("meta_steps", &O::meta_steps, {1, 10'000}, "steps of an adaptation");
    t.choice<MetaDraw>("meta_draw", &O::meta_draw,
                       {{"one", MetaDraw::kOne}, {"all", MetaDraw::kAll}},
                       "what a member brings: one sample of its history, or all");
    t.choice<Feedback>("feedback", &O::feedback,
                       {{"cluster", Feedback::kCluster}, {"served", Feedback::kServed}},
                       "who learns from a reward");
    t.choice<TrainingMode>("training", &O::training,
                           {{"online", TrainingMode::kOnline}, {"replay", TrainingMode::kReplay}},
                           "a step on each reward as it comes, or trainings on the history");
    t.part(&O::replay, replay_option_table());
    t.count("user_steps", &O::user_steps, {0, kMany}, "replay: most steps of the user-learner");
    t.count("theta_steps", &O::theta_steps, {0, kMany}, "replay: most steps of the meta-learner");
    t.count("history_limit", &O::history_limit, {0, kMany},
            "events that a user remembers, a uniform sample of all; 0: all");
    t.count("keep_arms", &O::keep_arms, {0, kMostArms},
            "arms that the meta-learner selects for a closer look; 0: all");
    t.count("pre_clusters", &O::pre_clusters, {0, kMany},
            "groups of users, by their features, that act as one user; 0: none");
    return t;
  }();
  return kTable;
}

// The whole cluster learns from a reward with feedback=cluster, so it must be known.
void check_scan(const McnbOptions& options) {
  if (options.scan == Scan::kSampled && options.feedback == Feedback::kCluster) {
    refuse_option("scan", "all with feedback=cluster, where the whole cluster learns", "sampled");
  }
}

PolicySize mcnb_size(const McnbOptions& options, const PolicySetup& setup) {
  const NetworkShape shape = options.network.shape(setup.inputs);
  const auto parameters = static_cast<double>(shape.parameter_count());
  const double network = 4.0 * parameters;
  const bool copies = shape.depth > 2 || options.meta_steps > 1;
  const double threads = static_cast<double>(setup.threads->thread_count());
  const auto steps = static_cast<double>(options.meta_steps);
  const auto samples = static_cast<double>(options.meta_samples);
  PolicySize size;
  // The start of the users' networks and of the meta-learner, the meta-learner, and the copies of
  // it that adapt (MetaScratch).
  size.fixed_bytes = 60'000.0 + 3.0 * network + (copies ? 2.0 * threads * network : 0.0);
  size.idle_bytes = 50.0;
  size.user_bytes = network + history_event_bytes(setup.inputs);
  size.event_bytes = history_event_bytes(setup.inputs);
  if (options.training == TrainingMode::kReplay && shape.depth == 2 &&
      setup.inputs >= 2 * shape.padded_width()) {
    size.event_bytes += 4.0 * static_cast<double>(shape.padded_width());  // EventSums
  }
  size.numbers = parameters;
  size.arm_operations = parameters * (3.0 + steps * samples);
  size.arm_user_operations = parameters * (1.0 + (options.meta_samples == 0 ? steps : 0.0));
  if (options.scan == Scan::kSampled) {
    size.user_bytes += 8.0;  // the list of learners, with room to grow
    size.most_arm_users = samples == 0.0 ? size.most_arm_users : kUsersOfAMember * steps * samples;
    if (options.scan_limit > 0) {
      size.most_arm_users = std::min(size.most_arm_users, static_cast<double>(options.scan_limit));
    }
  }
  return size;
}

}  // namespace

McnbOptions mcnb_preset(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) {
      return preset.make();
    }
  }
  refuse_option("preset", preset_names(), name);
}

McnbOptions parse_mcnb_options(const OptionValues& values) {
  OptionValues others = values;
  const auto preset = others.extract("preset");
  McnbOptions options = mcnb_preset(preset.empty() ? "default" : preset.mapped());
  table().set_all(options, others);
  check_scan(options);
  return options;
}

OptionValues resolve_mcnb_options(const OptionValues& values) {
  return table().values(parse_mcnb_options(values));
}

void check_mcnb_options(const McnbOptions& options) {
  table().validate(options);
  check_scan(options);
}

std::vector<OptionHelp> mcnb_option_help() {
  std::vector<OptionHelp> all{
      {"preset", "a named set of values for the options below", preset_names(), "default"}};
  for (OptionHelp& option : table().help(mcnb_preset("default"))) {
    all.push_back(std::move(option));
  }
  return all;
}

PolicyKind mcnb_policy() {
  return {.name = "mcnb",
          .help = "meta clustering of neural bandits: a network per user, and one that adapts",
          .paper = "Ban, Qi, Wei, Liu, He: Meta Clustering of Neural Bandits, KDD 2024",
          .options = mcnb_option_help,
          .resolve = resolve_mcnb_options,
          .build = [](const OptionValues& options,
                      const PolicySetup& setup) -> std::unique_ptr<Policy> {
            if (setup.device == Device::kCuda) {
              return std::make_unique<DeviceMcnb>(parse_mcnb_options(options), setup);
            }
            return std::make_unique<Mcnb>(parse_mcnb_options(options), setup);
          },
          .size =
              [](const OptionValues& options, const PolicySetup& setup) {
                return mcnb_size(parse_mcnb_options(options), setup);
              },
          .values_before = {{"normalise", "none"}, {"scan", "all"}, {"scan_limit", "0"}}};
}

}  // namespace mcnb
