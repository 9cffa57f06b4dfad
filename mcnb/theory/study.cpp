#include "mcnb/theory/study.h"

#include <fmt/core.h>

#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/experiment/contestants.h"
#include "mcnb/experiment/gnuplot.h"
#include "mcnb/experiment/runner.h"
#include "mcnb/theory/best_fit.h"

namespace mcnb {
namespace {

constexpr double kMany = 1e9;
constexpr std::uint64_t kNarrowest = 32;
constexpr std::uint64_t kMostContexts = 5'000;  // a kernel of them has 200 MB

// What a policy did in the environment's rounds.
struct Measured {
  double regret = 0.0;
  std::optional<double> mean_cluster;
};

Measured measure(Environment& environment, const PolicySpec& spec, const TheoryOptions& options,
                 ThreadPool& threads) {
  const PolicySetup setup = setup_for(environment, options.seed, threads);
  const std::unique_ptr<Policy> policy = make_experiment_policy(spec, setup, environment);
  for (const StartDatum& datum : environment.start_data()) {
    policy->start(datum.user, datum.sample);
  }
  Measured measured;
  double members = 0.0;
  bool clusters = true;
  for (std::uint64_t t = 0; t < options.rounds; ++t) {
    const Round& round = environment.next_round();
    const Arm& arm = round.arms[index(policy->choose(round))];
    const std::optional<std::vector<UserId>> cluster = policy->cluster(arm);
    clusters = clusters && cluster.has_value();
    members += cluster ? static_cast<double>(cluster->size()) : 0.0;
    double best = 0.0;
    for (const Arm& other : round.arms) {
      best = std::max(best, environment.expected_reward(other.index));
    }
    measured.regret += best - environment.expected_reward(arm.index);
    policy->learn(round.id, arm, environment.reward(arm.index));
  }
  if (clusters) {
    measured.mean_cluster = members / static_cast<double>(options.rounds);
  }
  return measured;
}

std::vector<KernelDistance> measure_distances(const Contexts& contexts,
                                              const Eigen::MatrixXd& kernel,
                                              const TheoryOptions& options, ThreadPool& threads) {
  std::vector<KernelDistance> distances;
  for (std::uint64_t width = kNarrowest; width <= options.widest; width *= 2) {
    const NetworkShape shape{.inputs = contexts.inputs,
                             .width = static_cast<std::uint32_t>(width),
                             .depth = static_cast<std::uint32_t>(options.depth)};
    const std::vector<float> network = random_network(shape, Initialisation::kPaper, options.seed);
    const double distance = (gradient_products(contexts, shape, network, threads) - kernel).norm();
    distances.push_back({width, distance, distance / kernel.norm()});
  }
  return distances;
}

// S* for R, and for T^(3/2), the radius of the lemma; each search goes on from the last, whose ball
// lies inside the next.
std::vector<Difficulty> measure_difficulties(const Contexts& contexts, const TheoryOptions& options,
                                             ThreadPool& threads) {
  const NetworkShape shape{.inputs = contexts.inputs,
                           .width = static_cast<std::uint32_t>(options.width),
                           .depth = static_cast<std::uint32_t>(options.depth)};
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, options.seed);
  const double lemma = std::pow(static_cast<double>(options.rounds), 1.5);
  std::vector<double> radii{std::min(options.radius, lemma), std::max(options.radius, lemma)};
  std::vector<Difficulty> found;
  std::vector<float> start = centre;
  for (const double radius : radii) {
    const double reach = radius / std::pow(static_cast<double>(options.width), 0.25);
    BestFit fit = find_best_fit(contexts, shape, centre, start, reach, options.fit_steps, threads);
    found.push_back({radius, fit.loss, fit.distance, fit.steps, fit.converged});
    start = std::move(fit.network);
  }
  return found;
}

std::string text(double value) { return fmt::format("{:.4g}", value); }
std::string text(const std::optional<double>& value) {
  return value ? text(*value) : std::string("undefined");
}

}  // namespace

