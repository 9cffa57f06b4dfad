// Challengers of a model: what other policies would earn in its place.

import type { Challenger, Estimate } from "./api";
import { type Child, h, section, table } from "./dom";
import { number, reward } from "./format";

function words(estimate: Estimate): string {
  return typeof estimate.value === "number"
    ? `${reward(estimate.value)} (${reward(estimate.low)} to ${reward(estimate.high)})` : "not known yet";
}

// Both intervals hold at all times, so those that lie apart are a verdict whenever one looks.
function verdict({ estimate, champion }: Challenger): string {
  if (typeof estimate.value !== "number" || typeof champion.value !== "number") return "too early to say";
  if (estimate.low > champion.high) return "clearly better";
  return estimate.high < champion.low ? "clearly worse" : "not clear yet";
}

function bar(kind: string, label: string, estimate: Estimate, low: number, high: number): HTMLElement {
  const share = (value: number) => (100 * (value - low)) / (high - low) + "%";
  const line = h("span", { class: "interval " + kind, title: `${label}: ${words(estimate)}` });
  const track = h("div", {}, line);
  if (typeof estimate.value !== "number") return h("div");
  line.style.left = share(estimate.low);
  line.style.right = `calc(100% - ${share(estimate.high)})`;
  const dot = h("span", { class: "dot " + kind });
  dot.style.left = share(estimate.value);
  track.append(dot);
  return track;
}

export function challengers(all: Challenger[]): Child {
  if (!all.length) return null;
  const known = all.flatMap((one) => [one.estimate, one.champion]).filter((one) => typeof one.value === "number");
  const low = Math.min(...known.map((one) => one.low));
  const high = Math.max(...known.map((one) => one.high), low + 1e-9);
  return section("Challengers",
    h("p", { class: "note" }, "Policies that learn beside the model's own and never answer: what each would have earned, and what the model's own policy would have earned in the same decisions. The intervals of 95 % hold at all times."),
    known.length ? h("ul", { class: "legend" }, h("li", {}, h("span", { class: "mark challenger" }), "challenger"), h("li", {}, h("span", { class: "mark own" }), "the model's policy")) : null,
    table("Challengers", ["Challenger", "Rewards", "Beside the model", "It would earn", "The model's policy", "Decisions", "Learned"], all.map((one) => [
      [one.name, h("span", { class: "tag" }, one.policy)],
      h("div", { class: "intervals" }, bar("challenger", one.name, one.estimate, low, high), bar("own", "the model's policy", one.champion, low, high)),
      verdict(one), words(one.estimate), words(one.champion), number(one.estimate.decisions), number(one.learned)])),
    all.filter((one) => one.lastRefusal).map((one) =>
      h("p", { class: "notice warn" }, `${one.name} refused to learn ${number(one.refused)} rewards: ${one.lastRefusal}`)));
}
