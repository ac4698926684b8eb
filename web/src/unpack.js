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
}

// Cells by step: for each the key, and up to `values` numbers. pack_cells in report/html/html.c has
// the layout.
export function readCells(reader, steps, values) {
  const first = new Uint32Array(steps + 1);
  for (let step = 0; step < steps; step++) first[step + 1] = first[step] + reader.unsigned();
  const n = first[steps];
  const keys = new Uint32Array(n);
  for (let step = 0; step < steps; step++) {
    let key = 0;
    for (let i = first[step]; i < first[step + 1]; i++) keys[i] = key += reader.unsigned();
  }
  const which = new Uint8Array(n);
  for (let i = 0; i < n; i++) which[i] = reader.unsigned();
  const v = Array.from({ length: values }, (_, k) => {
    const column = new Float64Array(n);
    for (let i = 0; i < n; i++) if (which[i] & (1 << k)) column[i] = reader.signed();
    return column;
  });
  return { first, keys, v };
}
