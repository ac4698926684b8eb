// Numbers for people, as base/format.c prints them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function bytes(n) {
  const sign = n < 0 ? "-" : "";
  let value = Math.abs(n);
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${sign}${value.toFixed(digits)} ${UNITS[unit]}`;
}

const grouped = new Intl.NumberFormat("en-US");

export function count(n) {
  return grouped.format(Math.round(n));
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function amount(n, unit) {
  return unit === "bytes" ? bytes(n) : count(n);
}

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

// Nanoseconds.
export function duration(ns) {
  const n = Math.abs(ns);
  const sign = ns < 0 ? "-" : "";
  if (n < 1e3) return `${sign}${Math.round(n)} ns`;
  if (n < 1e6) return `${sign}${(n / 1e3).toFixed(2)} µs`;
  if (n < 1e9) return `${sign}${(n / 1e6).toFixed(2)} ms`;
  if (n < 120e9) return `${sign}${(n / 1e9).toFixed(3)} s`;
  if (n < 7200e9) return `${sign}${Math.floor(n / 60e9)} min ${((n % 60e9) / 1e9).toFixed(1)} s`;
  return `${sign}${Math.floor(n / 3600e9)} h ${Math.floor((n % 3600e9) / 60e9)} min`;
}
