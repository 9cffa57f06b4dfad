#include "mcnb/theory/study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/experiment/plot/gnuplot.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/experiment/run/runner.h"
#include "mcnb/theory/best_fit.h"

namespace mcnb {
namespace {

constexpr double kMany = 1e9;
constexpr std::uint64_t kNarrowest = 32;
constexpr std::uint64_t kMostContexts = 5'000;   // a kernel of them has 200 MB
constexpr std::uint64_t kUsualContexts = 2'000;  // if the rounds are not given
constexpr std::uint64_t kMostWeights = 1 << 26;  // of networks compared with the kernel: 256 MB

// Multiplications in each of the two searches for S*: at most some fifteen seconds on two cores.
constexpr double kFitWork = 9e10;

std::vector<KernelDistance> measure_distances(const Contexts& contexts,
                                              const Eigen::MatrixXd& products,
                                              const Eigen::MatrixXd& kernel,
                                              const TheoryOptions& options, ThreadPool& threads) {
  std::vector<KernelDistance> distances;
  const std::uint64_t widest =
      std::clamp<std::uint64_t>(kMostWeights / contexts.inputs, kNarrowest, options.widest);
  for (std::uint64_t width = kNarrowest; width <= widest; width *= 2) {
    const NetworkShape shape{.inputs = contexts.inputs,
                             .width = static_cast<std::uint32_t>(width),
                             .depth = static_cast<std::uint32_t>(options.depth)};
    const std::vector<float> network = random_network(shape, Initialisation::kPaper, options.seed);
    const double distance =
        (gradient_products(contexts, products, shape, network, threads) - kernel).norm();
    distances.push_back({width, distance, distance / kernel.norm()});
  }
  return distances;
}

std::uint64_t most_evaluations(const Contexts& contexts, const NetworkShape& shape) {
  const double width = shape.width;
  double once = 0.0;
  for (const Contexts::Slice& slice : contexts.slices) {
    // Forward pass, backward pass, and sum of the gradient.
    once += 3.0 * width * (static_cast<double>(slice.length) + (shape.depth - 2) * width + 1.0);
  }
  return static_cast<std::uint64_t>(std::max(1.0, kFitWork / once));
}

// S* of all contexts for R, and of the distinct ones for T^(3/2).
void measure_difficulties(const Contexts& all, const Contexts& distinct, ThreadPool& threads,
                          TheoryStudy& study) {
  const TheoryOptions& options = study.options;
  const NetworkShape shape{.inputs = all.inputs,
                           .width = static_cast<std::uint32_t>(options.width),
                           .depth = static_cast<std::uint32_t>(options.depth)};
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, options.seed);
  const double shrink = std::pow(static_cast<double>(options.width), -0.25);
  std::vector<float> start = centre;
  const auto measure = [&](const Contexts& contexts, double radius) {
    const std::uint64_t most =
        options.fit_steps > 0 ? options.fit_steps : most_evaluations(contexts, shape);
    BestFit fit = find_best_fit(contexts, shape, centre, start, radius * shrink, most, threads);
    start = std::move(fit.network);
    return Difficulty{radius, fit.loss, fit.distance, fit.evaluations, fit.converged};
  };
  study.difficulty = measure(all, options.radius);
  const double lemma_radius = std::pow(static_cast<double>(options.rounds), 1.5);
  if (study.difficulty.distance > lemma_radius * shrink) {
    start = centre;  // the network found lies outside of the lemma's ball
  }
  study.lemma_difficulty = measure(distinct, lemma_radius);
}

std::string text(double value) { return fmt::format("{:.4g}", value); }
std::string text(const std::optional<double>& value) {
  return value ? text(*value) : std::string("undefined");
}

// The S* that was found is never less than the true one. So the lemma certainly holds if the found
// S* satisfies it; otherwise nothing is proved.
std::string verdict(const TheoryStudy& study) {
  if (!study.bounds.lemma) {
    return "cannot be checked";
  }
  return study.lemma_difficulty.loss <= *study.bounds.lemma ? "holds: S* is less"
         : study.lemma_difficulty.converged                 ? "does NOT hold: S* is more"
                                            : "open: S* is an upper estimate, and more";
}

}  // namespace

