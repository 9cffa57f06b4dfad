// Charts by Chart.js, with the colours of the page, and each with its numbers as a table for those
// who cannot see it.

import {
  BarController, BarElement, CategoryScale, Chart, type ChartConfiguration, type ChartDataset, Filler,
  LinearScale, LineController, LineElement, PointElement, Tooltip,
} from "chart.js";
import { h } from "./dom";
import { tick, time } from "./format";
import type { Interval } from "./means";
import { colours } from "./theme";

Chart.register(BarController, BarElement, CategoryScale, Filler, LinearScale, LineController, LineElement,
  PointElement, Tooltip);

export interface Line {
  name: string;
  colour: string;
  points: { time: number; mean: Interval | number | null }[];
  dashed?: boolean;
}
export interface TimeChartOptions {
  label: string;                         // what a screen reader says
  format: (value: number) => string;
  settledUntil?: number;                 // later points are drawn faintly
  stacked?: boolean;                     // as areas on top of each other
  from?: number;
  until: number;
  height?: number;
}

const faint = (colour: string, share: number) =>
  `color-mix(in srgb, ${colour} ${Math.round(100 * share)}%, transparent)`;

function middle(mean: Interval | number | null): number | null {
  return mean === null || typeof mean === "number" ? mean : mean.value;
}

export abstract class Figure {
  readonly element: HTMLElement;
  protected readonly canvas = h("canvas", { role: "img" });
  private readonly legend = h("ul", { class: "legend" });
  private chart: Chart | null = null;

  constructor(height = 220) {
    const box = h("div", { class: "plot" }, this.canvas);
    box.style.height = height + "px";
    this.element = h("figure", {}, this.legend, box);
  }

  protected draw(config: ChartConfiguration, label: string, legend: [string, string][]): void {
    this.canvas.setAttribute("aria-label", label);
    this.legend.replaceChildren(...legend.map(([name, colour]) => {
      const mark = h("span", { class: "mark" });
      mark.style.background = colour;
      return h("li", {}, mark, name);
    }));
    if (this.chart) {
      this.chart.data = config.data;
      this.chart.options = config.options!;
      this.chart.update("none");
    } else {
      this.chart = new Chart(this.canvas, config);
    }
  }

  destroy(): void {
    this.chart?.destroy();
    this.chart = null;
  }
}

function axes(format: (value: number) => string) {
  const c = colours();
  const font = { family: getComputedStyle(document.body).fontFamily, size: 11 };
  return {
    c, font,
    y: {
      beginAtZero: false, grid: { color: c.grid, drawBorder: false }, border: { display: false },
      ticks: { color: c.muted, font, maxTicksLimit: 5, callback: (v: number | string) => format(Number(v)) },
    },
  };
}

export class TimeChart extends Figure {
  show(lines: Line[], options: TimeChartOptions): void {
    const { c, font, y } = axes(options.format);
    const first = options.from ?? Math.min(options.until - 60e3, ...lines.flatMap((l) => l.points.map((p) => p.time)));
    const span = (options.until - first) / 1000;
    const datasets: ChartDataset<"line">[] = [];
    for (const line of lines) {
      const late = (context: { p1: { parsed: { x: number } } }) =>
        options.settledUntil !== undefined && context.p1.parsed.x > options.settledUntil;
      const at = (value: (mean: Interval) => number) =>
        line.points.map((p) => ({ x: p.time, y: p.mean === null || typeof p.mean === "number" ? NaN : value(p.mean) }));
      if (!options.stacked && line.points.some((p) => p.mean !== null && typeof p.mean !== "number")) {
        const edge = { borderWidth: 0, pointRadius: 0, pointHitRadius: 0, spanGaps: true };
        datasets.push({ ...edge, label: "", data: at((m) => m.low), fill: false },
          { ...edge, label: "", data: at((m) => m.high), fill: "-1", backgroundColor: faint(line.colour, 0.14) });
      }
      const known = line.points.filter((p) => middle(p.mean) !== null).length;
      datasets.push({
        label: line.name, data: line.points.map((p) => ({ x: p.time, y: middle(p.mean) ?? NaN })),
        borderColor: line.colour, borderWidth: options.stacked ? 1 : 2, pointRadius: known < 2 ? 3 : 0,
        clip: 6, pointHoverRadius: 4, pointBackgroundColor: line.colour, spanGaps: !options.stacked, tension: 0.15,
        borderDash: line.dashed ? [5, 4] : undefined,
        backgroundColor: options.stacked ? faint(line.colour, 0.55) : line.colour,
        fill: options.stacked ? "stack" : false,
        segment: { borderColor: (s: never) => (late(s) ? faint(line.colour, 0.4) : undefined) },
      } as ChartDataset<"line">);
    }
    this.draw({
      type: "line",
      data: { datasets },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
        interaction: { mode: "index", axis: "x", intersect: false },
        scales: {
          x: {
            type: "linear", min: first, max: options.until, grid: { display: false },
            ticks: { color: c.muted, font, maxTicksLimit: 6, maxRotation: 0, autoSkip: true, callback: (v) => tick(Number(v), span) },
          },
          y: { ...y, stacked: options.stacked, beginAtZero: options.stacked },
        },
        plugins: {
          tooltip: {
            backgroundColor: c.text, titleColor: c.surface, bodyColor: c.surface, boxPadding: 4, usePointStyle: true,
            filter: (item) => item.dataset.label !== "",
            callbacks: {
              title: (items) => (items.length ? time(items[0].parsed.x) : ""),
              label: (item) => ` ${item.dataset.label}: ${options.format(item.parsed.y)}`,
            },
          },
        },
      },
    }, options.label, lines.map((line) => [line.name, line.colour]));
  }
}

export class BarChart extends Figure {
  show(labels: string[], values: number[], label: string, format: (value: number) => string): void {
    const { c, font, y } = axes(format);
    this.draw({
      type: "bar",
      data: { labels, datasets: [{ data: values, backgroundColor: c.reward, borderRadius: 3, maxBarThickness: 40 }] },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false,
        scales: { x: { grid: { display: false }, ticks: { color: c.muted, font, maxRotation: 0 } }, y: { ...y, beginAtZero: true } },
        plugins: { tooltip: { callbacks: { label: (item) => format(item.parsed.y) } } },
      },
    }, label, []);
  }
}