const OptionTable<TheoryOptions>& theory_option_table() {
  static const OptionTable<TheoryOptions> table = [] {
    using O = TheoryOptions;
    OptionTable<O> t;
    t.count("rounds", &O::rounds, {1, 5'000}, "rounds whose arms are the contexts, T");
    t.count("seed", &O::seed, {0, 1e15}, "of the environment, the policy and the networks");
    t.count("width", &O::width, {2, NetworkShape::kMaxWidth}, "of the network that is fitted, m");
    t.count("depth", &O::depth, {2, 8}, "weight matrices, L");
    t.number("radius", &O::radius, {0, kMany}, "R: networks within R / m^(1/4) of the start");
    t.number("delta", &O::delta, {0, 1, true, true}, "one minus the confidence of the bounds");
    t.count("fit_steps", &O::fit_steps, {1, 1'000'000}, "most steps of each search for S*");
    t.count("widest", &O::widest, {kNarrowest, NetworkShape::kMaxWidth},
            "network whose gradients are compared with the kernel");
    t.count("threads", &O::threads, {0, ThreadPool::kMaxThreads}, "0: one per processor");
    return t;
  }();
  return table;
}

TheoryStudy study_theory(const EnvironmentSpec& environment, const PolicySpec& policy,
                         const TheoryOptions& options) {
  theory_option_table().validate(options);
  TheoryStudy study{.options = options};
  ThreadPool threads(options.threads);
  const std::unique_ptr<Environment> world = make_environment(environment, options.seed);
  const std::size_t arms = make_environment(environment, options.seed)->next_round().arms.size();
  if (options.rounds * arms > kMostContexts) {
    throw Error(ErrorKind::kUsage,
                fmt::format("rounds: expected at most {} for {} arms a round ({} contexts), got {}",
                            kMostContexts / arms, arms, kMostContexts, options.rounds));
  }
  const Contexts all = collect_contexts(*world, options.rounds);
  const Contexts contexts = distinct_directions(all);
  study.users = world->user_count();
  study.contexts = all.size();
  study.distinct = contexts.size();

  const Eigen::MatrixXd kernel =
      tangent_kernel(inner_products(contexts), static_cast<std::uint32_t>(options.depth));
  study.kernel = study_kernel(kernel, contexts.rewards, study.contexts);
  study.distances = measure_distances(contexts, kernel, options, threads);
  study.difficulties = measure_difficulties(all, options, threads);

  const std::unique_ptr<Environment> again = make_environment(environment, options.seed);
  const Measured measured = measure(*again, policy, options, threads);
  study.policy = policy.label;
  study.regret = measured.regret;
  study.mean_cluster = measured.mean_cluster;
  const auto users = static_cast<double>(study.users);
  study.clusters = measured.mean_cluster ? users / *measured.mean_cluster : users;

  const auto rounds = static_cast<double>(options.rounds);
  const double spread = study.clusters * rounds;  // q T
  const double dimension = study.kernel.effective_dimension;
  double difficulty = 0.0;
  for (const Difficulty& one : study.difficulties) {
    difficulty = one.radius == options.radius ? one.loss : difficulty;
  }
  study.paper_bound =
      std::sqrt(spread * difficulty) + std::sqrt(2.0 * spread * std::log(1.0 / options.delta));
  study.naive_bound = std::sqrt(users * rounds);
  if (const std::optional<double> complexity = study.kernel.complexity) {
    const double factor = *complexity + std::sqrt(dimension);
    study.single_bound = std::sqrt(dimension * rounds) * factor;
    study.cluster_bound = std::sqrt(study.clusters) * *study.single_bound;
    study.lemma_bound = factor * factor * dimension;
  }
  return study;
}

Table theory_table(const TheoryStudy& study) {
  Table table({"quantity", "value", "meaning"});
  const auto add = [&](const std::string& name, const std::string& value,
                       const std::string& meaning) {
    table.add_row({name, value, meaning});
  };
  const KernelFacts& kernel = study.kernel;
  add("T K", std::to_string(study.contexts), "contexts: all arms of all rounds");
  add("distinct", std::to_string(study.distinct),
      study.distinct == study.contexts
          ? "directions among them: all differ"
          : "directions among them; repeated or parallel ones would make H singular");
  add("lambda_0", text(kernel.smallest_eigenvalue),
      kernel.singular ? "smallest eigenvalue of H: H is singular, S is undefined"
                      : "smallest eigenvalue of the tangent kernel H");
  add("d~", text(kernel.effective_dimension), "effective dimension: log det(I + H) / log(1 + T K)");
  add("S", text(kernel.complexity), "sqrt(h^T H^-1 h)");
  for (const Difficulty& one : study.difficulties) {
    add(fmt::format("S*, R = {:.4g}", one.radius), text(one.loss),
        fmt::format("least loss found within R / m^(1/4), at distance {:.3g}, in {} steps{}",
                    one.distance, one.steps, one.converged ? "" : " (not yet converged)"));
  }
  const std::string holds = !study.lemma_bound ? "cannot be checked"
                            : study.difficulties.back().loss <= *study.lemma_bound
                                ? "holds: S* is less"
                                : "does NOT hold: S* is more";
  add("lemma", text(study.lemma_bound), "(sqrt(d~) + S)^2 d~ >= S* of R = T^(3/2): " + holds);
  add("n", std::to_string(study.users), "users");
  add("q", text(study.clusters),
      study.mean_cluster ? fmt::format("measured: users over the mean cluster of {}, {:.4g}",
                                       study.policy, *study.mean_cluster)
                         : fmt::format("{} does not cluster: every user alone", study.policy));
  add("regret", text(study.regret), fmt::format("measured, of {}", study.policy));
  add("bound", text(study.paper_bound), "of the paper: sqrt(q T S*) + sqrt(2 q T log(1/delta))");
  add("bound, q clusters", text(study.cluster_bound), "sqrt(q d~ T) (S + sqrt(d~))");
  add("bound, one bandit", text(study.single_bound), "sqrt(d~ T) (S + sqrt(d~))");
  add("bound, naive", text(study.naive_bound), "sqrt(n T)");
  return table;
}

Table kernel_table(const TheoryStudy& study) {
  Table table({"width m", "|G^T G - H|", "relative"});
  for (const KernelDistance& one : study.distances) {
    table.add_row({std::to_string(one.width), text(one.distance), text(one.relative)});
  }
  return table;
}

void draw_kernel_plot(const std::filesystem::path& folder, const TheoryStudy& study) {
  std::string data;
  for (const KernelDistance& one : study.distances) {
    data += fmt::format("{} {}\n", one.width, one.relative);
  }
  write_text_file(folder / "kernel.dat", data);
  const KernelDistance& first = study.distances.front();
  std::string script = std::string(kPlotStyle) +
                       "set logscale xy\n"
                       "set xlabel 'width m'\n"
                       "set ylabel '|G^TG - H| / |H|'\n"
                       "set key top right\n"
                       "set title 'Gradients of a random network tend to the tangent kernel'\n" +
                       fmt::format("set xtics {}, 2\nset xrange [{}:{}]\n", first.width,
                                   first.width / 2, study.options.widest * 2);
  for (const char* kind : {"png", "svg"}) {
    script += start_picture("kernel", kind, "1000,640") +
              fmt::format(
                  "plot 'kernel.dat' with linespoints linewidth 2.5 pointtype 7 linecolor rgb "
                  "'#0072B2' title 'measured', {} * sqrt({} / x) with lines dashtype (10,5) "
                  "linecolor rgb '#D55E00' linewidth 2 title '1/sqrt(m)'\nunset output\n",
                  first.relative, static_cast<double>(first.width));
  }
  write_text_file(folder / "kernel.gp", script);
  run_gnuplot(folder, "kernel.gp");
}

}  // namespace mcnb