const OptionTable<TheoryOptions>& theory_option_table() {
  static const OptionTable<TheoryOptions> table = [] {
    using O = TheoryOptions;
    OptionTable<O> t;
    t.count("rounds", &O::rounds, {0, 5'000},
            "rounds whose arms are the contexts, T; 0: as many as give 2,000 contexts");
    t.count("seed", &O::seed, {0, 1e15}, "seed of the environment, the policy and the networks");
    t.count("width", &O::width, {2, NetworkShape::kMaxWidth},
            "width of the network that is fitted, m");
    t.count("depth", &O::depth, {2, 8}, "weight matrices, L");
    t.number("radius", &O::radius, {0, kMany}, "R: networks within R / m^(1/4) of the start");
    t.number("delta", &O::delta, {0, 1, true, true}, "one minus the confidence of the bounds");
    t.count("fit_steps", &O::fit_steps, {0, 1'000'000},
            "most evaluations of the loss in each search for S*; 0: 9e10 multiplications");
    t.count("widest", &O::widest, {kNarrowest, NetworkShape::kMaxWidth},
            "widest network whose gradients are compared with the kernel, if it has at most 2^26 "
            "weights");
    t.count("threads", &O::threads, {0, ThreadPool::kMaxThreads}, "threads; 0: one per processor");
    return t;
  }();
  return table;
}

Measured measure_policy(Environment& environment, Policy& policy, std::uint64_t rounds) {
  for (const StartDatum& datum : environment.start_data()) {
    policy.start(datum.user, datum.sample);
  }
  Measured measured;
  double members = 0.0;
  bool clusters = true;
  for (std::uint64_t t = 0; t < rounds; ++t) {
    const Round& round = environment.next_round();
    const Arm& arm = round.arms[index(policy.choose(round))];
    const std::optional<std::vector<UserId>> cluster = policy.cluster(arm);
    clusters = clusters && cluster.has_value();
    members += cluster ? static_cast<double>(cluster->size()) : 0.0;
    measured.regret +=
        best_expected_reward(environment, round) - environment.expected_reward(arm.index);
    policy.learn(round.id, arm, environment.reward(arm.index));
  }
  if (clusters) {
    measured.mean_cluster = members / static_cast<double>(rounds);
  }
  return measured;
}

TheoryStudy study_theory(const EnvironmentSpec& environment, const PolicySpec& policy,
                         const TheoryOptions& options) {
  theory_option_table().validate(options);
  TheoryStudy study{.options = options, .environment = environment.name};
  ThreadPool threads(options.threads);
  const std::unique_ptr<Environment> world = make_environment(environment, options.seed);
  const std::size_t arms = make_environment(environment, options.seed)->next_round().arms.size();
  std::uint64_t& rounds = study.options.rounds;
  rounds = rounds > 0 ? rounds : std::max<std::uint64_t>(1, kUsualContexts / arms);
  if (rounds * arms > kMostContexts) {
    throw Error(ErrorKind::kUsage,
                fmt::format("rounds: expected at most {} for {} arms a round ({} contexts), got {}",
                            kMostContexts / arms, arms, kMostContexts, rounds));
  }
  const Contexts all = collect_contexts(*world, rounds);
  const Contexts distinct = distinct_directions(all);
  study.users = world->user_count();
  study.contexts = all.size();
  study.distinct = distinct.size();

  const Eigen::MatrixXd products = inner_products(distinct);
  const Eigen::MatrixXd kernel =
      tangent_kernel(products, static_cast<std::uint32_t>(options.depth));
  study.kernel = study_kernel(kernel, distinct.rewards);
  // Fewer coordinates make the networks smaller.
  const Contexts short_all = in_span(all, all);
  const Contexts short_distinct = in_span(distinct, all);
  study.distances = measure_distances(short_distinct, products, kernel, options, threads);
  measure_difficulties(short_all, short_distinct, threads, study);

  const std::unique_ptr<Environment> again = make_environment(environment, options.seed);
  const PolicySetup setup = setup_for(*again, options.seed, threads);
  const std::unique_ptr<Policy> player = make_experiment_policy(policy, setup, *again);
  study.policy = policy.label;
  study.measured = measure_policy(*again, *player, rounds);
  const auto users = static_cast<double>(study.users);
  study.clusters = study.measured.mean_cluster ? users / *study.measured.mean_cluster : users;
  study.bounds = find_bounds({.users = users,
                              .rounds = static_cast<double>(rounds),
                              .clusters = study.clusters,
                              .delta = options.delta,
                              .difficulty = study.difficulty.loss,
                              .dimension = study.kernel.effective_dimension,
                              .complexity = study.kernel.complexity});
  return study;
}

TextTable theory_table(const TheoryStudy& study) {
  TextTable table({"quantity", "value", "meaning"});
  const auto add = [&](const std::string& name, const std::string& value,
                       const std::string& meaning) {
    table.add_row({name, value, meaning});
  };
  const auto add_difficulty = [&](const char* name, const char* which, const Difficulty& one) {
    add(name, text(one.loss),
        fmt::format("{} loss of {} contexts within R / m^(1/4), R = {:.4g}: at distance {:.3g}, {} "
                    "evaluations",
                    one.converged ? "least" : "upper estimate (search stopped) of the least", which,
                    one.radius, one.distance, one.evaluations));
  };
  const KernelFacts& kernel = study.kernel;
  const Bounds& bounds = study.bounds;
  add("T K", std::to_string(study.contexts), "contexts: all arms of all rounds");
  add("distinct", std::to_string(study.distinct),
      study.distinct == study.contexts
          ? "directions among them: all differ"
          : "directions among them; repeated or parallel ones would make H singular");
  add("lambda_0", text(kernel.smallest_eigenvalue),
      kernel.singular ? "smallest eigenvalue of H: H is singular, S is undefined"
                      : "smallest eigenvalue of H, the tangent kernel of the distinct contexts");
  add("d~", text(kernel.effective_dimension),
      "effective dimension: log det(I + H) / log(1 + distinct)");
  add("S", text(kernel.complexity),
      "sqrt(h^T H^-1 h), h the mean rewards of the distinct contexts");
  add_difficulty("S*", "all", study.difficulty);
  add_difficulty("S*, distinct", "distinct", study.lemma_difficulty);
  add("lemma", text(bounds.lemma),
      "(sqrt(d~) + S)^2 d~ >= S* of the distinct contexts, R = T^(3/2): " + verdict(study));
  add("n", std::to_string(study.users), "users");
  add("q", text(study.clusters),
      study.measured.mean_cluster
          ? fmt::format("measured: users over the mean cluster of {}, {:.4g}", study.policy,
                        *study.measured.mean_cluster)
          : fmt::format("{} does not cluster: every user alone", study.policy));
  add("regret", text(study.measured.regret), fmt::format("measured, of {}", study.policy));
  add("bound", text(bounds.paper),
      fmt::format("of the paper: sqrt(q T S*) + sqrt(2 q T log(1/delta)), S* of all contexts{}",
                  study.difficulty.converged ? "" : "; an upper estimate, as S* is"));
  add("bound, q clusters", text(bounds.clustered), "sqrt(q d~ T) (S + sqrt(d~))");
  add("bound, one bandit", text(bounds.single), "sqrt(d~ T) (S + sqrt(d~))");
  add("bound, naive", text(bounds.naive), "sqrt(n T)");
  return table;
}

TextTable kernel_table(const TheoryStudy& study) {
  TextTable table({"width m", "|G^T G - H|", "relative"});
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
  write_file(folder / "kernel.dat", data);
  const KernelDistance& first = study.distances.front();
  std::string script = std::string(kPlotStyle) +
                       "set logscale xy\n"
                       "set xlabel 'width m'\n"
                       "set key top right\n" +
                       fmt::format("set xtics {}, 2\nset xrange [{}:{}]\n", first.width,
                                   first.width / 2, study.options.widest * 2);
  const std::string title = fmt::format(
      "Gradients of a random network tend to the tangent kernel: {}, {} contexts, L = {}",
      study.environment, study.distinct, study.options.depth);
  for (const PictureKind& kind : kPictureKinds) {
    script +=
        start_picture("kernel", kind, {.width = 1000, .height = 640}) + title_command(title, kind) +
        (kind.is_latex ? "set ylabel '$|G^TG - H| / |H|$'\n" : "set ylabel '|G^TG - H| / |H|'\n") +
        fmt::format(
            "plot 'kernel.dat' with linespoints linewidth 2.5 pointtype 7 linecolor rgb "
            "'#0072B2' title 'measured', {} * sqrt({} / x) with lines dashtype (10,5) "
            "linecolor rgb '#D55E00' linewidth 2 title 'c/sqrt(m)'\n",
            first.relative, static_cast<double>(first.width)) +
        end_picture();
  }
  write_file(folder / "kernel.gp", script);
  run_gnuplot(folder, "kernel.gp");
}

}  // namespace mcnb
