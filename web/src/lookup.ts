// One user, and one event.

import { ask, type Behind, type EventLine, type EventView, path, type UserEstimates, type UserView } from "./api";
import { figure, h, replace, section, table } from "./dom";
import { explanation } from "./explain";
import { ago, number, percent, time } from "./format";
import { eventRows, outcome } from "./model";
import { link, type Page } from "./pages";

export class UserPage implements Page {
  readonly title: string;
  readonly element = h("div", { class: "page" }, h("p", {}, "Loading …"));
  private readonly estimates = h("div");
  private known: UserEstimates | null = null;

  constructor(private readonly model: string, private readonly user: string) {
    this.title = "User " + user;
  }

  async load(): Promise<void> {
    const { model, user } = this;
    const [view, { events }] = await Promise.all([
      ask<UserView>(path("models", model, "users", user)),
      ask<{ events: EventLine[] }>(path("models", model, "users", user, "events"))]);
    const rewards = events.flatMap((event) => event.rewards.map((one) => one.value));
    const learner = view.ownLearner ? ["of this user alone, ", h("a", { href: link("models", model, "learners", String(view.learner)) }, "on the map")] : "shared with others";
    replace(this.element,
      h("p", { class: "crumbs" }, h("a", { href: link("models", model) }, "Model " + model)),
      h("h1", {}, "User ", h("span", { class: "name" }, user)),
      h("section", { class: "card", "aria-label": "Figures" }, h("dl", { class: "figures wide" },
        figure("Decisions", number(view.decisions)),
        figure("Learned", number(view.learned)),
        figure("Learner", view.learner, learner),
        figure("Mean of the latest rewards", rewards.length ? (rewards.reduce((a, b) => a + b) / rewards.length).toFixed(3) : "–", number(rewards.length) + " rewards"))),
      section("What the model expects now", this.estimates, h("p", { class: "note" }, "Of the actions that were chosen lately, for anybody. ", h("a", { href: link("try", model, user) }, "Try others with this user"), ".")),
      section("Latest events", events.length ? eventRows(model, events, Date.now(), false) : h("p", { class: "note" }, "None among the latest rows of the log.")));
    this.known = await ask<UserEstimates>(path("models", model, "users", user, "estimates"));
    this.onTheme();
  }

  onTheme(): void {
    if (!this.known) return;
    replace(this.estimates, this.known.explain.length ? explanation(this.known.explain, this.known.preferredActionId ?? "", "preferred")
      : h("p", { class: "note" }, "Nothing was decided lately."));
  }
}

export class EventPage implements Page {
  readonly title: string;
  readonly element = h("div", { class: "page" }, h("p", {}, "Loading …"));
  private event: EventView | null = null;
  private behind: Behind | null = null;

  constructor(private readonly model: string, private readonly id: string) {
    this.title = "Event " + id;
  }

  async load(): Promise<void> {
    this.event = await ask<EventView>(path("models", this.model, "events", this.id));
    this.draw();
    this.behind = await ask<Behind>(path("models", this.model, "events", this.id, "behind"));
    this.draw();
  }

  onTheme(): void { this.draw(); }

  private draw(): void {
    const event = this.event;
    if (!event) return;
    const explored = event.rewardActionId !== event.preferredActionId;
    const answer = event.explain.find((one) => one.id === event.rewardActionId);
    replace(this.element,
      h("p", { class: "crumbs" }, h("a", { href: link("models", this.model) }, "Model " + this.model)),
      h("h1", {}, "Event ", h("span", { class: "name" }, event.eventId)),
      h("section", { class: "card", "aria-label": "Figures" }, h("dl", { class: "figures wide" },
        figure("User", h("a", { href: link("models", this.model, "users", event.userId) }, event.userId)),
        figure("Answer", event.rewardActionId, explored ? "explored" : "the policy's choice"),
        figure("Probability", percent(event.propensity)),
        figure("Decided", ago(event.time, Date.now()), time(event.time)),
        figure("Lessons before", number(event.modelVersion)))),
      event.slots ? section("Slots", h("p", { class: "note" }, "The first slot's answer is explained below. Each probability is that given the slots before it."),
        table("Slots", ["Slot", "Answer", "Probability", "Rewards"], event.slots.map((slot) => [slot.id,
          [slot.rewardActionId, slot.rewardActionId !== slot.preferredActionId ? h("span", { class: "tag" }, "explored") : null],
          percent(slot.probability), outcome(slot)]))) : null,
      section("Why this answer", h("p", {}, explored
        ? ["The answer was drawn by exploration. The policy preferred ", h("strong", {}, event.preferredActionId), "."]
        : [h("strong", {}, event.rewardActionId), ` has the highest value, ${answer?.value.toFixed(4) ?? ""}: what the policy expected and what it added for uncertainty.`]),
        explanation(event.explain, event.rewardActionId)),
      section("What happened afterwards", event.rewards.length
        ? table("Rewards", ["Reward", "Id", "After"], event.rewards.map((one) => [one.value, one.rewardId || "–", ((one.time - event.time) / 1000).toFixed(1) + " s"]))
        : h("p", { class: "last" }, !event.activated ? "The event was not activated." : event.waiting ? "It waits for a reward." : "No reward came: the default reward was learned.")),
      this.behind ? this.lookBehind(this.behind, event) : null);
  }

  private lookBehind(behind: Behind, event: EventView) {
    const user = (id: string) => h("a", { href: link("models", this.model, "users", id) }, id);
    const members = behind.members.map((one) => h("li", {}, one.userId === undefined ? `learner ${one.learner}` : user(one.userId)));
    const more = behind.memberCount - behind.members.length;
    return [
      behind.clusters ? section("Who agrees now", h("p", {}, `${number(behind.memberCount)} learners, this user's among them, expect about the same of ${event.rewardActionId}.`),
        h("ul", { class: "names" }, members, more > 0 ? h("li", {}, `and ${number(more)} more`) : null)) : null,
      behind.samples.length ? section("Samples that move the estimate most", h("p", { class: "note" }, "What the meta-learner adapts to for this action now, and how much it would expect less (or more) without each sample."),
        table("Samples that move the estimate most", ["Moves by", "Reward", "Answer", "User", "Event"], behind.samples.slice(0, 12).map((one) => [
          (one.moved >= 0 ? "+" : "−") + Math.abs(one.moved).toFixed(4), one.reward, one.rewardActionId ?? "–",
          one.userId === undefined ? "–" : user(one.userId),
          one.eventId === undefined ? "older" : h("a", { href: link("models", this.model, "events", one.eventId) }, one.eventId)]))) : null];
  }
}

