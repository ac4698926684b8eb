// Flame graph and inverted flame graph. Trees are cut where frames would be too narrow to be seen;
// what is cut is one frame "(n smaller)", and zooming in brings it back.

import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { amount, percent } from "./format.js";
import { $, foreign, make, Table } from "./dom.js";

const NARROWEST = 1 / 500; // of the width
const DEEPEST = 120; // levels drawn below the zoomed frame
const CELL = 20; // pixels

export class Flame {
  constructor(element, model) {
    Object.assign(this, { element, model, path: [], selected: null, term: "" });
    element.addEventListener("keydown", (event) => this.key(event));
    let width = 0;
    new ResizeObserver(() => {
      if (element.clientWidth !== width && this.tree) this.render();
      width = element.clientWidth;
    }).observe(element);
    this.table = new Table(
      $("flame-table"),
      "Frames of the graph, callers before what they call",
      [
        { name: "Frame", text: true, value: (r) => r.data.name, show: (r) => this.tableName(r) },
        { name: "Amount", value: (r) => r.data.value, show: (r) => this.amount(r.data.value) },
        { name: "Share", value: (r) => r.data.value, show: (r) => percent(r.data.value, this.tree.total) },
      ],
      { limit: 400 },
    );
  }

  tableName(row) {
    const cell = foreign(row.data.name);
    cell.style.paddingInlineStart = `${Math.min(row.depth, 30) * 0.8}em`;
    return cell;
  }

  amount(n) {
    return amount(n, this.unit === "bytes" ? "bytes" : "count");
  }

  // Values by stack.
  show(values, way, unit, allocators) {
    this.unit = unit;
    this.expand = way === "up" ? upwards(this.model, values) : downwards(this.model, values, allocators);
    this.render();
  }

  reset() {
    this.element.style.minHeight = "";
    this.path = [];
    this.selected = null;
    this.render();
  }

  // From the root along the zoomed frames, then all that is wide enough.
  build() {
    const root = this.expand.root;
    const tree = { name: "all", value: root.value, source: root, children: [] };
    let at = tree;
    for (const label of this.path) {
      const child = this.expand.children(at.source).find((c) => c.label === label);
      if (!child) {
        this.path = [];
        return this.build();
      }
      at.fade = true;
      at.value = child.value;
      at.children = [{ name: child.name, label: child.label, value: child.value, source: child, children: [], parent: at }];
      at = at.children[0];
    }
    for (let up = tree; up !== at; up = up.children[0]) up.value = at.value;
    at.zoomed = true;
    tree.total = root.value;
    this.grow(at, at.value * NARROWEST, DEEPEST);
    return tree;
  }

  grow(top, least, deepest) {
    const todo = [[top, 0]];
    while (todo.length) {
      const [node, depth] = todo.pop();
      let rest = 0;
      let restValue = 0;
      for (const child of this.expand.children(node.source)) {
        if (child.value <= 0) continue;
        if (child.value < least || depth >= deepest) {
          rest++;
          restValue += child.value;
          continue;
        }
        const made = { name: child.name, label: child.label, value: child.value, source: child, children: [], parent: node };
        node.children.push(made);
        todo.push([made, depth + 1]);
      }
      if (rest) node.children.push({ name: depth >= deepest ? "(deeper: zoom in)" : `(${rest} smaller)`, label: null, value: restValue, children: [], parent: node });
    }
  }

  render() {
    if (!this.expand) return;
    this.tree = this.build();
    // The page must not move under the pointer: the graph's room does not shrink.
    this.element.style.minHeight = `${this.element.offsetHeight}px`;
    this.draw();
  }

  draw() {
    this.element.replaceChildren();
    const holder = make("div");
    this.element.append(holder);
    if (this.tree.total <= 0) {
      $("flame-detail").textContent = "";
      holder.append(make("p", { text: "Nothing of this kind in the range." }));
      this.table.show([]);
      return;
    }
    this.chart = flamegraph()
      .width(Math.max(240, this.element.clientWidth))
      .cellHeight(CELL)
      .minFrameSize(1)
      .transitionDuration(0)
      .inverted(true)
      .sort(false)
      .getName((d) => d.data.name)
      .setLabelHandler((d) => this.describe(d.data))
      .setColorMapper((d) => (d.highlight ? "var(--found)" : color(d.data)))
      .setSearchMatch((d, term) => d.data.name.toLowerCase().includes(term))
      .setSearchHandler((_, sum) => this.found(sum))
      .onClick((d) => this.zoom(d.data))
      .onHover((d) => this.detail(d.data));
    select(holder).datum(this.tree).call(this.chart);
    this.search(this.term);
    this.rows();
    this.mark(this.zoomedNode());
    this.detail(this.zoomedNode());
  }

  zoomedNode() {
    let node = this.tree;
    while (!node.zoomed && node.children.length) node = node.children[0];
    return node;
  }

  describe(node) {
    const whole = this.tree.total;
    const value = node.zoomed || !node.fade ? node.value : this.expand.value(node.source);
    return `${node.name}: ${this.amount(value)}, ${percent(value, whole)} of all`;
  }

  detail(node) {
    $("flame-detail").textContent = this.describe(node) + (node.source?.place ? `, ${node.source.place}` : "");
  }

  zoom(node) {
    if (node.label === null) node = node.parent;
    const path = [];
    for (let n = node; n.parent; n = n.parent) path.unshift(n.label);
    this.path = path;
    this.render();
  }

