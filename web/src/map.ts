// The map of users: a point for each, drawn into the pixels of a canvas so that a hundred thousand
// are no more work than a picture. The point under the mouse colours everybody by how far their
// learners agree with it, about one action or about all.

import { ask, path, type UserMap } from "./api";
import { h, replace } from "./dom";
import { number } from "./format";
import { colours, isDark } from "./theme";

interface Placed {
  px: Int32Array; py: Int32Array; cells: Map<number, number[]>; width: number; height: number;
  image: ImageData; pixels: Uint32Array;  // the same memory
}

const kCell = 12;  // pixels; for finding the nearest point

// A colour of CSS as the canvas keeps it: a word of red, green, blue and alpha.
function pixel(colour: string, alpha: number): number {
  const probe = document.createElement("canvas").getContext("2d")!;
  probe.fillStyle = colour;
  probe.fillRect(0, 0, 1, 1);
  const bytes = probe.getImageData(0, 0, 1, 1).data;
  bytes[3] = Math.round(255 * alpha);
  return new Uint32Array(bytes.buffer)[0];
}

// The pixels of a point, relative to its own, by how many points there are.
function discOf(points: number, width: number): Int32Array {
  const size = Math.max(1, Math.round((points > 20000 ? 1 : points > 2000 ? 2 : points > 200 ? 4 : 7) * devicePixelRatio));
  const offsets: number[] = [];
  for (let dy = 0; dy < size; ++dy) {
    for (let dx = 0; dx < size; ++dx) {
      const corner = size > 3 && (2 * dx + 1 - size) ** 2 + (2 * dy + 1 - size) ** 2 > size * size;
      if (!corner) offsets.push(dy * width + dx);
    }
  }
  return Int32Array.from(offsets);
}

