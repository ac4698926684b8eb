// Reads what report/html/html_pack.c writes: base64 of zlib of variable-length integers.

async function unpacked(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream);
}

export const inflate = async (base64) => new Reader(new Uint8Array(await (await unpacked(base64)).arrayBuffer()));

export const inflateJson = async (base64) => (await unpacked(base64)).json();

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
