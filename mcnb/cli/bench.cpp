#include <memory>

#include "bench/blocks.h"
#include "bench/breakdown.h"
#include "bench/challengers.h"
#include "bench/data.h"
#include "bench/evaluate.h"
#include "bench/learning.h"
#include "bench/networks.h"
#include "bench/policies.h"
#include "bench/scale.h"
#include "bench/serve.h"
#include "bench/series.h"
#include "bench/warm.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/environment_flags.h"

namespace mcnb {
namespace {

// CLI11 would read -1 as the largest unsigned number.
CLI::Validator not_negative() {
  return {[](std::string& text) {
            return text.starts_with('-') ? "expected a whole number, got " + text : std::string();
          },
          ""};
}

class BenchDisplay final : public bench::Display {
 public:
  explicit BenchDisplay(const TableFlags& flags) : view_(flags) {}
  void say(const std::string& text) override { view_.say(text); }
  void show(const std::string& name, const TextTable& shown, const TextTable& exact) override {
    view_.show(name, shown, exact);
  }
  void finish() const { view_.finish(); }

 private:
  TableView view_;
};

// Lets the command measure, and gives it the flags of all commands with tables.
template <class Options, class Measure>
void call(CLI::App* command, const std::shared_ptr<Options>& options, const Measure& measure) {
  const auto flags = std::make_shared<TableFlags>();
  add_table_view_flags(*command, *flags);
  command->callback([options, flags, measure] {
    BenchDisplay display(*flags);
    measure(*options, display);
    display.finish();
  });
}

template <class Value>
CLI::Option* add_count(CLI::App* command, const char* flag, Value& value, const char* help) {
  return command->add_option(flag, value, help)
      ->delimiter(',')
      ->check(not_negative())
      ->capture_default_str();
}

// Flags that several benchmarks share.
template <class Options>
void add_common_flags(CLI::App* command, const std::shared_ptr<Options>& options) {
  add_count(command, "--threads", options->threads, "Threads of mcnb and of PyTorch");
  command->add_flag_callback(
      "--no-peer", [options] { options->peer = false; }, "Do not compare with PyTorch");
  add_count(command, "--peer-users", options->peer_users,
            "Most users that PyTorch is timed with (bench policies: exactly so many)");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
}

// The same for benchmarks that have a form for a GPU: the flag --device chooses it.
template <class Options>
void call_on_device(CLI::App* command, const std::shared_ptr<Options>& options,
                    void (*measure)(const Options&, bench::Display&)) {
  const auto device = std::make_shared<std::string>(device_name(options->device));
  add_device_flag(*command, *device);
  call(command, options, [options, device, measure](const Options&, bench::Display& display) {
    options->device = parse_device(*device);
    measure(*options, display);
  });
}

void add_networks(CLI::App& bench) {
  auto options = std::make_shared<bench::NetworkBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "networks", "Evaluate and train many networks; compare with the machine and with PyTorch");
  add_count(command, "--users", options->users, "Numbers of networks");
  add_count(command, "--features", options->features, "Numbers of features");
  add_count(command, "--width", options->width, "Hidden units");
  add_count(command, "--arms", options->arms, "Arms of a round");
  command->add_option("--seconds", options->seconds, "Time for each measurement")
      ->capture_default_str();
  add_common_flags(command, options);
  call_on_device(command, options, bench::bench_networks);
}

void add_breakdown(CLI::App& bench) {
  auto options = std::make_shared<bench::BreakdownOptions>();
  CLI::App* command = bench.add_subcommand(
      "breakdown", "Time the parts of a round of M-CNB, beside the paper and PyTorch");
  add_count(command, "--users", options->users, "Numbers of users");
  add_count(command, "--meta-samples", options->meta_samples,
            "Members of a cluster that adapt the meta-learner; 0: all");
  add_count(command, "--rounds", options->rounds,
            "Rounds of preset algorithm, timed in every case; 0: it is not measured");
  add_count(command, "--scan-rounds", options->scan_rounds,
            "Rounds of preset default with scan=all and scan=sampled; 0: they are not measured");
  add_count(command, "--experiment-rounds", options->experiment_rounds,
            "Rounds of preset experiments; 0: it is not measured");
  add_common_flags(command, options);
  call_on_device(command, options, bench::bench_breakdown);
}

void add_blocks(CLI::App& bench) {
  auto options = std::make_shared<bench::BlockBenchOptions>();
  auto data = std::make_shared<std::string>();
  CLI::App* command = bench.add_subcommand(
      "blocks", "Where the seconds of M-CNB go on labelled samples, whose arms are long blocks");
  command->add_option("--environment", options->environment.name, "Labelled samples")
      ->capture_default_str();
  command->add_option("--data", *data,
                      "Folder with the data sets [MCNB_DATA, else the user's data folder]");
  add_count(command, "--rounds", options->rounds, "Rounds of every policy");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, [data](bench::BlockBenchOptions given, bench::Display& display) {
    given.environment = read_environment(given.environment.name, {}, *data);
    bench::bench_blocks(given, display);
  });
}

