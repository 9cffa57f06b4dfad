#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "mcnb/bandit/linear/linear_state.h"
#include "mcnb/bandit/linear/user_graph.h"
#include "mcnb/base/options.h"

namespace mcnb {

enum class GraphKind { kComplete, kRandom };

// The options of policies that cluster users as CLUB does.
struct ClubOptions {
  double lambda = 1.0;
  double alpha = 0.1;
  double alpha_2 = 0.2;
  GraphKind graph = GraphKind::kComplete;
};

OptionTable<ClubOptions> club_option_table();

// Makes the graph at the start. Borrows the users' rows.
std::unique_ptr<UserGraph> make_user_graph(GraphKind kind, const UserRows& known,
                                           std::uint64_t seed);

// What the rule of CLUB compares of a user.
struct ClubUser {
  double squared_norm;  // of its weights
  double width;         // F(T)
};

// Reduces `links` of a user u to the edges that the rule of CLUB cuts: those to users j with
// ||w_u - w_j|| > alpha_2 (F(T_u) + F(T_j)). squared_distance(row) and width(row) describe known
// users; users without samples have w = 0 and T = 0.
template <class SquaredDistance, class Width>
void keep_distant(UserGraph::Links& links, double alpha_2, const ClubUser& user,
                  SquaredDistance squared_distance, Width width) {
  const auto distant = [&](double square, double other_width) {
    const double allowed = alpha_2 * (user.width + other_width);
    return square > allowed * allowed;
  };
  std::erase_if(links.rows,
                [&](std::uint32_t row) { return !distant(squared_distance(row), width(row)); });
  links.unknown = links.unknown && distant(user.squared_norm, confidence_width(0));
}

}  // namespace mcnb
