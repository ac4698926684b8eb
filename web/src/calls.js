import { shortId } from "./format.js";

// Call trees: of the frames from the outermost callers to the sites, or from the sites outwards.
// A node is {label, name, path, place, line, image, sums, source…}; `sums` has one number for each
// column of amounts by call stack.

// The name of a file, with its folder where text has one (analysis/names/frames.c).
const TELLS_LITTLE = /(?:^|[/\\])(?:__init__\.py|__main__\.py|mod\.rs|lib\.rs|index\.js)$/;
export const shortPath = (name, path) => (TELLS_LITTLE.test(path) || name === "<module>" ? /(?:[^/\\]+[/\\])?[^/\\]*$/ : /[^/\\]*$/).exec(path)[0];

// A frame of the page's tables, for people.
export function describeFrame({ strings, shortNames }, [fn, file, line, image, address]) {
  const at = address !== "0" ? ` (0x${address})` : "";
  const name = strings[fn] || `[unknown]${strings[image] ? ` ${strings[image]}` : ""}${at}`;
  const path = strings[file];
  const short = shortPath(name, path);
  const label = `${name}\n${strings[image]}`;
  return { label, id: shortId(label), name, shown: shortNames[fn] ?? name, path, line, image: strings[image], place: short ? (line ? `${short}:${line}` : short) : "" };
}

// `columns` are arrays by call stack; nodes without an amount in columns[main] are left out, and
// `children` gives the others, most first. `options`: way ("down" or "up"), allocators (whether
// frames within the allocator are shown), recursion (whether a function that calls itself, also
// through others, is one node), all (whether nodes with an amount in any column are kept).
export function callTree(model, columns, main, options) {
  const tree = options.way === "up" ? upwards(model, columns, main, options) : downwards(model, columns, main, options);
  return {
    root: tree.root,
    // A node's own amount: what no child of it has.
    own: (node) => node.sums[main] - tree.children(node).reduce((sum, child) => sum + child.sums[main], 0),
    children: tree.children,
    main,
  };
}

function sorted(groups, main, all) {
  return groups.filter((g) => (all ? g.sums.some(Boolean) : g.sums[main] > 0)).sort((a, b) => b.sums[main] - a.sums[main]);
}

// Groups of frames by label: `of` returns the one of a frame, made if it is new; `take` ends a round
// and returns those made in it. The numbers of labels are small: an array finds a group faster than
// a map does.
class Groups {
  constructor(model, width) {
    this.at = new Int32Array(model.labelCount);
    this.list = [];
    this.width = width;
  }

  of(frame, list) {
    const at = this.at[frame.labelNumber];
    if (at) return this.list[at - 1];
    const { label, id, name, shown, image, path, line, place } = frame;
    const made = { frame, label, id, name, shown, image, path, line, place, sums: new Float64Array(this.width), [list]: [] };
    this.at[frame.labelNumber] = this.list.push(made);
    return made;
  }

  take() {
    const made = this.list;
    for (const { frame } of made) this.at[frame.labelNumber] = 0;
    this.list = [];
    return made;
  }
}

// The nodes of the model with or without repeated functions: in the latter case one whose function is on the way to it already
// is that node again, and what it calls is called by that one. at: by node the one that it is.
function nodesOf(model, folded) {
  model.trees ??= [];
  return (model.trees[Number(Boolean(folded))] ??= makeNodes(model, folded));
}

// A node's children are first[node], and from one to the next by next[], until 0.
function makeNodes({ nodeParent, nodeFrame, frames }, folded) {
  const n = nodeParent.length;
  const [at, parent, first, next] = Array.from({ length: 4 }, () => new Int32Array(n));
  const label = Int32Array.from(frames, (frame) => frame.labelNumber);
  for (let i = 1; i < n; i++) {
    let same = folded ? at[nodeParent[i]] : 0;
    while (same && label[nodeFrame[same]] !== label[nodeFrame[i]]) same = parent[same];
    at[i] = same || i;
    if (!same) parent[i] = at[nodeParent[i]];
  }
  for (let i = n - 1; i > 0; i--) {
    if (at[i] !== i) continue;
    next[i] = first[parent[i]];
    first[parent[i]] = i;
  }
  return { at, parent, first, next };
}

// The call stacks in an order in which those through a node are neighbours, from from[node] until to[node]: the sums of
// a node are differences of running sums. The own ones of a node come first. ends: by stack its last node.
function stackOrder({ at, parent }, ends) {
  const n = parent.length;
  const own = new Int32Array(n);
  for (const node of ends) own[at[node]]++;
  const to = own.slice(); // first the number of stacks
  for (let i = n - 1; i > 0; i--) to[parent[i]] += to[i];
  const [from, next] = [new Int32Array(n), own.slice()];
  for (let i = 1; i < n; i++) {
    if (!to[i]) continue;
    from[i] = next[parent[i]];
    next[parent[i]] += to[i];
    next[i] += from[i];
    to[i] += from[i];
  }
  const order = new Int32Array(ends.length);
  const place = from.slice();
  ends.forEach((node, stack) => (order[place[at[node]]++] = stack));
  return { order, from, to, unplaced: own[0] };
}

