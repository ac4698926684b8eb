// The data of the page, and its figures for any range of steps. The numbers in the cells of keys
// are those of enum page_value in analysis/html/html_series.h.

import { describeFrame } from "./calls.js";
import { percent, shortId } from "./format.js";
import { inflate, inflateJson, readCells, readFigures } from "./unpack.js";

const [ALLOCS, ALLOC_BYTES, FREES, FREE_BYTES, PEAK, PEAK_BYTES] = [0, 1, 2, 3, 6, 7];
const CLASSES = 64;

// First what the plot needs, …
export async function loadPoints(data) {
  const [tables, tree, points, resident] = await Promise.all([inflateJson(data.tables), inflate(data.tree), inflate(data.points), data.resident && inflate(data.resident)]);
  const m = new Model(Object.assign(data, tables), tree);
  m.readPoints(points);
  if (resident) m.resident = m.readResident(resident);
  return m;
}

// … then the rest.
export async function loadCells(m) {
  const { data } = m;
  const [cells, histogram, blocks, pieces, owners, lives, singles] = await Promise.all([data.cells, data.histogram, data.blocks, data.pieces, data.owners, data.lives, data.singles].map(inflate));
  m.cells = readFigures(cells, m.steps, m.keyStack.map((stack) => m.stackSite[stack]));
  m.histogram = readCells(histogram, m.steps, 2);
  m.blocks = readCells(blocks, m.steps, 3);
  m.readPieces(pieces, owners);
  m.readLives(lives);
  m.readSingles(singles);
}

class Model {
  constructor(data, tree) {
    this.data = data;
    this.steps = data.time.steps;
    this.slots = data.time.slots;
    this.perStep = this.slots / this.steps;
    this.keyCount = data.keyCount;
    this.readTree(tree);
    this.readFrames();
  }

  // ---- tables

  // pack_tree in analysis/html/html_pack.c writes it.
  readTree(reader) {
    const { nodeCount, stackCount, keyCount } = this.data;
    const parents = (this.nodeParent = new Uint32Array(nodeCount));
    const frames = (this.nodeFrame = new Uint32Array(nodeCount));
    const callees = []; // of each frame, in the order in which they appear
    const above = (node) => {
      for (let up = reader.unsigned(); up; up--) node = parents[node];
      return node;
    };
    for (let i = 1; i < nodeCount; i++) {
      const known = (callees[frames[(parents[i] = above(i - 1))]] ??= []);
      frames[i] = known[reader.unsigned() - 1] ?? (known[known.length] = reader.unsigned());
    }
    this.stackNode = Uint32Array.from(reader.sums(stackCount));
    this.stackBegin = this.stackNode.map(above); // the node of its site
    this.stackFolded = new Uint8Array(stackCount); // whether it stands for several call stacks
    const sites = []; // by frame
    this.stackSite = this.stackBegin.map((node, i) => {
      const n = reader.unsigned();
      this.stackFolded[i] = n % 2;
      return (sites[frames[node]] = n > 1 ? (n >> 1) - 1 : sites[frames[node]] ?? 0);
    });
    [this.keyPool, this.keyThread, this.keyStack] = [reader.list(keyCount), reader.list(keyCount), reader.sums(keyCount)].map((list) => Uint32Array.from(list));
  }

  readFrames() {
    const { sites } = this.data;
    this.frames = this.data.frames.map((f) => this.site(f));
    const types = this.data.siteTypes;
    const type = (i) => (types[2 * i] ? this.data.strings[types[2 * i]] + (types[2 * i + 1] ? ", …" : "") : "");
    this.poolIds = this.data.pools.map((p) => (p.low === undefined ? "rest" : shortId(p.name)));
    this.threadIds = this.data.threads.map((t) => (t.rest ? "rest" : String(t.id)));
    this.sites = sites.map((f, i) => Object.assign(this.site(f), { type: type(i) }));
    const labels = new Map();
    for (const f of [...this.frames, ...this.sites]) {
      if (!labels.has(f.label)) labels.set(f.label, labels.size);
      f.labelNumber = labels.get(f.label);
    }
    this.labelCount = labels.size;
    this.keyRow = this.keyPool.map((pool, key) => this.stackSite[this.keyStack[key]] * this.data.pools.length + pool); // a site within a pool
  }

  // Of the site with such a name; -1 if there is none.
  siteNumber(id) {
    return this.sites.findIndex((s) => s.id === id);
  }

  // The stored source line of a frame, {text, site}, if the page has it.
  sourceLine(frame) {
    for (const { site, code, of, lines } of this.data.texts) {
      if (code || of !== frame.path) continue;
      const line = lines.find(([number]) => Number(number) === frame.line);
      if (line) return { text: line[1], site };
    }
    return undefined;
  }

