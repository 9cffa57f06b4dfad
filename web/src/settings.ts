// The settings of a model: shown to everybody who may read, changed with an admin key.

import { ask, path, Refused, type Settings } from "./api";
import { h, replace, table } from "./dom";
import { time } from "./format";

const kWords: Record<string, [string, string]> = {
  mode: ["Mode", "Who chooses: the policy (online), or the caller while the policy learns or waits"],
  epsilon: ["Exploration (epsilon)", "Share of decisions drawn uniformly"],
  waitingSeconds: ["Waiting time in seconds", "For rewards"],
  defaultReward: ["Default reward", "Learned if none came in time"],
  aggregation: ["Aggregation", "Which of several rewards is learned"],
};
const kChoices: Record<string, string[]> = {
  mode: ["online", "apprentice", "logging"],
  aggregation: ["earliest", "average", "sum", "min", "max"],
};

export function settingsForm(model: string, history: Settings, changed: () => void): HTMLElement {
  const answer = h("p", { class: "note", role: "status" });
  const fields = Object.entries(history.settings).map(([name, value]) => {
    const [label, help] = kWords[name] ?? [name, ""];
    const choices = kChoices[name];
    const input = choices
      ? h("select", { name }, choices.map((one) => h("option", { selected: one === value }, one)))
      : h("input", { name, value, type: "number", step: "any", min: 0, max: name === "waitingSeconds" ? undefined : 1 });
    return h("label", { class: "field" }, h("span", {}, label), input, h("small", {}, help));
  });
  const submit = async (event: Event) => {
    event.preventDefault();
    const data = new FormData(event.target as HTMLFormElement);
    const changes: Record<string, string | number> = {};
    for (const [name, value] of Object.entries(history.settings)) {
      const given = String(data.get(name));
      if (given !== String(value)) changes[name] = typeof value === "number" ? Number(given) : given;
    }
    if (Object.keys(changes).length === 0) {
      answer.textContent = "Nothing is changed.";
      return;
    }
    try {
      await ask(path("models", model), "PATCH", changes);
      answer.textContent = "Saved.";
      changed();
    } catch (error) {
      answer.textContent = error instanceof Refused && error.status === 403
        ? "The key may not change settings: an admin key is needed (Key, above)." : String((error as Error).message);
    }
  };
  const box = h("div");
  replace(box,
    h("form", { class: "fields", submit: (event) => void submit(event) }, fields, h("div", { class: "row" }, h("button", { type: "submit" }, "Save changes"), answer)),
    history.changes.length ? [h("h3", {}, "Changes"), table("Changes of the settings", ["When", "What"], history.changes.map((one) => [time(one.time), one.settings]))]
      : h("p", { class: "note" }, "No changes are known."));
  return box;
}
