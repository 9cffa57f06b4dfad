import { type AllSeries, ask, type Bucket, has, type Model, type Node, Refused } from "./api";
import { type Health, notices } from "./attention";
import { TimeChart } from "./charts";
import { figure, h, replace, table } from "./dom";
import { bytes, milliseconds, number, percent, reward } from "./format";
import { grouped, type Kind, settledBefore, together, total } from "./means";
import { type Context, kRanges, link, type Page } from "./pages";
import { colours } from "./theme";

// Mean rewards over time: of the answers, and estimated for random choice and the first action.
export function showRewards(chart: TimeChart, buckets: Bucket[], from: number, until: number,
                            settledUntil: number, label: string): void {
  const c = colours();
  const groups = grouped(buckets, 60);
  const line = (kind: Kind) => groups.map((group) => ({ time: group[0].time, mean: together(group, kind) }));
  chart.show([
    { name: "Mean reward", colour: c.reward, points: line("reward") },
    { name: "Random (estimated)", colour: c.random, points: line("random"), dashed: true },
    { name: "First action (estimated)", colour: c.first, points: line("first"), dashed: true },
  ], { label, format: reward, from, until, settledUntil, height: 200 });
}

export function rangePicker(context: Context): HTMLElement {
  return h("div", { class: "segmented", role: "group", "aria-label": "Time range" }, kRanges.map((range) =>
    h("button", { type: "button", "aria-pressed": String(range === context.range), click: () => context.setRange(range) }, range.name)));
}

export function inRange<T extends { time: number }>(buckets: T[], context: Context, now: number): T[] {
  return buckets.filter((bucket) => bucket.time >= now - 1000 * context.range.seconds);
}

// Where the axis of time begins: with the range, or with the first bucket if everything is younger.
export function beginOf(buckets: { time: number }[], context: Context, now: number): number {
  const from = now - 1000 * context.range.seconds;
  return buckets.length ? Math.max(from, Math.min(buckets[0].time, now - 60e3)) : from;
}

// The latest live buckets in place of older ones of the same time.
export function merged<T extends { time: number }>(old: T[], fresh: T[]): T[] {
  const from = fresh.length ? fresh[0].time : Infinity;
  return [...old.filter((bucket) => bucket.time < from), ...fresh];
}

class ModelCard {
  readonly element: HTMLElement;
  private readonly chart = new TimeChart(200);
  private readonly figures = h("dl", { class: "figures" });

  constructor(private readonly name: string) {
    this.element = h("article", { class: "card model", "aria-label": "Model " + name },
      h("h2", {}, h("a", { href: link("models", name) }, name)), this.figures, this.chart.element);
  }

  show(model: Model, buckets: Bucket[], context: Context, now: number, seconds: number): void {
    const settledUntil = now - 1000 * model.waitingSeconds;
    const settled = settledBefore(buckets, settledUntil, seconds);
    const own = together(settled, "reward");
    const random = together(settled, "random");
    const rate = context.live.rates.get(this.name);
    const decisions = total(buckets, "decisions");
    const late = total(buckets, "late");
    const rewards = total(buckets, "rewards");
    const better = own && random && random.value > 0 ? own.value / random.value - 1 : null;
    replace(this.figures,
      figure("Mean reward", own ? reward(own.value) : "–", own ? `${reward(own.low)} to ${reward(own.high)}` : "no settled rewards yet"),
      figure("Against random", better === null ? "–" : (better >= 0 ? "+" : "−") + percent(Math.abs(better)), random ? `random: ${reward(random.value)}` : ""),
      figure("Decisions", rate ? number(rate.decisions) + "/s" : "–", number(model.rounds) + " in all"),
      figure("Learned", rate ? number(rate.learned) + "/s" : "–", number(model.counts.learned) + " in all"),
      figure("Explored", decisions ? percent(total(buckets, "explored") / decisions) : "–", model.mode + ", ε " + model.epsilon),
      figure("Waiting", number(model.pending), rewards + late ? percent(late / (rewards + late)) + " of rewards late" : ""));
    showRewards(this.chart, buckets, beginOf(buckets, context, now), now, settledUntil,
      `Mean reward of model ${this.name} over ${context.range.name}: ${own ? reward(own.value) : "none yet"}`);
  }

  destroy(): void { this.chart.destroy(); }
}

export class Overview implements Page {
  readonly title = "Overview";
  readonly element = h("div", { class: "page" });
  private readonly attention = h("section", { class: "attention", "aria-label": "What needs attention" });
  private readonly figures = h("dl", { class: "figures wide" });
  private readonly cards = h("div", { class: "cards" });
  private readonly nodeList = h("div");
  private readonly models = new Map<string, ModelCard>();
  private series: AllSeries | null = null;
  private list: Model[] = [];
  private health: Health = { status: "ready" };
  private nodes: Node[] = [];
  private readonly timer = setInterval(() => void this.load(), 15000);
  private drawn = 0;

