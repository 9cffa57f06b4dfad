#include "mcnb/bandit/linear/club_rule.h"

namespace mcnb {

OptionTable<ClubOptions> club_option_table() {
  OptionTable<ClubOptions> table;
  table.number("lambda", &ClubOptions::lambda, {1e-6, 1e6}, "weight of the ridge: M = lambda I")
      .number("alpha", &ClubOptions::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .number("alpha_2", &ClubOptions::alpha_2, {0.0, 1e6},
              "how far the weights of users who agree may differ, in confidence widths")
      .choice("graph", &ClubOptions::graph,
              {{"complete", GraphKind::kComplete}, {"random", GraphKind::kRandom}},
              "who is linked at the start: all, or each pair with chance 3 ln n / n");
  return table;
}

std::unique_ptr<UserGraph> make_user_graph(GraphKind kind, const UserRows& known,
                                           std::uint64_t seed) {
  return kind == GraphKind::kComplete ? complete_user_graph(known) : random_user_graph(known, seed);
}

}  // namespace mcnb