  site(f) {
    if (f === 1) return { label: "(other sites)", id: "rest", name: "(other sites)", shown: "(other sites)", path: "", line: 0, image: "", place: "", rest: true };
    if (f === 2) return { label: "[no call stack]", id: "none", name: "[no call stack]", shown: "[no call stack]", path: "", line: 0, image: "", place: "" };
    return describeFrame(this.data, f);
  }

  poolName(i) {
    const p = this.data.pools[i];
    return p.name || (p.low === undefined ? `(${p.count} other pools)` : "(no name)");
  }

  threadName(i) {
    const t = this.data.threads[i];
    if (t.rest) return this.data.figureStep ? "(all threads)" : "(other threads)";
    if (!t.name) return `thread ${t.id}`;
    // Threads that inherit the program's name are distinguished by their ids.
    const shared = this.data.threads.some((other, k) => k !== i && other.name === t.name);
    return shared ? `${t.name} (${t.id})` : t.name;
  }

  // ---- history

  readPoints(reader) {
    this.points = this.data.pools.map(() => {
      const [max, end, blocks, allocs] = Array.from({ length: 4 }, () => new Float64Array(this.slots));
      for (let i = 0; i < this.slots; i++) {
        max[i] = (end[i - 1] ?? 0) + reader.signed();
        end[i] = (end[i - 1] ?? 0) + reader.signed();
        blocks[i] = (blocks[i - 1] ?? 0) + reader.signed();
        allocs[i] = reader.unsigned();
      }
      return { max, end, blocks, allocs };
    });
  }

  // What the kernel counted of the process; null where it did not.
  readResident(reader) {
    let [rss, swapped] = [0, 0];
    const resident = { rss: [], swapped: [] };
    for (let i = 0; i < this.slots; i++) {
      rss += reader.signed();
      swapped += reader.signed();
      resident.rss.push(rss || null);
      resident.swapped.push(rss ? swapped : null);
    }
    return resident.rss.some(Boolean) ? resident : null; // none: all readings are outside of the time
  }

  // The highest of each of `n` parts of such a list.
  highs(list, n) {
    const per = list.length / n;
    return Array.from({ length: n }, (_, i) => list.slice(i * per, (i + 1) * per).reduce((a, b) => (b !== null && (a === null || b > a) ? b : a)));
  }

  // With the thread and the site that allocated most there: see owners().
  readPieces(reader, owners) {
    this.pieces = [];
    let last = 0n;
    let lastPool = -1;
    for (let i = 0; i < this.data.pieceCount; i++) {
      const pool = reader.unsigned();
      if (pool !== lastPool) last = 0n;
      last += BigInt(reader.unsigned());
      this.pieces.push({ pool, number: last, address: last << BigInt(this.data.pieceShift), owner: { thread: owners.unsigned(), site: owners.unsigned() } });
      lastPool = pool;
    }
  }

  // Blocks by row, and the parts of time in which they were allocated and freed.
  readLives(reader) {
    const n = this.data.lifeCount;
    const [row, born] = [reader.sums(n), reader.list(n)];
    this.lives = { row, born, freed: born.map((part) => part + reader.signed()), count: reader.list(n), bytes: reader.list(n) };
  }

  // Single blocks, in order of address within each pool: {pool, address, begin, end, size, site, born,
  // freed}, with bytes from the address 0 in units of pieces, and slots of time.
  readSingles(reader) {
    const n = this.data.listedBlocks;
    const [piece, offset, size, born, after, site] = [reader.sums(n), ...Array.from({ length: 5 }, () => reader.list(n))];
    const unit = 2 ** this.data.pieceShift;
    this.singles = Array.from(piece, (p, i) => ({ pool: this.pieces[p].pool, address: this.pieces[p].address + BigInt(offset[i]), begin: p * unit + offset[i], end: p * unit + offset[i] + size[i], size: size[i], site: site[i], born: born[i], freed: after[i] ? born[i] + after[i] - 1 : Infinity }));
  }