  search(term) {
    this.term = term.trim().toLowerCase();
    $("flame-found").textContent = "";
    if (!this.chart || this.tree.total <= 0) return;
    if (this.term) this.chart.search(this.term);
    else this.chart.clear();
    this.mark(this.selected);
  }

  found(sum) {
    const whole = this.zoomedNode().value;
    $("flame-found").textContent = sum ? `Found: ${this.amount(sum)}, ${percent(sum, whole)} of what is shown.` : "Not found among the frames shown.";
  }

  rows() {
    const rows = [];
    const walk = [[this.zoomedNode(), 0]];
    while (walk.length) {
      const [data, depth] = walk.pop();
      rows.push({ data, depth });
      for (let i = data.children.length - 1; i >= 0; i--) walk.push([data.children[i], depth + 1]);
    }
    this.table.show(rows);
  }

  // ---- keyboard

  mark(node) {
    this.selected = node;
    select(this.element)
      .selectAll("g.frame")
      .classed("selected", (d) => d.data === node);
  }

  key(event) {
    if (event.target !== this.element || !this.tree || event.ctrlKey || event.altKey || event.metaKey) return;
    const now = this.selected ?? this.tree;
    const beside = now.parent ? now.parent.children : [now];
    const at = beside.indexOf(now);
    const next = {
      ArrowDown: () => now.children[0],
      ArrowUp: () => now.parent,
      ArrowLeft: () => beside[at - 1],
      ArrowRight: () => beside[at + 1],
      Home: () => this.tree,
    };
    if (next[event.key]) {
      event.preventDefault();
      const to = next[event.key]();
      if (to) {
        this.mark(to);
        this.detail(to);
      }
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.zoom(now);
    } else if (event.key === "Backspace" || event.key === "Escape") {
      event.preventDefault();
      this.path.pop();
      this.render();
    }
  }
}

// Frames of one image are of one hue.
function color(node) {
  if (!node.source || node.fade) return "var(--flame-rest)";
  let hash = 0;
  for (const c of node.source.image || node.name) hash = (hash * 31 + c.charCodeAt(0)) % 997;
  let tone = 0;
  for (const c of node.name) tone = (tone * 33 + c.charCodeAt(0)) % 499;
  return `hsl(${20 + (hash % 12) * 28}deg ${62 + (tone % 20)}% ${66 + (tone % 16)}%)`;
}

const labelOf = (frame) => `${frame.name}\n${frame.image}`;

function group(items, add) {
  const groups = new Map();
  for (const item of items) add(groups, item);
  return [...groups.values()].sort((a, b) => b.value - a.value);
}

function member(groups, frame, fresh) {
  const label = labelOf(frame);
  let found = groups.get(label);
  if (!found) groups.set(label, (found = { label, name: frame.name, image: frame.image, place: frame.place, value: 0, ...fresh() }));
  return found;
}

// Calls from the outermost frame to the allocation site, or into the allocator: a frame stands for
// all nodes of one name below its caller's.
function downwards(model, values, allocators) {
  const inclusive = new Float64Array(model.nodeParent.length);
  const folded = new Map(); // sites whose call stacks are combined
  let whole = 0;
  values.forEach((value, stack) => {
    whole += value;
    const node = allocators ? model.stackNode[stack] : model.stackBegin[stack];
    if (node) inclusive[node] += value;
    else if (value > 0) folded.set(model.stackSite[stack], (folded.get(model.stackSite[stack]) || 0) + value);
  });
  for (let i = inclusive.length - 1; i > 0; i--) if (model.nodeParent[i]) inclusive[model.nodeParent[i]] += inclusive[i];
  const root = { value: whole, nodes: [0], root: true };
  const rest = () => {
    const sites = [...folded].map(([site, value]) => ({ ...model.sites[site], label: `site ${site}`, value, leaf: true })).sort((a, b) => b.value - a.value);
    return { label: "rest", name: "(sites without call stacks of their own)", image: "", place: "", value: sites.reduce((sum, s) => sum + s.value, 0), list: sites };
  };
  return {
    root,
    value: (source) => source.value,
    children(source) {
      if (source.list) return source.list;
      if (source.leaf) return [];
      source.made ??= group(
        source.nodes.flatMap((n) => model.children[n]).filter((n) => inclusive[n] > 0),
        (groups, n) => {
          const g = member(groups, model.frames[model.nodeFrame[n]], () => ({ nodes: [] }));
          g.value += inclusive[n];
          g.nodes.push(n);
        },
      ).concat(source.root && folded.size ? [rest()] : []);
      return source.made;
    },
  };
}

// From the allocation sites outwards: frames within the allocator are left out.
function upwards(model, values) {
  const start = [];
  let whole = 0;
  values.forEach((value, stack) => {
    if (!value) return;
    whole += value;
    start.push({ node: model.stackBegin[stack], value, site: model.sites[model.stackSite[stack]] });
  });
  const root = { value: whole, entries: start, root: true };
  return {
    root,
    value: (source) => source.value,
    children(source) {
      source.made ??= group(source.entries, (groups, entry) => {
        const here = entry.node;
        if (!here && !source.root) return;
        const frame = here ? model.frames[model.nodeFrame[here]] : entry.site;
        const g = member(groups, frame, () => ({ entries: [] }));
        g.value += entry.value;
        g.entries.push({ ...entry, node: here ? model.nodeParent[here] : 0 });
      });
      return source.made;
    },
  };
}
