// Challengers of a model: what other policies would earn in its place.

import type { Challenger, Estimate } from "./api";
import { type Child, h, section, table } from "./dom";
import { number, reward } from "./format";

function words(estimate: Estimate): string {
  return typeof estimate.value === "number"
    ? `${reward(estimate.value)} (${reward(estimate.low)} to ${reward(estimate.high)})` : "not known yet";
}

export function challengers(all: Challenger[]): Child {
  if (!all.length) return null;
  return section("Challengers",
    h("p", { class: "note" }, "Policies that learn beside the model's own and never answer: what each would have earned, and what the model's own policy would have earned in the same decisions, with intervals of 95 %."),
    table("Challengers", ["Challenger", "Policy", "It would earn", "The model's policy", "Decisions", "Learned"], all.map((one) =>
      [one.name, one.policy, words(one.estimate), words(one.champion), number(one.estimate.decisions), number(one.learned)])));
}
