// The stream of the latest figures. It begins again by itself when the server was away.

import { type AllSeries, ask, follow, Refused } from "./api";

export type State = "connecting" | "live" | "away";

export class Live {
  latest: AllSeries | null = null;
  // Decisions and rewards learned per second over the last lines, by model.
  rates = new Map<string, { decisions: number; learned: number }>();
  state: State = "connecting";
  onChange: () => void = () => {};
  onRefused: (refused: Refused) => void = () => {};
  private lines: AllSeries[] = [];
  private stopper = new AbortController();
  private run = 0;

  start(): void {
    this.stop();
    this.stopper = new AbortController();
    void this.read(++this.run, this.stopper.signal);
  }

  stop(): void {
    ++this.run;
    this.stopper.abort();
  }

  private async read(run: number, signal: AbortSignal): Promise<void> {
    for (let pause = 500; run === this.run; pause = Math.min(2 * pause, 5000)) {
      try {
        await follow<AllSeries>("/v1/live", signal, (line) => {
          pause = 500;
          this.take(line);
        });
      } catch (error) {
        if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
          this.onRefused(error);
          return;
        }
        if (error instanceof Refused && error.code === "not_owner") {
          await this.poll(run, signal).catch(() => {});
          if (run === this.run && this.state === "live") continue;
        }
      }
      if (run !== this.run) return;
      this.lines = [];
      this.change("away");
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  // Of several nodes only one has a stream. The others pass requests on, so ask them again and
  // again, and for a stream from time to time: the node may own the store by then.
  private async poll(run: number, signal: AbortSignal): Promise<void> {
    for (let i = 0; i < 30 && run === this.run; ++i) {
      const since = this.latest ? "&since=" + (this.latest.now - 20000) : "";
      try {
        this.take(await ask<AllSeries>("/v1/series?resolution=10s" + since, "GET", undefined, signal));
      } catch (error) {
        if (run === this.run) this.change("away");
        throw error;
      }
      await new Promise((done) => setTimeout(done, 1000));
    }
  }

  private take(line: AllSeries): void {
    this.latest = line;
    this.lines.push(line);
    if (this.lines.length > 11) this.lines.shift();
    const before = this.lines[0];
    const seconds = (line.now - before.now) / 1000;
    for (const model of line.models) {
      const then = before.models.find((one) => one.name === model.name);
      const rate = (name: "decisions" | "learned") =>
        then && seconds > 0 ? Math.max(0, model.totals[name] - then.totals[name]) / seconds : 0;
      this.rates.set(model.name, { decisions: rate("decisions"), learned: rate("learned") });
    }
    this.change("live");
  }

  private change(state: State): void {
    this.state = state;
    this.onChange();
  }
}