export class UserMapView {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { tabindex: 0, role: "img" });
  private readonly words = h("p", { class: "note", "aria-live": "polite" }, "Loading the map …");
  private readonly about = h("select", { "aria-label": "Agreement about" });
  private map: UserMap | null = null;
  private opinions = new Uint8Array();
  private placed: Placed | null = null;
  private marked = -1;
  private pinned = false;
  private readonly observer = new ResizeObserver(() => this.place());

  // `gap`: how far learners of a cluster may differ, if the policy has such a rule.
  constructor(private readonly model: string, private readonly gap: number | null) {
    this.element = h("div", {}, h("div", { class: "row" }, h("label", {}, "Colours show agreement about ", this.about)),
      h("div", { class: "map" }, this.canvas), this.words);
    this.about.addEventListener("change", () => this.paint());
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.pinned) this.mark(this.nearest(event.offsetX, event.offsetY));
    });
    this.canvas.addEventListener("pointerleave", () => { if (!this.pinned) this.mark(-1); });
    this.canvas.addEventListener("click", (event) => {
      const at = this.nearest(event.offsetX, event.offsetY);
      this.pinned = at >= 0 && !(this.pinned && at === this.marked);
      this.mark(at);
    });
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.observer.observe(this.canvas.parentElement!);
    addEventListener("themechange", this.repaint);
  }

  private readonly repaint = () => this.paint();

  destroy(): void {
    this.observer.disconnect();
    removeEventListener("themechange", this.repaint);
  }

  async load(): Promise<void> {
    this.show(await ask<UserMap>(path("models", this.model, "map")));
  }

  show(map: UserMap): void {
    this.map = map;
    this.opinions = new Uint8Array(map.opinions.length / 2);
    const digit = (at: number) => {
      const code = map.opinions.charCodeAt(at);
      return code < 58 ? code - 48 : code - 87;
    };
    for (let i = 0; i < this.opinions.length; ++i) {
      this.opinions[i] = 16 * digit(2 * i) + digit(2 * i + 1);
    }
    replace(this.about, h("option", { value: "-1" }, "all recent actions"),
      map.actions.map((id, i) => h("option", { value: i }, id)));
    this.place();
  }

  // Moves to the point of a learner, as the mouse would.
  find(learner: number): void {
    const at = this.map?.learners.indexOf(learner) ?? -1;
    this.pinned = at >= 0;
    this.mark(at);
    this.element.scrollIntoView({ block: "center" });
    this.canvas.focus({ preventScroll: true });
  }

  private onKey(event: KeyboardEvent): void {
    const count = this.map?.learners.length ?? 0;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step !== undefined && count > 0) {
      event.preventDefault();
      this.pinned = true;
      this.mark((this.marked + step + count) % count);
    } else if (event.key === "Escape") {
      this.pinned = false;
      this.mark(-1);
    }
  }

  private place(): void {
    const map = this.map;
    const box = this.canvas.parentElement!.getBoundingClientRect();
    const scale = devicePixelRatio;
    const width = Math.floor(box.width * scale);
    const height = Math.floor(box.height * scale);
    if (!map || width === 0) return;
    this.canvas.width = width;
    this.canvas.height = height;
    const count = map.learners.length;
    const px = new Int32Array(count);
    const py = new Int32Array(count);
    const cells = new Map<number, number[]>();
    // The outermost half percent may lie at the edge, so that few do not squeeze all others.
    const range = (values: number[]): [number, number] => {
      const sorted = Float32Array.from(values).sort();
      const low = sorted[Math.floor(0.005 * (count - 1))] ?? 0;
      const high = sorted[Math.ceil(0.995 * (count - 1))] ?? 1;
      return high > low ? [low, high] : [low - 0.5, low + 0.5];
    };
    const [left, right] = range(map.x);
    const [bottom, top] = range(map.y);
    const margin = 10 * scale;
    const at = (value: number, low: number, high: number, size: number) =>
      Math.round(margin + Math.min(1, Math.max(0, (value - low) / (high - low))) * (size - 2 * margin));
    for (let i = 0; i < count; ++i) {
      px[i] = at(map.x[i], left, right, width);
      py[i] = height - at(map.y[i], bottom, top, height);
      const cell = this.cell(px[i], py[i]);
      const list = cells.get(cell);
      if (list) list.push(i); else cells.set(cell, [i]);
    }
    const image = new ImageData(width, height);
    this.placed = { px, py, cells, width, height, image, pixels: new Uint32Array(image.data.buffer) };
    this.paint();
  }

  private cell(x: number, y: number): number {
    return Math.floor(y / kCell) * 100000 + Math.floor(x / kCell);
  }

  private nearest(x: number, y: number): number {
    if (!this.placed) return -1;
    const { px, py, cells } = this.placed;
    x *= devicePixelRatio;
    y *= devicePixelRatio;
    let best = -1;
    let least = (2 * kCell) ** 2;
    for (let dy = -2; dy <= 2; ++dy) {
      for (let dx = -2; dx <= 2; ++dx) {
        for (const i of cells.get(this.cell(x + dx * kCell, y + dy * kCell)) ?? []) {
          const distance = (px[i] - x) ** 2 + (py[i] - y) ** 2;
          if (distance < least) [least, best] = [distance, i];
        }
      }
    }
    return best;
  }

  private mark(point: number): void {
    if (point === this.marked) return;
    this.marked = point;
    this.paint();
  }

  // How far each learner's opinion is from the marked one's, 0 to 1.
  private distances(): Float32Array {
    const arms = this.map!.actions.length;
    const count = this.map!.learners.length;
    const about = Number(this.about.value);
    const from = about >= 0 ? about : 0;
    const to = about >= 0 ? about + 1 : arms;
    const distances = new Float32Array(count);
    for (let i = 0; i < count; ++i) {
      let sum = 0;
      for (let arm = from; arm < to; ++arm) {
        sum += Math.abs(this.opinions[i * arms + arm] - this.opinions[this.marked * arms + arm]);
      }
      distances[i] = sum / (255 * (to - from));
    }
    return distances;
  }

  private paint(): void {
    const { map, placed } = this;
    if (!map || !placed) return;
    const context = this.canvas.getContext("2d")!;
    const c = colours();
    const points = map.learners.length;
    const pixels = placed.pixels.fill(0);
    const disc = discOf(points, placed.width);
    const draw = (i: number, one: number, several: number) => {
      const at = placed.py[i] * placed.width + placed.px[i];
      for (const offset of disc) pixels[at + offset] = pixels[at + offset] === 0 ? one : several;
    };
    let agree = 0;
    if (this.marked < 0) {
      const [one, several] = [pixel(c.reward, isDark() ? 0.75 : 0.62), pixel(c.reward, 1)];
      for (let i = 0; i < points; ++i) draw(i, one, several);
    } else {
      const distances = this.distances();
      // Without a rule of the policy, the quarter of the scale that is nearest counts as agreement.
      const scale = map.high - map.low;
      const limit = this.gap !== null && scale > 0 ? this.gap / scale : 0.25;
      const [far, farther] = [pixel(c.random, 0.35), pixel(c.random, 0.5)];
      const near = pixel(c.marked, 0.9);
      for (let i = 0; i < points; ++i) if (distances[i] > limit) draw(i, far, farther);
      for (let i = 0; i < points; ++i) {
        if (distances[i] <= limit) {
          ++agree;
          draw(i, near, near);
        }
      }
    }
    context.putImageData(placed.image, 0, 0);
    if (this.marked >= 0) {
      context.strokeStyle = c.text;
      context.lineWidth = 2 * devicePixelRatio;
      context.beginPath();
      context.arc(placed.px[this.marked], placed.py[this.marked], 7 * devicePixelRatio, 0, 7);
      context.stroke();
    }
    this.say(agree);
  }

  private say(agree: number): void {
    const map = this.map!;
    const count = map.learners.length;
    const about = this.about.selectedOptions[0]?.textContent ?? "";
    this.canvas.setAttribute("aria-label",
      `Map of ${count} users by what their learners say about recent actions. Arrow keys go from user to user.`);
    if (count === 0) {
      this.words.textContent = "No user has learned anything yet.";
    } else if (this.marked < 0) {
      this.words.textContent = `${number(count)} users who have learned. Those who would rate recent actions alike lie close together. Point at one to see who agrees.`;
    } else {
      const rule = this.gap !== null ? `, within the cluster gap of ${this.gap}` : "";
      this.words.textContent = `Learner ${map.learners[this.marked]}, ${number(map.lessons[this.marked])} ${map.lessons[this.marked] === 1 ? "reward" : "rewards"} learned: ${number(agree - 1)} others agree about ${about}${rule}.`;
    }
  }
}
