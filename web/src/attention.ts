// What an operator should look at, in words, the most urgent first.

import type { AllSeries, Model, Node } from "./api";
import { milliseconds, number, percent, reward } from "./format";
import { settledBefore, together, total } from "./means";

export interface Notice { level: "bad" | "warn"; text: string; model?: string }
export interface Health { status: string; damage?: { what: string }[]; problem?: string }

function ofModel(model: Model, series: AllSeries): Notice[] {
  const found: Notice[] = [];
  const add = (level: Notice["level"], text: string) => found.push({ level, text, model: model.name });
  const buckets = series.models.find((one) => one.name === model.name)?.buckets ?? [];
  const decisions = total(buckets, "decisions");
  const rewards = total(buckets, "rewards");
  const late = total(buckets, "late");
  const refused = total(buckets, "refused");
  const settled = settledBefore(buckets, series.now - 1000 * model.waitingSeconds, series.seconds);
  const own = together(settled, "reward");
  const random = together(settled, "random");
  if (refused > 0) {
    add("bad", `The policy refused to learn ${number(refused)} rewards: ${model.lastRefusal || "see the log"}.`);
  }
  if (own && random && own.high < random.low) {
    add("bad", `It earns less than random choice would: ${reward(own.value)} instead of ${reward(random.value)}.`);
  }
  if (total(settled, "decisions") >= 100 && total(settled, "rewarded") === 0) {
    add("bad", `No reward came for the last ${number(total(settled, "decisions"))} decisions. Are rewards being sent?`);
  }
  if (rewards + late >= 20 && late > 0.05 * (rewards + late)) {
    add("warn", `${percent(late / (rewards + late))} of the rewards come after the waiting time and are not learned. A longer waiting time would count them.`);
  }
  if (model.mode === "online" && model.epsilon === 0) {
    add("warn", "Nothing is explored (epsilon is 0), so nobody can say what other choices would earn.");
  }
  if (model.mode !== "online") {
    add("warn", `It is in mode ${model.mode}: the caller's first action is always chosen.`);
  }
  const effective = settled.reduce((sum, bucket) => sum + bucket.effectiveSize, 0);
  if (model.mode === "online" && decisions >= 1000 && total(settled, "settled") >= 500 && effective < 50) {
    add("warn", `The estimates for other choices rest on an effective ${number(effective)} rewards. More exploration would sharpen them.`);
  }
  return found;
}

export function notices(series: AllSeries, models: Model[], health: Health, nodes: Node[]): Notice[] {
  const found: Notice[] = [];
  if (health.problem) found.push({ level: "bad", text: `The service is not ready: ${health.problem}.` });
  for (const damage of health.damage ?? []) found.push({ level: "bad", text: `The log is damaged: ${damage.what}.` });
  for (const node of nodes) {
    if (node.silentSeconds > 10) found.push({ level: "warn", text: `Node ${node.name} has been silent for ${number(node.silentSeconds)} s.` });
  }
  if (nodes.length && !nodes.some((node) => node.owner)) found.push({ level: "bad", text: "No node owns the store: nothing is decided or learned." });
  const last = series.service.slice(-12);
  const requests = last.reduce((sum, bucket) => sum + bucket.requests, 0);
  const errors = last.reduce((sum, bucket) => sum + bucket.errors, 0);
  if (errors > 0) found.push({ level: errors > 0.01 * requests ? "bad" : "warn", text: `${number(errors)} of the last ${number(requests)} requests failed with a status of 500 or more.` });
  const slow = Math.max(0, ...last.map((bucket) => bucket.p99));
  if (slow > 0.5) found.push({ level: "warn", text: `One decision in a hundred takes longer than ${milliseconds(slow)}.` });
  const memory = last[last.length - 1]?.memoryBytes ?? 0;
  const memoryLimit = series.memoryLimitBytes;
  if (memoryLimit > 0 && memory > 0.9 * memoryLimit) found.push({ level: "bad", text: `The models take ${percent(memory / memoryLimit)} of the memory they may. Soon new users will be refused.` });
  for (const model of models) found.push(...ofModel(model, series));
  return found.sort((a, b) => Number(b.level === "bad") - Number(a.level === "bad"));
}
