// Numbers for people, as base/format.c prints them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function bytes(n) {
  const sign = n < 0 ? "-" : "";
  let value = Math.abs(n);
  let unit = 0;
  while (value >= (unit ? 999.5 : 1024) && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${sign}${value.toFixed(digits)} ${UNITS[unit]}`;
}

const grouped = new Intl.NumberFormat("en-US");

export const count = (n) => grouped.format(Math.round(n));
export const counted = (n, noun) => `${count(n)} ${noun}${Math.abs(n) === 1 ? "" : "s"}`;

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const amount = (n, unit) => (unit === "bytes" ? bytes(n) : count(n));
export function percent(part, whole) {
  if (!whole) return "–";
  const p = (100 * part) / whole;
  return `${p >= 99.95 && part < whole ? "99.9" : p.toFixed(1)} %`;
}

// A short name of a text, the same on every page: 53 bits of a hash (cyrb53).
export function shortId(text) {
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 2654435761);
    b = Math.imul(b ^ text.charCodeAt(i), 1597334677);
  }
  [a, b] = [Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909), Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909)];
  return (4294967296 * (2097151 & b) + (a >>> 0)).toString(36);
}

// Nanoseconds; with as many digits as distinguish times that are a `step` apart.
export function duration(ns, step = 0) {
  const n = Math.abs(ns);
  const sign = ns < 0 ? "-" : "";
  const [length, unit, least] = n < 1e3 ? [1, "ns", 0] : n < 1e6 ? [1e3, "µs", 2] : n < 1e9 ? [1e6, "ms", 2] : [1e9, "s", 3];
  let digits = least;
  for (let x = (step / length) * 10 ** least; digits < 9 && Math.abs(x / Math.round(x) - 1) > 1e-3; x *= 10) digits++;
  if (n < 60e9 || (step && step < 1e8)) return `${sign}${(n / length).toFixed(digits)} ${unit}`;
  const [more, rest] = n < 3600e9 ? ["min", `${(Math.floor((n % 60e9) / 1e8) / 10).toFixed(1).padStart(4, "0")} s`] : ["h", `${String(Math.floor((n % 3600e9) / 60e9)).padStart(2, "0")} min`];
  return `${sign}${Math.floor(n / (n < 3600e9 ? 60e9 : 3600e9))} ${more} ${rest}`;
}
