// A table of any length: only the rows in view, and some around them, are in the document.

import { h } from "./dom.js";

const AROUND = 12;

export class Rows {
  constructor(label, draw) {
    this.draw = draw;
    this.rows = [];
    this.made = new Map();
    this.narrow = matchMedia("(max-width: 760px)");
    this.element = h("div", {
      class: "rows",
      role: "rowgroup",
      tabindex: "0",
      "aria-label": label,
      onscroll: () => this.window(),
      onkeydown: (event) => this.move(event),
    });
    this.watch = new ResizeObserver(() => this.window());
    this.watch.observe(this.element);
  }

  get height() {
    return this.narrow.matches ? 104 : 52;
  }

  show(rows) {
    this.rows = rows;
    this.element.style.setProperty("--count", rows.length);
    const focused = this.element.contains(document.activeElement)
      ? document.activeElement.closest(".row")?.dataset.at
      : undefined;
    for (const row of this.made.values()) row.remove();
    this.made.clear();
    this.window();
    if (focused !== undefined) this.focus(Number(focused));
  }

  window() {
    const { scrollTop, clientHeight, offsetWidth, clientWidth } = this.element;
    // The heads above stand over their columns, whether there is a scroll bar or not.
    const { parentElement: table } = this.element;
    table?.style.setProperty("--gutter", `${offsetWidth - clientWidth}px`);
    const first = Math.max(0, Math.floor(scrollTop / this.height) - AROUND);
    const last = Math.min(
      this.rows.length,
      Math.ceil((scrollTop + clientHeight) / this.height) + AROUND,
    );
    for (const [at, row] of this.made) {
      if (at < first || at >= last) {
        row.remove();
        this.made.delete(at);
      }
    }
    for (let at = first; at < last; at += 1) if (!this.made.has(at)) this.insert(at);
  }

  // Rows stand in the document in their order, so that the tab key visits them in it.
  insert(at) {
    const row = this.draw(this.rows[at], at);
    row.dataset.at = at;
    row.style.setProperty("--at", at);
    this.element.insertBefore(row, this.following(at));
    this.made.set(at, row);
  }

  following(at) {
    let before = null;
    for (const row of this.element.children) {
      if (Number(row.dataset.at) > at) {
        before = row;
        break;
      }
    }
    return before;
  }

  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const focused = document.activeElement.closest(".row");
    const at = focused ? Number(focused.dataset.at) + step : this.firstInView();
    if (at < 0 || at >= this.rows.length) return;
    event.preventDefault();
    this.focus(at);
  }

  firstInView() {
    return Math.ceil(this.element.scrollTop / this.height);
  }

  focus(at) {
    const top = at * this.height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    if (top + this.height > scrollTop + clientHeight) {
      this.element.scrollTop = top + this.height - clientHeight;
    }
    this.window();
    this.made.get(at)?.querySelector("a, [tabindex]")?.focus({ preventScroll: true });
  }

  close() {
    this.watch.disconnect();
  }
}
