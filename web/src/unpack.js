// Reads what report/html_pack.c writes: base64 of zlib of variable-length integers.

export async function inflate(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Reader(new Uint8Array(await new Response(stream).arrayBuffer()));
}

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

// Cells by step: for each the key, and up to `values` numbers.
export function readCells(reader, steps, values) {
  const first = new Uint32Array(steps + 1);
  const keys = [];
  const columns = Array.from({ length: values }, () => []);
  for (let step = 0; step < steps; step++) {
    let key = 0;
    for (let n = reader.unsigned(); n > 0; n--) {
      key += reader.unsigned();
      const which = reader.unsigned();
      keys.push(key);
      for (let i = 0; i < values; i++) columns[i].push(which & (1 << i) ? reader.signed() : 0);
    }
    first[step + 1] = keys.length;
  }
  return { first, keys: Uint32Array.from(keys), v: columns.map((c) => Float64Array.from(c)) };
}
