import { ask, type Bucket, type EventLine, type EventReward, type Model, path, type Series, type Settings } from "./api";
import { BarChart, TimeChart } from "./charts";
import { challengers } from "./challengers";
import { figure, h, replace, section, table } from "./dom";
import { ago, bytes, number, percent, reward, time } from "./format";
import { UserMapView } from "./map";
import { grouped, interval, settledBefore, together, total } from "./means";
import { beginOf, inRange, merged, rangePicker, showRewards } from "./overview";
import { type Context, link, type Page } from "./pages";
import { settingsForm } from "./settings";
import { colours } from "./theme";

// The busiest actions of some buckets, with all others as one.
export function busiest(buckets: Bucket[], most: number): { id: string | undefined; decisions: number; settled: number; rewards: number }[] {
  const sums = new Map<string | undefined, { decisions: number; settled: number; rewards: number }>();
  for (const bucket of buckets) {
    for (const share of bucket.actions ?? []) {
      const sum = sums.get(share.id) ?? { decisions: 0, settled: 0, rewards: 0 };
      sum.decisions += share.decisions;
      sum.settled += share.settled;
      sum.rewards += share.rewards;
      sums.set(share.id, sum);
    }
  }
  const named = [...sums].filter(([id]) => id !== undefined).sort((a, b) => b[1].decisions - a[1].decisions);
  const shown = named.slice(0, most).map(([id, sum]) => ({ id, ...sum }));
  const rest = [...named.slice(most).map(([, sum]) => sum), ...(sums.has(undefined) ? [sums.get(undefined)!] : [])];
  if (rest.length) {
    shown.push({ id: undefined, ...rest.reduce((a, b) =>
      ({ decisions: a.decisions + b.decisions, settled: a.settled + b.settled, rewards: a.rewards + b.rewards })) });
  }
  return shown;
}

export function outcome(event: { rewards: EventReward[]; activated: boolean }): string {
  return event.rewards.length ? event.rewards.map((one) => one.value).join(", ") : event.activated ? "none" : "not activated";
}

// `named`: with their users.
export function eventRows(model: string, events: EventLine[], now: number, named: boolean) {
  return table("Latest events", ["Event", ...(named ? ["User"] : []), "Answer", "Probability", "Rewards", "When"], events.map((event) => [
    h("a", { href: link("models", model, "events", event.eventId) },
      event.slot === undefined ? event.eventId : `${event.eventId}, slot ${event.slot}`),
    ...(named ? [h("a", { href: link("models", model, "users", event.userId) }, event.userId)] : []),
    [event.rewardActionId, event.explored ? h("span", { class: "tag" }, "explored") : null],
    percent(event.propensity),
    outcome(event),
    h("span", { title: time(event.time) }, ago(event.time, now))]));
}

export class ModelPage implements Page {
  readonly title: string;
  readonly element = h("div", { class: "page" });
  private readonly figures = h("dl", { class: "figures wide" });
  private readonly rewards = new TimeChart(260);
  private readonly actions = new TimeChart(220);
  private readonly learning = new TimeChart(160);
  private readonly steps = new TimeChart(130);
  private readonly movement = new TimeChart(130);
  private readonly probabilities = new BarChart(180);
  private readonly shares = h("div");
  private readonly size = h("p", { class: "note" });
  private readonly events = h("div");
  private readonly settings = h("div");
  private readonly rivals = h("div");
  private map: UserMapView | null = null;
  private readonly mapBox = h("div");
  private series: Series | null = null;
  private model: Model | null = null;
  private history: Settings | null = null;
  private readonly timer = setInterval(() => void this.load(), 10000);

