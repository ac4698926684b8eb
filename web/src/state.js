// What is shown, in the fragment of the page's address: back, forward and pasted links restore it.
// A value that is the initial one is left out.

export class State {
  over = new AbortController(); // the page is about to show other data

  // read() gives an object of texts; apply(object) shows such a state, of which keys may be missing.
  constructor(read, apply) {
    Object.assign(this, { read, apply, initial: read() });
    window.addEventListener("hashchange", () => location.hash !== this.written && this.restore(), { signal: this.over.signal });
    if (location.hash.length > 1) this.restore();
    else this.written = location.hash;
  }

  restore() {
    this.written = location.hash;
    this.busy = true;
    try {
      this.apply({ ...this.initial, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) });
    } finally {
      this.busy = false;
    }
  }

  // A new entry of the history, or with `replace` another address of the present one.
  save(replace, now = this.read()) {
    if (this.busy) return;
    const changed = new URLSearchParams(Object.entries(now).filter(([key, value]) => value !== this.initial[key]));
    const hash = changed.size || String(changed) ? `#${changed}` : "#";
    if (hash === (location.hash || "#")) return;
    if (replace) history.replaceState(null, "", hash);
    else location.hash = hash;
    this.written = location.hash;
  }
}
