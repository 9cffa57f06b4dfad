// Numbers and times for people.

export function number(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return (value / 1e6).toFixed(size >= 1e7 ? 0 : 1) + " M";
  if (size >= 1e4) return (value / 1e3).toFixed(size >= 1e5 ? 0 : 1) + " k";
  return value.toLocaleString("en", { maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : 2 });
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    ++unit;
  }
  return value.toFixed(unit === 0 || value >= 100 ? 0 : 1) + " " + units[unit];
}

export function percent(share: number): string {
  return (100 * share).toFixed(share < 0.1 ? 1 : 0) + " %";
}

export function reward(value: number): string {
  return value.toFixed(3);
}

export function milliseconds(seconds: number): string {
  return seconds >= 1 ? seconds.toFixed(2) + " s" : (1000 * seconds).toFixed(seconds >= 0.01 ? 0 : 1) + " ms";
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockSeconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const moment = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});

export function time(milliseconds: number): string {
  return moment.format(milliseconds);
}

// For an axis that spans so many seconds.
export function tick(milliseconds: number, span: number): string {
  if (span <= 900) return clockSeconds.format(milliseconds);
  return span <= 2 * 86400 ? clock.format(milliseconds) : day.format(milliseconds);
}

export function ago(milliseconds: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - milliseconds) / 1000));
  if (seconds < 60) return seconds + " s ago";
  if (seconds < 3600) return Math.round(seconds / 60) + " min ago";
  if (seconds < 86400) return Math.round(seconds / 3600) + " h ago";
  return Math.round(seconds / 86400) + " days ago";
}