void add_policies(CLI::App& bench) {
  auto options = std::make_shared<bench::PolicyBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "policies", "Rounds per second of every policy, beside plain NumPy and PyTorch scripts");
  add_count(command, "--users", options->users, "Numbers of users");
  add_count(command, "--features", options->features,
            "Numbers of features; the scripts are compared with 10");
  add_count(command, "--rounds", options->rounds, "Rounds of every policy");
  command->add_option("--policy", options->policies, "Policies as in mcnb run [all]");
  command->add_option("--seconds", options->seconds, "Time after which a run is cut short")
      ->capture_default_str();
  add_common_flags(command, options);
  call(command, options, bench::bench_policies);
}

void add_scale(CLI::App& bench) {
  auto options = std::make_shared<bench::ScaleBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "scale", "Time and memory of a policy with few and with a million users, fits included");
  add_count(command, "--users", options->users, "Numbers of users; ratios are to the first");
  add_count(command, "--samples", options->samples, "Rewards of each user");
  add_count(command, "--features", options->features, "Numbers of an arm");
  add_count(command, "--user-features", options->user_features, "Numbers of a user");
  add_count(command, "--arms", options->arms, "Arms of a round");
  add_count(command, "--rounds", options->rounds, "Timed rounds, at most");
  command->add_option("--policy", options->policies, "Policies as in mcnb run")
      ->capture_default_str();
  add_count(command, "--threads", options->threads, "Threads of a policy");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, bench::bench_scale);
}

void add_data(CLI::App& bench) {
  auto options = std::make_shared<bench::DataBenchOptions>();
  CLI::App* command =
      bench.add_subcommand("data", "Read and prepare files of the public shapes, beside wc -l");
  add_count(command, "--rows", options->rows, "Ratings");
  add_count(command, "--pictures", options->pictures, "Pictures");
  add_count(command, "--threads", options->threads, "Threads; 0: one per processor");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, bench::bench_data);
}

void add_evaluate(CLI::App& bench) {
  auto options = std::make_shared<bench::EvaluateBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "evaluate", "Off-policy estimators over a long table, beside pandas and the memory");
  add_count(command, "--rows", options->rows, "Decisions");
  command->add_flag_callback(
      "--no-peer", [options] { options->peer = false; }, "Do not compare with pandas");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, bench::bench_evaluate);
}

void add_warm(CLI::App& bench) {
  auto options = std::make_shared<bench::WarmBenchOptions>();
  auto names = std::make_shared<std::vector<std::string>>(
      std::initializer_list<std::string>{"movielens", "synthetic"});
  auto data = std::make_shared<std::string>();
  CLI::App* command = bench.add_subcommand(
      "warm", "Regret of policies that learned a log before, beside a cold start");
  command->add_option("--environment", *names, "Recommendation or synthetic; see mcnb environments")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--policy", options->policies, "Policies as in mcnb run")
      ->capture_default_str();
  add_count(command, "--logged", options->logged, "Rounds of the log");
  add_count(command, "--rounds", options->rounds, "Rounds after it");
  add_count(command, "--seeds", options->seeds, "Worlds");
  add_count(command, "--threads", options->threads, "Runs at once; 0: all processors");
  command->add_option("--data", *data,
                      "Folder with the data sets [MCNB_DATA, else the user's data folder]");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, [names, data](bench::WarmBenchOptions given, bench::Display& display) {
    for (const std::string& name : *names) {
      given.environments.push_back(read_environment(name, {}, *data));
    }
    bench::bench_warm(given, display);
  });
}