  // What a range of steps did with each row's blocks, [blocks, bytes] each with its bounds {low, high}:
  // by "kept" and "freed" within it, of "older" and "newer" ones. The parts of time may be longer than
  // the steps; then they are bounds.
  lifeQuestions(query) {
    if (query.lives) return query.lives;
    const { lives, data } = this;
    const all = new Uint8Array(this.keyCount).fill(1);
    const [before, made, gone] = [query.before, query.total, query.frees].map((pair) => [this.byRow(pair.count, all), this.byRow(pair.bytes, all)]);
    const of = (sums, row) => sums.map((column) => column[row]);
    const rows = (query.lives = Array.from(before[0], (_, row) => ({ before: of(before, row), made: of(made, row), freed: of(gone, row), older: [{ low: 0, high: 0 }, { low: 0, high: 0 }] })));
    const part = this.slots / data.lifeParts;
    const [from, to] = [query.from * this.perStep, query.to * this.perStep];
    for (let i = 0; i < lives.row.length; i++) {
      const [born, freed] = [lives.born[i] * part, lives.freed[i] * part];
      if (born >= from || freed >= to || freed + part <= from) continue;
      const surely = born + part <= from && freed >= from && freed + part <= to;
      [lives.count[i], lives.bytes[i]].forEach((n, k) => {
        const bounds = rows[lives.row[i]].older[k];
        bounds.high += n;
        if (surely) bounds.low += n;
      });
    }
    for (const row of rows) {
      const { before, made, freed } = row;
      const older = row.older.map(({ low, high }, k) => ({ low: Math.max(low, freed[k] - made[k]), high: Math.min(high, before[k], freed[k]) }));
      const less = (whole) => older.map(({ low, high }, k) => ({ low: whole[k] - high, high: whole[k] - low }));
      const newer = less(freed);
      Object.assign(row, { "older-freed": older, "older-kept": less(before), "newer-freed": newer, "newer-kept": newer.map(({ low, high }, k) => ({ low: made[k] - high, high: made[k] - low })), live: before.map((n, k) => ({ low: n + made[k] - freed[k], high: n + made[k] - freed[k] })) });
    }
    return rows;
  }

  // The names of the owners in the map; the last one is for all others.
  owners(kind) {
    const n = this.data.ownerCount;
    const thread = () => this.data.threads.slice(0, -1).map((_, i) => this.threadName(i));
    const names = kind === "thread" ? thread() : this.sites.slice(1).map((s) => s.name);
    return [...Array.from({ length: n }, (_, i) => names[i] ?? ""), "others"];
  }

  // Nanoseconds since the trace began.
  slotTime(slot) {
    return Math.min(this.data.time.from + slot * this.data.time.slot, this.data.time.to);
  }

  stepTime(step) {
    return this.slotTime(step * this.perStep);
  }

  stepNs() {
    return this.data.time.slot * this.perStep;
  }

  // The step of a pool's peak, the first of several.
  peakStep(pool, from, to) {
    const max = this.points[pool].max;
    let best = from * this.perStep;
    for (let i = best + 1; i < to * this.perStep; i++) if (max[i] > max[best]) best = i;
    return { step: Math.floor(best / this.perStep), slot: best, bytes: max[best] };
  }

  // What every key did within the steps [from, to).
  query(from, to) {
    const pair = () => ({ count: new Float64Array(this.keyCount), bytes: new Float64Array(this.keyCount) });
    const q = { from, to, total: pair(), frees: pair(), temporary: pair(), before: pair(), live: pair(), peak: pair() };
    q.peaks = this.data.pools.map((_, pool) => this.peakStep(pool, from, to));
    const { first, keys, v } = this.cells;
    const [allocs, allocBytes, frees, freeBytes, temporary, temporaryBytes] = v;
    const { count, bytes } = q.live;
    for (let step = 0; step < to; step++) {
      if (step === from) {
        q.before.count.set(count);
        q.before.bytes.set(bytes);
      }
      if (step >= from) this.notePeaks(q, step);
      for (let i = first[step]; i < first[step + 1]; i++) {
        const key = keys[i];
        count[key] += allocs[i] - frees[i];
        bytes[key] += allocBytes[i] - freeBytes[i];
        if (step < from) continue;
        q.total.count[key] += allocs[i];
        q.total.bytes[key] += allocBytes[i];
        q.frees.count[key] += frees[i];
        q.frees.bytes[key] += freeBytes[i];
        q.temporary.count[key] += temporary[i];
        q.temporary.bytes[key] += temporaryBytes[i];
      }
    }
    return q;
  }

  // Of every key the bytes allocated within a query's steps, each times the share of the steps gone.
  ages({ from, to }) {
    const out = new Float64Array(this.keyCount);
    const { first, keys, v } = this.cells;
    for (let step = from; step < to; step++) for (let i = first[step]; i < first[step + 1]; i++) out[keys[i]] += (v[ALLOC_BYTES][i] * (step + 0.5 - from)) / (to - from);
    return out;
  }

