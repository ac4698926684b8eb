// Reads what report/html/html_pack.c writes: zlib of variable-length integers, in base 85.

// Values of digits by their characters.
const VALUES = new Uint8Array(127);
for (let value = 0; value < 85; value++) VALUES[{ 60: 125, 62: 126, 92: 33 }[40 + value] ?? 40 + value] = value;

async function unpacked(text) {
  const bytes = new Uint8Array(Math.floor((text.length * 4) / 5));
  for (let i = 0, to = 0; i < text.length; i += 5) {
    let bits = 0;
    for (let k = i; k < i + 5; k++) bits = bits * 85 + (k < text.length ? VALUES[text.charCodeAt(k)] : 84);
    for (let shift = 24; shift >= 0; shift -= 8) bytes[to++] = bits >>> shift;
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream);
}

export const inflate = async (text) => new Reader(new Uint8Array(await (await unpacked(text)).arrayBuffer()));

export const inflateJson = async (text) => (await unpacked(text)).json();

export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  // Numbers beyond 2^53 lose their lowest bits, as any number does here.
  unsigned() {
    let n = 0;
    let unit = 1;
    for (;;) {
      const b = this.bytes[this.at++];
      n += (b & 127) * unit;
      if (b < 128 || b === undefined) return n;
      unit *= 128;
    }
  }

  signed() {
    const n = this.unsigned();
    return n % 2 ? -(n + 1) / 2 : n / 2;
  }

  list(n, next = () => this.unsigned()) {
    return Float64Array.from({ length: n }, next);
  }

  sums(n, at = 0) {
    return this.list(n, () => (at += this.unsigned()));
  }
}

// Cells by step: for each the key, and `values` numbers. pack_cells in analysis/html/html_pack.c has
// the layout.
export function readCells(reader, steps, values) {
  const first = Uint32Array.of(0, ...reader.sums(steps));
  const keys = Uint32Array.from(reader.list(first[steps]));
  for (let step = 0; step < steps; step++) for (let i = first[step] + 1; i < first[step + 1]; i++) keys[i] += keys[i - 1];
  const v = Array.from({ length: values }, () => reader.list(keys.length, () => reader.signed()));
  return { first, keys, v };
}

// Those of keys, which pack_figures has as differences from what blocks of an expected size have.
export function readFigures(reader, steps, sites) {
  const cells = readCells(reader, steps, 8);
  const [allocs, allocBytes, frees, freeBytes, temporary, temporaryBytes, peak, peakBytes] = cells.v;
  const [ofKey, ofSite] = [[], []];
  const bytes = (n, size) => (Math.abs(n * size) < 2 ** 53 ? n * size : 0);
  cells.keys.forEach((key, i) => {
    let size = ofKey[key] || ofSite[sites[key]] || 0;
    allocBytes[i] += bytes(allocs[i], size);
    if (allocs[i] && allocBytes[i] < 2 ** 53) size = ofSite[sites[key]] = Math.floor(allocBytes[i] / allocs[i]);
    ofKey[key] = size;
    freeBytes[i] += allocBytes[i] + bytes(frees[i], size);
    frees[i] += allocs[i];
    temporaryBytes[i] += bytes(temporary[i], size);
    peakBytes[i] += bytes(peak[i], size);
  });
  return cells;
}
