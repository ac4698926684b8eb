// Whether a site's live bytes go on growing: Mann and Kendall's test for a trend in values that
// need not follow any distribution, and the median of all slopes (Theil, Sen).

// The test's figure: beyond 2.33 a series without a trend comes in one case of a hundred.
export const SIGNIFICANT = 2.33;

export function mannKendall(values) {
  const n = values.length;
  let s = 0;
  for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) s += Math.sign(values[j] - values[i]);
  const equal = new Map();
  for (const v of values) equal.set(v, (equal.get(v) || 0) + 1);
  let variance = n * (n - 1) * (2 * n + 5);
  for (const t of equal.values()) variance -= t * (t - 1) * (2 * t + 5);
  return variance > 0 && s !== 0 ? (s - Math.sign(s)) / Math.sqrt(variance / 18) : 0;
}

// By unit of time.
export function medianSlope(times, values) {
  const slopes = new Float64Array((values.length * (values.length - 1)) / 2);
  let n = 0;
  for (let i = 0; i < values.length; i++) {
    for (let j = i + 1; j < values.length; j++) if (times[j] > times[i]) slopes[n++] = (values[j] - values[i]) / (times[j] - times[i]);
  }
  const sorted = slopes.subarray(0, n).sort();
  if (n === 0) return 0;
  return n % 2 ? sorted[n >> 1] : (sorted[(n >> 1) - 1] + sorted[n >> 1]) / 2;
}

// `floor`: the least that was held in each part of the range; `last`: what is at its end. "growing":
// the floor rises, also in the second half; "start": it is the same from the first fifth to the end;
// else "held".
export function judge(floor, last) {
  const half = floor.slice(floor.length >> 1);
  if (mannKendall(floor) > SIGNIFICANT && last > half[0] && mannKendall(half) > 1) return "growing";
  return floor.slice(Math.ceil(floor.length / 5)).every((v) => v === last) ? "start" : "held";
}