  constructor(private readonly context: Context) {
    replace(this.element, h("div", { class: "head" }, h("h1", {}, "Overview"), rangePicker(context)),
      this.attention, h("section", { class: "card", "aria-label": "The service" }, this.figures, this.nodeList), this.cards);
    void this.load();
  }

  async load(): Promise<void> {
    const health = ask<Health>("/readyz").catch((error: unknown) =>
      ({ status: "", problem: error instanceof Refused && error.status === 503 ? error.message : undefined }));
    const [series, { models }] = await Promise.all([
      ask<AllSeries>("/v1/series?resolution=" + this.context.range.resolution),
      ask<{ models: Model[] }>("/v1/models")]);
    this.health = await health;
    this.nodes = await has("/v1/nodes") ? (await ask<{ nodes: Node[] }>("/v1/nodes")).nodes : [];
    this.series = series;
    this.list = models;
    this.draw();
  }

  onLine(): void {
    const line = this.context.live.latest;
    if (!this.series || !line) return;
    if (this.context.range.resolution === line.resolution) {
      for (const model of line.models) {
        const known = this.series.models.find((one) => one.name === model.name);
        if (known) known.buckets = merged(known.buckets, model.buckets);
        else void this.load();
      }
      this.series.service = merged(this.series.service, line.service);
      this.series.now = line.now;
    }
    for (const model of this.list) {
      const totals = line.models.find((one) => one.name === model.name)?.totals;
      if (totals) {
        model.pending = totals.pending;
        model.rounds = totals.decisions;
        model.counts.learned = totals.learned;
      }
    }
    if (Date.now() - this.drawn > 900) this.draw();
  }

  onTheme(): void { this.draw(); }

  private draw(): void {
    const { series, context } = this;
    if (!series) return;
    this.drawn = Date.now();
    this.drawAttention(series);
    this.drawNodes();
    const latest = (context.live.latest?.service ?? series.service).slice(-1)[0];
    const recent = series.service.filter((bucket) => bucket.p99 > 0).slice(-1)[0];
    const rate = (name: "decisions" | "learned") => [...context.live.rates.values()].reduce((sum, one) => sum + one[name], 0);
    replace(this.figures,
      figure("Decisions", number(rate("decisions")) + "/s", "all models"),
      figure("Learned", number(rate("learned")) + "/s", "rewards and defaults"),
      figure("Latency of rank", recent ? milliseconds(recent.p50) : "–", recent ? "p99 " + milliseconds(recent.p99) : "no decision lately"),
      figure("Memory", latest ? bytes(latest.memoryBytes) : "–", "of " + bytes(series.memoryLimitBytes)),
      figure("Log", latest ? bytes(latest.logBytes) : "–", "on disk"),
      this.nodes.length ? figure("Nodes", this.nodes.length, "owner: " + (this.nodes.find((node) => node.owner)?.name ?? "none")) : null);
    for (const model of this.list) {
      let card = this.models.get(model.name);
      if (!card) {
        card = new ModelCard(model.name);
        this.models.set(model.name, card);
        this.cards.append(card.element);
      }
      const buckets = series.models.find((one) => one.name === model.name)?.buckets ?? [];
      card.show(model, inRange(buckets, context, series.now), context, series.now, series.seconds);
    }
    for (const [name, card] of this.models) {
      if (!this.list.some((model) => model.name === name)) {
        card.destroy();
        card.element.remove();
        this.models.delete(name);
      }
    }
  }

  private drawAttention(series: AllSeries): void {
    const found = notices(series, this.list, this.health, this.nodes);
    const text = found.map((one) => one.level + one.text).join("\n") || "well";
    if (this.attention.dataset.text === text) return;
    this.attention.dataset.text = text;
    replace(this.attention, found.length === 0
      ? h("p", { class: "notice good" }, "All is well: nothing needs attention.")
      : found.map((one) => h("p", { class: "notice " + one.level }, h("span", { class: "hidden" }, one.level === "bad" ? "Problem: " : "Warning: "),
        one.model ? [h("a", { href: link("models", one.model) }, one.model), ": "] : null, one.text)));
  }

  // One process alone is no news.
  private drawNodes(): void {
    const { nodes } = this;
    this.nodeList.className = nodes.length > 1 ? "nodes" : "";
    replace(this.nodeList, nodes.length > 1 ? table("Nodes", ["Node", "Address", "Part", "Last sign"], nodes.map((node) => [
      node.name, node.address, node.owner ? "owner" : "follows", number(node.silentSeconds) + " s ago"])) : null);
  }

  destroy(): void {
    clearInterval(this.timer);
    for (const card of this.models.values()) card.destroy();
  }
}