  // `learner`: the one that the map shows first.
  constructor(private readonly name: string, private readonly context: Context, private readonly learner?: number) {
    this.title = name;
    const search = h("form", { class: "row search", role: "search", submit: (event) => this.search(event) },
      h("label", {}, h("span", { class: "hidden" }, "Look for"), h("select", { name: "kind" }, h("option", { value: "users" }, "user"), h("option", { value: "events" }, "event"))),
      h("label", {}, h("span", { class: "hidden" }, "Id"), h("input", { name: "id", required: true, placeholder: "id", autocomplete: "off", spellcheck: "false" })),
      h("button", { type: "submit" }, "Look up"));
    replace(this.element,
      h("div", { class: "head" }, h("h1", {}, "Model ", h("span", { class: "name" }, name)), rangePicker(context)),
      h("section", { class: "card", "aria-label": "Figures" }, this.figures),
      section("Mean reward", this.rewards.element, h("p", { class: "note" }, "By the time of the decision. Later than the waiting time ago, rewards are still to come: the lines are faint there.")),
      h("div", { class: "two" },
        section("Answers over time", this.actions.element, this.shares),
        h("div", {}, section("Probability of the answers", this.probabilities.element, this.size),
          section("Learning", this.learning.element, this.steps.element, this.movement.element))),
      section("Map of users", this.mapBox),
      this.rivals,
      section("Latest events", search, this.events),
      section("Settings", this.settings));
    void this.load().then(() => this.loadMap());
  }

  private search(event: Event): void {
    event.preventDefault();
    const data = new FormData(event.target as HTMLFormElement);
    location.hash = link("models", this.name, String(data.get("kind")), String(data.get("id")));
  }

  async load(): Promise<void> {
    const { name, context } = this;
    const [model, series, events, history] = await Promise.all([
      ask<Model>(path("models", name)),
      ask<Series>(path("models", name, "series") + "?resolution=" + context.range.resolution),
      ask<{ events: EventLine[] }>(path("models", name, "events")),
      ask<Settings>(path("models", name, "settings"))]);
    this.model = model;
    this.series = series;
    replace(this.events, events.events.length ? eventRows(name, events.events.slice(0, 15), series.now, true) : h("p", { class: "note" }, "None yet."));
    if (JSON.stringify(history) !== JSON.stringify(this.history)) {
      this.history = history;
      replace(this.settings, settingsForm(name, history, () => void this.load()));
    }
    replace(this.rivals, challengers(model.challengers ?? []));
    this.draw();
  }

  private async loadMap(): Promise<void> {
    const policy = this.model?.policy;
    const gap = policy === "mcnb" ? Number(this.model!.options["gamma"]) : null;
    this.map = new UserMapView(this.name, Number.isFinite(gap) ? gap : null);
    replace(this.mapBox, this.map.element);
    await this.map.load();
    if (this.learner !== undefined) this.map.find(this.learner);
  }

  onLine(): void {
    const line = this.context.live.latest;
    const model = line?.models.find((one) => one.name === this.name);
    if (!line || !model || !this.series || !this.model) return;
    this.model.pending = model.totals.pending;
    this.model.rounds = model.totals.decisions;
    this.model.counts.learned = model.totals.learned;
    if (this.context.range.resolution === line.resolution) {
      // The stream has no actions: keep those that are known until the next load.
      const known = new Map(this.series.buckets.map((bucket) => [bucket.time, bucket]));
      const fresh = model.buckets.map((bucket) => ({ ...known.get(bucket.time), ...bucket }));
      this.series.buckets = merged(this.series.buckets, fresh);
      this.series.now = line.now;
      this.series.settledUntil = model.settledUntil;
    }
    this.draw();
  }

  onTheme(): void { this.draw(); }