  // Pools that are highest in this step: what was live at its begin, and what came until then.
  notePeaks(q, step) {
    const pools = q.peaks.map((p) => p.step === step);
    if (!pools.includes(true)) return;
    for (let key = 0; key < this.keyCount; key++) {
      if (!pools[this.keyPool[key]]) continue;
      q.peak.count[key] = q.live.count[key];
      q.peak.bytes[key] = q.live.bytes[key];
    }
    const { first, keys, v } = this.cells;
    for (let i = first[step]; i < first[step + 1]; i++) {
      if (!pools[this.keyPool[keys[i]]]) continue;
      q.peak.count[keys[i]] += v[PEAK][i];
      q.peak.bytes[keys[i]] += v[PEAK_BYTES][i];
    }
  }

  // Which keys the filters let through: 1 or 0 each.
  mask(filter) {
    const through = filter.frames.stacks();
    const out = new Uint8Array(this.keyCount);
    for (let key = 0; key < out.length; key++) {
      const stack = this.keyStack[key];
      out[key] = filter.pools[this.keyPool[key]] && filter.threads[this.keyThread[key]] && through[stack] && (filter.site < 0 || this.stackSite[stack] === filter.site) ? 1 : 0;
    }
    return out;
  }

  // Of the bytes allocated: the share of call stacks that count with others.
  foldedShare() {
    const { keys, v } = this.cells;
    let [part, whole] = [0, 0];
    v[ALLOC_BYTES].forEach((n, i) => {
      whole += n;
      if (this.stackFolded[this.keyStack[keys[i]]]) part += n;
    });
    return percent(part, whole);
  }

  // A column by key, summed by call stack, pool or row, of the keys in the mask; less than `least` counts as that.
  byStack(column, mask, least) {
    return this.sums(this.keyStack, this.stackSite.length, column, mask, least);
  }

  byPool(column, mask) {
    return this.sums(this.keyPool, this.data.pools.length, column, mask);
  }

  byRow(column, mask) {
    return this.sums(this.keyRow, this.sites.length * this.data.pools.length, column, mask);
  }

  sums(by, n, column, mask, least = -Infinity) {
    const out = new Float64Array(n);
    for (let key = 0; key < this.keyCount; key++) if (mask[key]) out[by[key]] += column[key] < least ? least : column[key];
    return out;
  }

  // For each pool the use at the end of every step, or the allocations in it, of the keys in the mask.
  useByStep(mask, unit) {
    const { steps, keyPool } = this;
    const { first, keys, v } = this.cells;
    const [plus, minus] = { bytes: [v[ALLOC_BYTES], v[FREE_BYTES]], blocks: [v[ALLOCS], v[FREES]], allocs: [v[ALLOCS]] }[unit];
    const pools = this.data.pools.map(() => new Float64Array(steps));
    for (let step = 0; step < steps; step++) {
      if (minus && step) for (const use of pools) use[step] = use[step - 1];
      const end = first[step + 1];
      for (let i = first[step]; i < end; i++) if (mask[keys[i]]) pools[keyPool[keys[i]]][step] += minus ? plus[i] - minus[i] : plus[i];
    }
    return pools;
  }

  rowSite(row) {
    return Math.floor(row / this.data.pools.length);
  }

  rowPool(row) {
    return row % this.data.pools.length;
  }

  // Blocks by class of size or lifetime within the range.
  classes(from, to, which, filter) {
    const threads = this.data.threads.length;
    const out = Array.from({ length: CLASSES }, () => ({ count: 0, bytes: 0 }));
    const { first, keys, v } = this.histogram;
    for (let i = first[from]; i < first[to]; i++) {
      const key = keys[i];
      const rest = Math.floor(key / CLASSES);
      const owner = Math.floor(rest / 2);
      if (rest % 2 !== which || !filter.pools[Math.floor(owner / threads)] || !(this.data.allThreads || filter.threads[owner % threads])) continue;
      out[key % CLASSES].count += v[0][i];
      out[key % CLASSES].bytes += v[1][i];
    }
    return out;
  }

  // For each piece of the map: bytes in use at the end of the range, the last step in which a
  // block was allocated in it, and how many were within the range.
  mapAt(from, to) {
    const n = this.pieces.length;
    const [bytes, cover, allocs] = Array.from({ length: 3 }, () => new Float64Array(n));
    const last = new Int32Array(n).fill(-1);
    const { first, keys, v } = this.blocks;
    for (let step = 0; step < to; step++) {
      for (let i = first[step]; i < first[step + 1]; i++) {
        const piece = keys[i];
        bytes[piece] += v[0][i];
        cover[piece] += v[1][i];
        if (v[2][i]) last[piece] = step;
        if (step >= from) allocs[piece] += v[2][i];
      }
    }
    const size = 2 ** this.data.pieceShift;
    let whole = 0;
    for (let i = 0; i < n; i++) {
      whole += cover[i];
      bytes[i] += whole * size;
    }
    return { bytes, last, allocs, size };
  }
}
