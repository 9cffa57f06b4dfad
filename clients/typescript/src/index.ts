// A client of the service `mcnb serve` (docs/HTTP_API.md). Works in browsers and in Node 18 and later.

export type FeatureValue = number | string | boolean | FeatureValue[] | { [name: string]: FeatureValue };
export type FeatureObject = { [name: string]: FeatureValue };
/** Numbers, as many as the model's dimension, or objects that the service hashes. */
export type Features = number[] | FeatureObject | FeatureObject[];

export interface Action { id: string; features?: Features }

export interface RankOptions {
  /** Describes the situation. */
  context?: FeatureObject | FeatureObject[];
  /** An id of your own; otherwise a random one. It is the same in all attempts. */
  eventId?: string;
  /** Ids of actions that must not be chosen. */
  excluded?: string[];
  /** If true, the event counts only after `activate`. */
  defer?: boolean;
  /** If true, the decision explains its scores. */
  explain?: boolean;
  signal?: AbortSignal;
}

export interface Explanation {
  id: string; probability: number; value: number; estimate: number; clusterSize: number;
  parts: Record<string, number>;
}

export interface Decision {
  /** The reward needs it. */
  eventId: string;
  /** The action to show. */
  action: string;
  /** The exact chance with which it was chosen. */
  probability: number;
  ranking: { id: string; probability: number }[];
  modelVersion: number;
  explain?: Explanation[];
}

/** A place on a page, such as `{ id: "top" }`. */
export interface Slot {
  id: string;
  features?: Features;
  /** Ids of actions that this slot must not show. */
  excludedActions?: string[];
  /** The action that the caller would show. */
  baselineAction?: string;
}

export interface SlotDecision {
  slot: string;
  /** The action to show there. */
  action: string;
  /** The exact chance with which it was chosen, given the actions of the slots before. */
  probability: number;
  ranking: { id: string; probability: number }[];
  explain?: Explanation[];
}

export interface SlotDecisions {
  /** The rewards need it. */
  eventId: string;
  slots: SlotDecision[];
  modelVersion: number;
}

export type RewardOutcome = "learned" | "waiting" | "duplicate" | "ignored" | "late";

export interface ClientOptions {
  /** API key, if the service has keys. */
  key?: string;
  /** Name of the model ["default"]. */
  model?: string;
  /** Milliseconds that one attempt may take [10,000]. */
  timeout?: number;
  /** How often to try again if the service cannot be reached, is late or busy [3]. */
  retries?: number;
  /** Milliseconds of the first pause between attempts, on average; each later one doubles [100]. */
  backoff?: number;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch;
}

/** The service refused a request: `status` of HTTP, `code` and `field` as in its response. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  constructor(readonly status: number, readonly code: string, message: string, readonly field: string | null = null) {
    super(`${status} ${code}: ${message}`);
  }
}

/** No attempt got a response. `cause` is what the last one failed with. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
}

const kBusy = new Set([429, 502, 503, 504]);  // worth another try
const kNotDone = new Set([429, 503]);         // the service says that it did nothing
const kLongestPause = 10_000;                 // milliseconds

interface Call {
  body?: unknown;
  /** False: not sent again if it may have been done already. */
  repeat?: boolean;
  signal?: AbortSignal | undefined;
}

/** A client of one model of the service. */
export class Client {
  readonly url: string;
  readonly model: string;
  private readonly options: Required<Omit<ClientOptions, "key" | "model">> & { key?: string };

  constructor(url = "http://localhost:8080", options: ClientOptions = {}) {
    if (!/^https?:\/\/[^/]/.test(url)) {
      throw new TypeError(`url: expected "http://host:port" or "https://...", got ${JSON.stringify(url)}`);
    }
    const { key, model = "default", timeout = 10_000, retries = 3, backoff = 100 } = options;
    if (!(timeout > 0)) throw new RangeError(`timeout: expected more than 0, got ${timeout}`);
    if (!(retries >= 0)) throw new RangeError(`retries: expected at least 0, got ${retries}`);
    this.url = url.replace(/\/+$/, "");
    this.model = model;
    // A browser's fetch wants to be called without an owner.
    const send = options.fetch ?? ((input: RequestInfo | URL, init?: RequestInit) => fetch(input, init));
    this.options = { timeout, retries, backoff, fetch: send, ...(key === undefined ? {} : { key }) };
  }

  /** Decides what to show to a user. */
  async rank(userId: string, actions: Action[] | Record<string, Features>, options: RankOptions = {}): Promise<Decision> {
    const { rewardActionId: action, ...rest } = await this.decide<
      { rewardActionId: string } & Omit<Decision, "action" | "probability">>(userId, actions, options, {});
    return { ...rest, action, probability: rest.ranking.find((one) => one.id === action)!.probability };
  }

  /** Decides what to show in several slots of a page; a number asks for so many actions. */
  async rankSlots(userId: string, actions: Action[] | Record<string, Features>, slots: Slot[] | number,
                  options: RankOptions = {}): Promise<SlotDecisions> {
    const { eventId, modelVersion, slots: decided } = await this.decide<{
      eventId: string; modelVersion: number;
      slots: ({ id: string; rewardActionId: string } & Omit<SlotDecision, "slot" | "action">)[];
    }>(userId, actions, options, { slots });
    return { eventId, modelVersion,
             slots: decided.map(({ id: slot, rewardActionId: action, ...rest }) => ({ slot, action, ...rest })) };
  }

  /** Sends a reward in [0, 1]. All attempts have one id, so it counts once. */
  async reward(event: string | Decision, value: number, rewardId: string = randomId()): Promise<RewardOutcome> {
    return this.sendReward(idOf(event), { value, rewardId });
  }