function orderOf(model, tree, allocators) {
  const ends = allocators ? "stackNode" : "stackBegin";
  return (tree[ends] ??= stackOrder(tree, model[ends]));
}

// What the first trees with other options need, ahead of the reader's question.
export function prepareTrees(model) {
  for (const folded of [true, false]) for (const allocators of [false, true]) orderOf(model, nodesOf(model, folded), allocators);
}

function downwards(model, columns, main, { allocators, recursion, all }) {
  const width = columns.length;
  const tree = nodesOf(model, recursion);
  const { order, from, to, unplaced } = orderOf(model, tree, allocators);
  const n = order.length;
  const running = columns.map((column) => {
    const sums = new Float64Array(n + 1);
    for (let i = 0; i < n; i++) sums[i + 1] = sums[i] + column[order[i]];
    return sums;
  });
  const sum = (k, node) => running[k][to[node]] - running[k][from[node]];
  const folded = new Map(); // sites whose call stacks are combined
  for (const stack of order.subarray(0, unplaced)) {
    if (all ? !columns.some((c) => c[stack]) : columns[main][stack] <= 0) continue;
    const number = model.stackSite[stack];
    let site = folded.get(number);
    if (!site) folded.set(number, (site = { ...model.sites[number], label: `site ${number}`, id: `s${model.sites[number].id}`, sums: new Float64Array(width), leaf: true }));
    for (let k = 0; k < width; k++) site.sums[k] += columns[k][stack];
  }
  const rest = () => {
    const list = [...folded.values()].sort((a, b) => b.sums[main] - a.sums[main]);
    const sums = Float64Array.from({ length: width }, (_, k) => list.reduce((total, s) => total + s.sums[k], 0));
    return { label: "rest", id: "rest", name: "(sites without call stacks of their own)", image: "", path: "", line: 0, place: "", sums, list };
  };
  const groups = new Groups(model, width);
  const children = (node) => {
    if (node.list) return node.list;
    if (node.leaf) return [];
    if (node.made) return node.made;
    for (const of of node.nodes) {
      for (let c = tree.first[of]; c; c = tree.next[c]) {
        if (from[c] === to[c] || (!all && sum(main, c) <= 0)) continue;
        const g = groups.of(model.frames[model.nodeFrame[c]], "nodes");
        for (let k = 0; k < width; k++) g.sums[k] += sum(k, c);
        g.nodes.push(c);
      }
    }
    node.made = sorted(groups.take(), main, all);
    if (node.root && folded.size) node.made.push(rest());
    return node.made;
  };
  return { root: { label: "", name: "all", image: "", path: "", line: 0, place: "", sums: Float64Array.from(running, (sums) => sums[n]), nodes: [0], root: true }, children };
}

// Frames within the allocator are left out.
function upwards(model, columns, main, { recursion, all }) {
  const { at, parent } = nodesOf(model, recursion);
  const width = columns.length;
  const entries = []; // of each call stack its number, and the node that is next
  const whole = new Float64Array(width);
  for (let stack = 0; stack < model.stackSite.length; stack++) {
    for (let k = 0; k < width; k++) whole[k] += columns[k][stack];
    if (all ? columns.some((c) => c[stack]) : columns[main][stack]) entries.push(stack, at[model.stackBegin[stack]]);
  }
  const groups = new Groups(model, width);
  const children = (node) => {
    if (node.made) return node.made;
    for (let i = 0; i < node.entries.length; i += 2) {
      const stack = node.entries[i];
      const here = node.entries[i + 1];
      if (!here && !node.root) continue;
      const frame = here ? model.frames[model.nodeFrame[here]] : model.sites[model.stackSite[stack]];
      const g = groups.of(frame, "entries");
      for (let k = 0; k < width; k++) g.sums[k] += columns[k][stack];
      g.entries.push(stack, here ? parent[here] : 0);
    }
    node.made = sorted(groups.take(), main, all);
    return node.made;
  };
  return { root: { label: "", name: "all", image: "", path: "", line: 0, place: "", sums: whole, entries, root: true }, children };
}

// A test of frames from a text: words are found anywhere in function, file or module; with `regex`
// the text is a regular expression, null if it is not well-formed.
export function matcher(text, regex) {
  const term = text.trim();
  if (!term) return null;
  let pattern;
  try {
    pattern = new RegExp(regex ? term : term.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "i");
  } catch {
    return null;
  }
  return (frame) => [frame.name, frame.path, frame.image].some((s) => s && pattern.test(s));
}

// Which call stacks pass through a frame that the test accepts, also within the allocator if that is
// shown: 1 or 0 each.
export function stacksThrough(model, test, allocators) {
  const { nodeParent, nodeFrame, stackSite } = model;
  const ends = allocators ? model.stackNode : model.stackBegin;
  const frames = Uint8Array.from(model.frames.map((f) => (test(f) ? 1 : 0)));
  const nodes = new Uint8Array(nodeParent.length);
  for (let i = 1; i < nodes.length; i++) nodes[i] = frames[nodeFrame[i]] | nodes[nodeParent[i]];
  const stacks = new Uint8Array(stackSite.length);
  for (let stack = 0; stack < stacks.length; stack++) stacks[stack] = ends[stack] ? nodes[ends[stack]] : test(model.sites[stackSite[stack]]) ? 1 : 0;
  return stacks;
}
