// Requests to the service. The key is kept in this module's memory only: it is in no URL, no cookie
// and no storage, and is gone when the page is.

export interface Mean { value?: number; low?: number; high?: number; sums: number[] }
export interface Share { id?: string; decisions: number; settled: number; rewards: number }
export interface Bucket {
  time: number; decisions: number; explored: number; rewards: number; late: number; learned: number;
  refused: number; steps: number; movement: number; settled: number; rewarded: number; reward: Mean; random: Mean; first: Mean;
  effectiveSize: number; probabilities?: number[]; actions?: Share[];
}
export interface ServiceBucket {
  time: number; requests: number; errors: number; p50: number; p99: number; logBytes: number;
  memoryBytes: number;
}
export interface ModelSeries {
  name: string; settledUntil: number; buckets: Bucket[];
  totals: { decisions: number; learned: number; pending: number; users: number };
}
export interface Head { resolution: string; seconds: number; now: number }
export type Series = Head & ModelSeries;
export interface AllSeries extends Head {
  memoryLimitBytes: number; service: ServiceBucket[]; models: ModelSeries[];
}
export interface Model {
  name: string; policy: string; options: Record<string, string>; dimension: number; mode: string;
  epsilon: number; waitingSeconds: number; defaultReward: number; aggregation: string;
  modelVersion: number; rounds: number; users: number; learners: number; pending: number;
  memoryBytes: number; lastRefusal: string; counts: Record<string, number>;
  clusters: { meanSize: number }; userPath: string; groups: number; seed: number;
  challengers?: Challenger[];
}
export interface Estimate { decisions: number; value?: number | null; low: number; high: number }
export interface Challenger {
  name: string; policy: string; learned: number; refused: number; lastRefusal: string; estimate: Estimate; champion: Estimate;
}
export interface Explanation {
  id: string; probability: number; value: number; estimate: number; clusterSize: number;
  clusterFound?: number; clusterVisited?: number; parts: Record<string, number>;
}
export interface Decision {
  eventId: string; rewardActionId: string; ranking: { id: string; probability: number }[];
  modelVersion: number; explain: Explanation[];
}
export interface EventReward { value: number; rewardId: string; time: number }
export interface EventView extends Decision {
  userId: string; time: number; mode: string; deferred: boolean; waiting: boolean;
  activated: boolean; rewards: EventReward[]; preferredActionId: string; propensity: number;
  slots?: SlotView[];
}
export interface SlotView {
  id: string; rewardActionId: string; preferredActionId: string; probability: number;
  waiting: boolean; activated: boolean; rewards: EventReward[];
}
export interface EventLine {
  eventId: string; slot?: string; userId: string; time: number; rewardActionId: string; propensity: number;
  explored: boolean; activated: boolean; rewards: EventReward[];
}
export interface UserView {
  userId: string; ownLearner: boolean; shared: boolean; learner: number; decisions: number; learned: number;
}
export interface UserEstimates { userId: string; preferredActionId?: string; explain: Explanation[] }
export interface UserMap {
  actions: string[]; learners: number[]; lessons: number[]; x: number[]; y: number[];
  low: number; high: number; opinions: string;
}
export interface Behind {
  clusters: boolean; memberCount: number; members: { learner: number; userId?: string }[];
  samples: { reward: number; moved: number; eventId?: string; userId?: string; rewardActionId?: string }[];
}
export interface Node { name: string; address: string; owner: boolean; silentSeconds: number }
export interface Settings { settings: Record<string, string | number>; changes: { time: number; settings: string }[] }

export class Refused extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly field: string) {
    super(message);
  }
}

let key = "";
export function setKey(given: string): void { key = given; }
export function hasKey(): boolean { return key !== ""; }

function headers(body: boolean): Record<string, string> {
  return { ...(key ? { "X-API-Key": key } : {}), ...(body ? { "Content-Type": "application/json" } : {}) };
}

async function refusal(response: Response): Promise<Refused> {
  try {
    const { error } = await response.json();
    return new Refused(response.status, error.code, error.message, error.field ?? "");
  } catch {
    return new Refused(response.status, "", "status " + response.status, "");
  }
}

export async function ask<T>(path: string, method = "GET", body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await fetch(path, {
    method, headers: headers(body !== undefined), signal, cache: "no-store",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export function path(...segments: string[]): string {
  return "/v1/" + segments.map(encodeURIComponent).join("/");
}

let paths: Promise<Record<string, unknown>> | null = null;
// Whether this service has an endpoint.
export async function has(path: string): Promise<boolean> {
  paths ??= ask<{ paths: Record<string, unknown> }>("/openapi.json").then((document) => document.paths);
  return path in await paths;
}

// Calls `take` for every line of a stream until it ends.
export async function follow<T>(url: string, signal: AbortSignal, take: (line: T) => void): Promise<void> {
  const response = await fetch(url, { headers: headers(false), signal, cache: "no-store" });
  if (!response.ok) throw await refusal(response);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
      take(JSON.parse(text.slice(0, end)));
      text = text.slice(end + 1);
    }
  }
}