  /** The same for one slot of an event. */
  async rewardSlot(event: string | SlotDecisions, slot: string, value: number, rewardId: string = randomId()): Promise<RewardOutcome> {
    return this.sendReward(idOf(event), { slot, value, rewardId });
  }

  /** Says that the action of a deferred event was shown. */
  async activate(event: string | Decision | SlotDecisions): Promise<void> {
    await this.call("POST", this.path("events", idOf(event), "activate"));
  }

  /** What the model knows about an event, with its explanation and its rewards. */
  event(event: string | Decision | SlotDecisions): Promise<Record<string, unknown>> {
    return this.call("GET", this.path("events", idOf(event)));
  }

  /** What the model knows about a user. */
  user(userId: string): Promise<Record<string, unknown>> {
    return this.call("GET", this.path("users", userId));
  }

  /** Makes the model forget a user. Needs an admin key. */
  async forget(userId: string): Promise<void> {
    await this.call("DELETE", this.path("users", userId));
  }

  /** The options and counts of the model. */
  info(): Promise<Record<string, unknown>> {
    return this.call("GET", this.path());
  }

  /** Creates a model and returns a client of it. Not sent again if its response is lost. */
  async createModel(name: string, settings: Record<string, unknown> = {}): Promise<Client> {
    await this.call("POST", "/v1/models", { body: { name, ...settings }, repeat: false });
    return this.of(name);
  }

  /** A client of another model of the same service. */
  of(model: string): Client {
    return new Client(this.url, { ...this.options, model });
  }

  /** Whether the service can serve now. Tries once. */
  async ready(): Promise<boolean> {
    try {
      return (await this.attempt("GET", "/readyz", {})).ok;
    } catch {
      return false;
    }
  }

  /** Sends any request of the API and returns the JSON of its response. */
  async call<T = unknown>(method: string, path: string, call: Call = {}): Promise<T> {
    const { retries, backoff } = this.options;
    const repeat = call.repeat ?? true;
    for (let attempt = 0; ; ++attempt) {
      let pause = Math.min(backoff * 2 ** attempt, kLongestPause) * (0.5 + Math.random());
      let response: Response;
      try {
        response = await this.attempt(method, path, call);
      } catch (error) {
        call.signal?.throwIfAborted();
        if (attempt >= retries || !repeat) {
          throw new ConnectionError(`${this.url}: no response after ${attempt + 1} tries: ${textOf(error)}`, { cause: error });
        }
        await sleep(pause, call.signal);
        continue;
      }
      if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T;
      if (attempt >= retries || !(repeat ? kBusy : kNotDone).has(response.status)) throw await refusal(response);
      pause = Math.max(pause, 1000 * (Number(response.headers.get("Retry-After")) || 0));
      await sleep(pause, call.signal);
    }
  }

  // One try. The body is read within its time, too.
  private async attempt(method: string, path: string, { body, signal }: Call): Promise<Response> {
    const late = new AbortController();
    const stop = () => late.abort(signal?.reason);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", stop);
    const timer = setTimeout(() => late.abort(new Error(`no response within ${this.options.timeout} ms`)), this.options.timeout);
    try {
      const response = await this.options.fetch(this.url + path, {
        method, signal: late.signal,
        headers: {
          ...(body === undefined ? {} : { "Content-Type": "application/json" }),
          ...(this.options.key === undefined ? {} : { "X-API-Key": this.options.key }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      const empty = response.status === 204;
      return new Response(empty ? null : text, { status: response.status, headers: response.headers });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
  }

  private decide<T>(userId: string, actions: Action[] | Record<string, Features>, options: RankOptions,
                    more: { slots?: Slot[] | number }): Promise<T> {
    const eventId = options.eventId ?? randomId();
    const body = {
      eventId, userId, ...more,
      actions: Array.isArray(actions) ? actions : Object.entries(actions).map(([id, features]) => ({ id, features })),
      ...(options.context === undefined ? {} : { contextFeatures: options.context }),
      ...(options.excluded?.length ? { excludedActions: options.excluded } : {}),
      ...(options.defer ? { deferActivation: true } : {}),
      ...(options.explain ? { explain: true } : {}),
    };
    return this.call<T>("POST", this.path("rank"), { body, signal: options.signal });
  }

  private async sendReward(eventId: string, body: { slot?: string; value: number; rewardId: string }): Promise<RewardOutcome> {
    const { outcome } = await this.call<{ outcome: RewardOutcome }>(
      "POST", this.path("events", eventId, "reward"), { body });
    return outcome;
  }

  private path(...parts: string[]): string {
    return ["/v1/models", this.model, ...parts].map((part, i) => (i === 0 ? part : encodeURIComponent(part))).join("/");
  }
}

function idOf(event: string | { eventId: string }): string {
  return typeof event === "string" ? event : event.eventId;
}

// 128 random bits. Node 18 has no global `crypto`; ids need to be unique, not secret.
function randomId(): string {
  const words = new Uint32Array(4);
  if (globalThis.crypto) crypto.getRandomValues(words);
  else words.forEach((_, i) => { words[i] = Math.random() * 2 ** 32; });
  return Array.from(words, (word) => word.toString(16).padStart(8, "0")).join("");
}

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}

function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((done, failed) => {
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      failed(signal.reason);
    }, { once: true });
  });
}

async function refusal(response: Response): Promise<ServiceError> {
  try {
    const { error } = await response.json() as { error: { code: string; message: string; field: string | null } };
    return new ServiceError(response.status, error.code, error.message, error.field);
  } catch {
    return new ServiceError(response.status, "", "no JSON in the response");
  }
}