void add_learning(CLI::App& bench) {
  auto options = std::make_shared<bench::LearningBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "learning", "How well the models of the service learn, beside plain models and the truth");
  command->add_option("--scenario", options->scenarios, "Scenarios by name [all]")->delimiter(',');
  command->add_option("--policies", options->policies, "Policies as in mcnb run [all]")
      ->delimiter(',');
  add_count(command, "--rounds", options->rounds, "Decisions of every scenario");
  add_count(command, "--seeds", options->seeds, "Worlds of every scenario");
  add_count(command, "--first-seed", options->first_seed, "The first world");
  add_count(command, "--threads", options->threads, "Policies played at once; 0: all processors");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, bench::bench_learning);
}

void add_challengers(CLI::App& bench) {
  auto options = std::make_shared<bench::ChallengersBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "challengers",
      "What a challenger costs a decision, and what challengers learn and are worth");
  command->add_option("--policy", options->policy, "The policy that answers, as in mcnb run")
      ->capture_default_str();
  command->add_option("--challenger", options->challenger, "The challenger, as in mcnb run")
      ->capture_default_str();
  add_count(command, "--slices", options->slices,
            "Pairs of runs of 1,000 decisions with and without it; 0: its cost is not measured");
  add_count(command, "--decisions", options->decisions,
            "Decisions that it learns from; 0: what it learns is not measured");
  add_count(command, "--seeds", options->seeds, "Worlds of every scenario");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, bench::bench_challengers);
}

void add_series(CLI::App& bench) {
  auto options = std::make_shared<bench::SeriesBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "series", "What the time series of the dashboard cost a decision of the service");
  command->add_option("--policy", options->policy, "The policy that answers, as in mcnb run")
      ->capture_default_str();
  add_count(command, "--slices", options->slices,
            "Pairs of runs of 1,000 decisions with and without them");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, bench::bench_series);
}

void add_serve(CLI::App& bench) {
  auto options = std::make_shared<bench::ServeBenchOptions>();
  CLI::App* command =
      bench.add_subcommand("serve", "Put load on the online service, beside SQLite and HTTP alone");
  add_count(command, "--features", options->features, "Numbers that describe an action");
  add_count(command, "--width", options->width, "Hidden units");
  add_count(command, "--actions", options->actions, "Actions of a request");
  add_count(command, "--groups", options->groups,
            "Learners that all users share; 0: they are not measured");
  add_count(command, "--users", options->users,
            "Numbers of users with a learner each; 0: they are not measured");
  command->add_option("--policies", options->policies, "Policies of these users, as in mcnb run")
      ->delimiter(',')
      ->capture_default_str();
  add_count(command, "--connections", options->connections, "Connections at once");
  add_count(command, "--restart-events", options->restart_events,
            "Events before the restart; 0: it is not measured");
  add_count(command, "--pause-rewards", options->pause_rewards,
            "Rewards while the longest pause is measured; 0: it is not measured");
  add_count(command, "--threads", options->threads, "Threads that compute; 0: all");
  command->add_option("--seconds", options->seconds, "Time for each measurement")
      ->capture_default_str();
  command->add_option("--policy-options", options->policy, "More options of mcnb: a=1:b=2");
  command->add_option("--store", options->store,
                      "An empty PostgreSQL database, to measure decisions there, too");
  command->add_option("--output", options->output, "Folder for the results")->capture_default_str();
  call(command, options, bench::bench_serve);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed and memory");
  bench->require_subcommand(1);
  add_networks(*bench);
  add_breakdown(*bench);
  add_blocks(*bench);
  add_policies(*bench);
  add_scale(*bench);
  add_data(*bench);
  add_evaluate(*bench);
  add_learning(*bench);
  add_challengers(*bench);
  add_serve(*bench);
  add_series(*bench);
  add_warm(*bench);
}

}  // namespace mcnb
