// Composes a request and shows how a model would decide. Nothing is logged or learned.

import { ask, type Decision, type EventLine, path, Refused } from "./api";
import { h, replace, section } from "./dom";
import { explanation } from "./explain";
import { percent } from "./format";
import { type Page } from "./pages";

const kExample = `[
  {"id": "tea", "features": {"kind": "drink", "price": 0.2}},
  {"id": "bread", "features": {"kind": "food", "price": 0.3}}
]`;

export class TryPage implements Page {
  readonly title = "Try it";
  readonly element = h("div", { class: "page" });
  private readonly answer = h("div", { "aria-live": "polite" });
  private readonly user = h("input", { name: "user", required: true, list: "users", autocomplete: "off", spellcheck: "false" });
  private readonly users = h("datalist", { id: "users" });
  private readonly context = h("textarea", { name: "context", rows: 5, spellcheck: "false" }, '{"daytime": "morning"}');
  private readonly actions = h("textarea", { name: "actions", rows: 9, spellcheck: "false" }, kExample);
  private readonly model = h("select", { name: "model" });
  private decision: Decision | null = null;

  constructor(private readonly given: string | undefined, user: string | undefined) {
    this.user.value = user ?? "";
    this.model.addEventListener("change", () => void this.loadUsers());
    replace(this.element, h("h1", {}, "Try it"),
      h("p", {}, "See how a model would decide, and why. Nothing is logged, learned or changed."),
      h("div", { class: "two even" },
        section("Request", h("form", { class: "stack", submit: (event) => { event.preventDefault(); void this.decide(); } },
          h("label", { class: "field" }, h("span", {}, "Model"), this.model),
          h("label", { class: "field" }, h("span", {}, "User"), this.user, this.users),
          h("label", { class: "field" }, h("span", {}, "Context features (JSON)"), this.context),
          h("label", { class: "field" }, h("span", {}, "Actions (JSON)"), this.actions),
          h("div", { class: "row" }, h("button", { type: "submit" }, "Decide")))),
        section("Answer", this.answer)));
    replace(this.answer, h("p", { class: "note" }, "The answer comes here."));
  }

  async load(): Promise<void> {
    const { models } = await ask<{ models: { name: string }[] }>("/v1/models");
    replace(this.model, models.map((one) => h("option", { selected: one.name === this.given }, one.name)));
    await this.loadUsers();
  }

  private async loadUsers(): Promise<void> {
    if (!this.model.value) return;
    const { events } = await ask<{ events: EventLine[] }>(path("models", this.model.value, "events"));
    const users = [...new Set(events.map((event) => event.userId))];
    replace(this.users, users.map((value) => h("option", { value })));
    if (!this.user.value && users.length) this.user.value = users[0];
  }

  private async decide(): Promise<void> {
    try {
      const read = (area: HTMLTextAreaElement, name: string): unknown => {
        try {
          return JSON.parse(area.value || "null");
        } catch (error) {
          throw new Error(`${name}: ${(error as Error).message}`);
        }
      };
      const context = read(this.context, "Context features");
      this.decision = await ask<Decision>(path("models", this.model.value, "try"), "POST", {
        userId: this.user.value, actions: read(this.actions, "Actions"), ...(context === null ? {} : { contextFeatures: context }),
      });
      this.onTheme();
    } catch (error) {
      replace(this.answer, h("p", { class: "notice bad" }, error instanceof Refused && error.field ? `${error.field}: ` : "", (error as Error).message));
    }
  }

  onTheme(): void {
    const decision = this.decision;
    if (!decision) return;
    const chance = decision.ranking.find((one) => one.id === decision.rewardActionId)?.probability ?? 0;
    replace(this.answer, h("p", { class: "answer" }, h("strong", {}, decision.rewardActionId), ` with probability ${percent(chance)}`),
      explanation(decision.explain, decision.rewardActionId));
  }
}
