// Means of several buckets, by the formula of the service (mcnb/serve/series/bucket.cpp).

import type { Bucket, Mean } from "./api";

export interface Interval { value: number; low: number; high: number }
export type Kind = "reward" | "random" | "first";

export function interval(sums: number[]): Interval | null {
  const [weights, squares, rewards, squareRewards, squareRewardSquares] = sums;
  if (!(weights > 0) || (weights * weights) / squares < 2) return null;
  const value = rewards / weights;
  const spread = Math.max(squareRewardSquares - 2 * value * squareRewards + value * value * squares, 0);
  const half = (1.96 * Math.sqrt(spread)) / weights;
  return { value, low: value - half, high: value + half };
}

export function add(a: number[], b: Mean): number[] {
  return a.map((sum, i) => sum + b.sums[i]);
}

export function together(buckets: Bucket[], kind: Kind): Interval | null {
  return interval(buckets.reduce((sums, bucket) => add(sums, bucket[kind]), [0, 0, 0, 0, 0]));
}

// Neighbouring buckets as one, so that at most so many are left, each with its first time.
export function grouped<T>(buckets: T[], most: number): T[][] {
  const size = Math.max(1, Math.ceil(buckets.length / most));
  const groups: T[][] = [];
  for (let i = 0; i < buckets.length; i += size) groups.push(buckets.slice(i, i + size));
  return groups;
}

// Those whose decisions all count: the waiting time of the last one is over. Rewards come before
// defaults, so an earlier mean would be too high.
export function settledBefore(buckets: Bucket[], until: number, seconds: number): Bucket[] {
  return buckets.filter((bucket) => bucket.time + 1000 * seconds <= until);
}

export function total(buckets: Bucket[], name: "decisions" | "explored" | "rewards" | "late" | "learned" |
  "refused" | "settled" | "rewarded"): number {
  return buckets.reduce((sum, bucket) => sum + bucket[name], 0);
}
