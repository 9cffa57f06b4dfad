// What all pages have in common.

import type { AllSeries, Series } from "./api";
import type { Live } from "./live";

export interface Page {
  element: HTMLElement;
  title: string;
  onLine?(): void;       // a new line of the stream has come
  onTheme?(): void;      // light has become dark, or the other way round
  destroy?(): void;
}

export interface Context {
  live: Live;
  range: Range;
  setRange(range: Range): void;
}

export interface Range { name: string; resolution: string; seconds: number }
export const kRanges: Range[] = [
  { name: "30 minutes", resolution: "10s", seconds: 1800 },
  { name: "1 day", resolution: "5m", seconds: 86400 },
  { name: "2 weeks", resolution: "1h", seconds: 14 * 86400 },
  { name: "2 years", resolution: "1d", seconds: 730 * 86400 },
];

export type AnySeries = AllSeries | Series;
export const kHour = 3600e3;

export function link(...segments: string[]): string {
  return "#/" + segments.map(encodeURIComponent).join("/");
}
