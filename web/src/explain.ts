// Why an answer: for each action what the policy expected, and the parts it added, as bars.

import type { Explanation } from "./api";
import { h } from "./dom";
import { number, percent } from "./format";
import { colours } from "./theme";

// These add up to the estimate; all other parts are added to it.
const kInEstimate = new Set(["shared", "own", "memory"]);

function bar(label: string, from: number, to: number, scale: (value: number) => number, colour: string): HTMLElement {
  const element = h("span", { class: "bar", title: `${label}: ${(to - from).toFixed(4)}` });
  element.style.left = 100 * scale(Math.min(from, to)) + "%";
  element.style.width = 100 * Math.abs(scale(to) - scale(from)) + "%";
  element.style.background = colour;
  return element;
}

// `tag`: what is said of the chosen one.
export function explanation(actions: Explanation[], chosen: string, tag = "answer"): HTMLElement {
  const { palette } = colours();
  const added = [...new Set(actions.flatMap((action) => Object.keys(action.parts)))].filter((name) => !kInEstimate.has(name));
  const inside = [...new Set(actions.flatMap((action) => Object.keys(action.parts)))].filter((name) => kInEstimate.has(name));
  const values = actions.flatMap((action) => [0, action.estimate, action.value]);
  const low = Math.min(...values);
  const high = Math.max(...values, low + 1e-9);
  const scale = (value: number) => (value - low) / (high - low);
  const colour = (part: number) => palette[(part + 1) % palette.length];
  // Policies without clusters have one learner for each user.
  const clusters = actions.some((action) => action.clusterSize !== 1 || action.clusterFound !== undefined);
  const rows = actions.map((action) => {
    let end = action.estimate;
    const bars = [bar("estimate", 0, action.estimate, scale, palette[0])];
    added.forEach((name, i) => {
      bars.push(bar(name, end, end + (action.parts[name] ?? 0), scale, colour(i)));
      end += action.parts[name] ?? 0;
    });
    const cluster = action.clusterFound === undefined ? number(action.clusterSize)
      : `about ${number(action.clusterSize)} (${action.clusterFound} of ${action.clusterVisited} looked at)`;
    return h("tr", { class: action.id === chosen ? "chosen" : "" },
      h("th", { scope: "row" }, action.id, action.id === chosen ? h("span", { class: "tag" }, tag) : null),
      h("td", { class: "bars" }, h("div", {}, bars)),
      h("td", { class: "number" }, action.estimate.toFixed(4)),
      [...inside, ...added].map((name) => h("td", { class: "number" }, (action.parts[name] ?? 0).toFixed(4))),
      h("td", { class: "number" }, action.value.toFixed(4)),
      h("td", { class: "number" }, percent(action.probability)),
      clusters ? h("td", { class: "number" }, cluster) : "");
  });
  const mark = (text: string, background: string) => {
    const square = h("span", { class: "mark" });
    square.style.background = background;
    return h("li", {}, square, text);
  };
  return h("div", {},
    h("ul", { class: "legend" }, mark("estimate", palette[0]), added.map((name, i) => mark(name, colour(i)))),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Why this answer" }, h("table", { class: "explain" },
      h("thead", {}, h("tr", {}, ["Action", "Parts", "Estimate", ...inside.map((name) => "… " + name), ...added.map((name) => "+ " + name), "Value", "Probability", ...(clusters ? ["Cluster"] : [])]
        .map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows))));
}
