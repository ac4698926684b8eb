// Elements are made here, their text through textContent alone: nothing of a trace becomes markup.

export const $ = (id) => document.getElementById(id);

// Calls `run` when the next frame is painted; a page out of sight paints none.
export const afterPaint = (run) => (document.hidden ? setTimeout(run) : requestAnimationFrame(() => setTimeout(run)));

// A colour of the style sheet, for what is drawn on a canvas.
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const signed = (show) => (n) => `${n > 0 ? "+" : ""}${show(n)}`;

// Figures [name, value, more...] beside the plot.
export const showFigures = (figures) => $("range-figures").replaceChildren(...figures.map(([name, value, ...more]) => make("div", {}, make("dt", { text: name }), make("dd", { title: [value, ...more].join(", ") }, foreign(value), ...more.map((text) => make("small", { text }))))));

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") element.textContent = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// A mark in the colours of a legend.
export function swatch(style) {
  const span = make("span", { class: "mark", "aria-hidden": "true" });
  Object.assign(span.style, style);
  return span;
}

// A text of the trace, kept apart from the direction of what is around it.
export const foreign = (text, className) => make("bdi", { text, class: className });

// Tables with a caption, columns {name, value, show, text, title, minor} and sortable heads. A phone
// does not show minor columns, so that figures are beside names. With options.key(row) a row that is
// shown again keeps its element, and a cell whose value(row) or mark(row) is as before its contents.
export class Table {
  constructor(element, caption, columns, options = {}) {
    Object.assign(this, { element, columns, options, sort: options.sort ?? -1, down: true, limit: options.limit ?? 100, rows: [], lines: new Map() });
    element.table = this;
    this.initial = `${this.sort}`;
    element.append(make("caption", { text: caption, class: options.captionHidden === false ? "" : "hidden" }));
    const head = make("tr");
    columns.forEach((column, i) => head.append(this.head(column, i)));
    this.body = make("tbody");
    element.append(make("thead", {}, head), this.body);
    if (!options.sortable && element.parentElement.className === "scroll") Object.assign(element.parentElement, { tabIndex: 0, role: "region", ariaLabel: caption });
    this.more = make("button", { type: "button", id: `${element.id}-more`, onclick: () => this.showMore() });
    element.parentElement.after(make("p", { hidden: true }, this.more));
  }

  head(column, i) {
    const th = make("th", { scope: "col", class: classOf(column), title: column.title });
    if (!this.options.sortable || !column.value) return Object.assign(th, { textContent: column.name });
    th.append(make("button", { type: "button", text: column.name, onclick: () => this.sortBy(i) }));
    return (column.element = th);
  }

  sortBy(i) {
    this.down = this.sort === i ? !this.down : !this.columns[i].text;
    this.sort = i;
    this.draw();
    this.element.dispatchEvent(new Event("sorted"));
  }

  // The column that sorts, for the address of the page: "" is the initial one, "3up" the other way.
  get order() {
    const now = `${this.sort}${this.down ? "" : "up"}`;
    return now === this.initial ? "" : now;
  }

  set order(text) {
    const column = parseInt(text || this.initial, 10);
    if (text === this.order || (text && !this.columns[column]?.value)) return;
    Object.assign(this, { sort: column, down: !(text || this.initial).endsWith("up") });
    this.draw();
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  showMore() {
    const from = this.limit;
    this.limit += 100;
    this.draw();
    this.body.children[from]?.querySelector("a, button")?.focus();
  }

  draw() {
    const column = this.columns[this.sort];
    const sign = this.down ? -1 : 1;
    const rows = column ? this.rows.slice().sort((a, b) => sign * compare(column.value(a), column.value(b))) : this.rows;
    this.columns.forEach((c, i) => c.element?.setAttribute("aria-sort", i !== this.sort ? "none" : this.down ? "descending" : "ascending"));
    this.place(rows.slice(0, this.limit));
    this.more.parentElement.hidden = rows.length <= this.limit;
    this.more.textContent = `Show more (${rows.length - this.limit} rows are not shown)`;
  }

  // Moving an element takes the focus from it.
  place(rows) {
    const { key } = this.options;
    const focused = document.activeElement;
    this.lines = new Map(rows.map((row) => this.line(row, key && this.lines.get(key(row)))).map((line) => [line.key, line]));
    const kept = new Set([...this.lines.values()].map(({ tr }) => tr));
    for (const tr of [...this.body.children]) if (!kept.has(tr)) tr.remove();
    let next = this.body.firstElementChild;
    for (const tr of kept) {
      if (tr === next) next = tr.nextElementSibling;
      else this.body.insertBefore(tr, next);
    }
    if (focused !== document.activeElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

  line(row, line) {
    const tr = line?.tr ?? make("tr");
    line ??= { key: this.options.key ? this.options.key(row) : tr, tr, marks: [] };
    this.columns.forEach((column, i) => {
      const mark = (column.mark ?? column.value)?.(row);
      if (i < line.marks.length && line.marks[i] === mark) return;
      line.marks[i] = mark;
      const shown = column.show ? column.show(row) : column.value(row);
      const cell = tr.children[i] ?? tr.appendChild(make(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : undefined, class: classOf(column) }));
      cell.replaceChildren(shown instanceof Node ? shown : String(shown));
    });
    return line;
  }
}

const classOf = (column) => `${column.text ? "" : "number"}${column.minor ? " minor" : ""}`;
const compare = (a, b) => (typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0);