  private draw(): void {
    const { series, model, context } = this;
    if (!series || !model) return;
    const buckets = inRange(series.buckets, context, series.now);
    const from = beginOf(buckets, context, series.now);
    const settled = settledBefore(buckets, series.settledUntil, series.seconds);
    const own = together(settled, "reward");
    const random = together(settled, "random");
    const first = together(settled, "first");
    const decisions = total(buckets, "decisions");
    const rate = context.live.rates.get(this.name);
    const show = (mean: ReturnType<typeof interval>) => (mean ? reward(mean.value) : "–");
    const range = (mean: ReturnType<typeof interval>) => (mean ? `${reward(mean.low)} to ${reward(mean.high)}` : "");
    replace(this.figures,
      figure("Mean reward", show(own), range(own)),
      figure("Random choice", show(random), random ? "estimated, " + range(random) : ""),
      figure("First action", show(first), first ? "estimated, " + range(first) : ""),
      figure("Decisions", rate ? number(rate.decisions) + "/s" : "–", number(model.rounds) + " in all"),
      figure("Explored", decisions ? percent(total(buckets, "explored") / decisions) : "–"),
      figure("Users", number(model.users), number(model.pending) + " events wait"),
      figure("Policy", model.policy, model.mode),
      figure("Memory", bytes(model.memoryBytes), model.clusters.meanSize ? "mean cluster " + number(model.clusters.meanSize) : ""));
    showRewards(this.rewards, buckets, from, series.now, series.settledUntil,
      `Mean reward over ${context.range.name}: ${show(own)}, random choice ${show(random)}, first action ${show(first)}`);
    this.drawActions(buckets, from);
    const counts = buckets.reduce((sums, bucket) => sums.map((sum, i) => sum + (bucket.probabilities?.[i] ?? 0)), new Array<number>(10).fill(0));
    this.probabilities.show(counts.map((_, i) => (i / 10).toFixed(1)), counts, "How many answers were given with which probability, in tenths", number);
    const effective = settled.reduce((sum, bucket) => sum + bucket.effectiveSize, 0);
    this.size.textContent = `Estimates for random choice rest on an effective ${number(effective)} of ${number(total(settled, "settled"))} rewards.`;
    const groups = grouped(buckets, 60);
    const c = colours();
    const per = (name: "learned" | "rewards" | "late") => groups.map((group) => ({ time: group[0].time, mean: total(group, name) / (group.length * series.seconds) }));
    this.learning.show([
      { name: "Learned", colour: c.reward, points: per("learned") },
      { name: "Rewards in time", colour: c.first, points: per("rewards") },
      { name: "Late", colour: c.marked, points: per("late") },
    ], { label: "Lessons, rewards and late rewards per second", format: (value) => number(value) + "/s", from, until: series.now });
    const stepped = buckets.some((bucket) => bucket.steps > 0);
    this.steps.element.hidden = this.movement.element.hidden = !stepped;
    if (!stepped) return;
    this.steps.show([{ name: "Steps of networks", colour: c.palette[3], points: groups.map((group) => (
      { time: group[0].time, mean: group.reduce((sum, bucket) => sum + bucket.steps, 0) / (group.length * series.seconds) })) }],
      { label: "Steps of networks per second", format: (value) => number(value) + "/s", from, until: series.now });
    this.movement.show([{ name: "Distance of the meta-learner from its start", colour: c.palette[2], points: groups.map((group) => (
      { time: group[0].time, mean: group.map((bucket) => bucket.movement).filter((moved) => moved > 0).pop() ?? null })) }],
      { label: "Distance of the meta-learner from its start", format: (value) => value.toFixed(2), from, until: series.now });
  }

  private drawActions(buckets: Bucket[], from: number): void {
    const { palette } = colours();
    const shown = busiest(buckets, 7);
    const groups = grouped(buckets, 60);
    const share = (group: Bucket[], id: string | undefined) => {
      const all = total(group, "decisions");
      const named = (one: string | undefined) => group.reduce((sum, bucket) => sum + (bucket.actions ?? []).filter((a) => a.id === one).reduce((n, a) => n + a.decisions, 0), 0);
      const others = id === undefined ? all - shown.filter((one) => one.id !== undefined).reduce((sum, one) => sum + named(one.id), 0) : 0;
      return all ? (id === undefined ? others : named(id)) / all : 0;
    };
    const full = groups.filter((group) => group.some((bucket) => bucket.actions) && total(group, "decisions") > 0);
    this.actions.show(shown.map((one, i) => ({
      name: one.id ?? "all others", colour: palette[i % palette.length],
      points: full.map((group) => ({ time: group[0].time, mean: share(group, one.id) })),
    })), { label: "Shares of the answers over time", format: percent, stacked: true, from, until: this.series!.now });
    replace(this.shares, table("Answers", ["Answer", "Decisions", "Mean reward"], shown.map((one) => [
      one.id ?? "all others", number(one.decisions), one.settled ? reward(one.rewards / one.settled) : "–"])));
  }

  destroy(): void {
    clearInterval(this.timer);
    this.map?.destroy();
    for (const chart of [this.rewards, this.actions, this.learning, this.steps, this.movement, this.probabilities]) chart.destroy();
  }
}
