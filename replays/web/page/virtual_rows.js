// Rows of a long table: only the visible rows, and some around them, are in the document. The table
// may know only some rows; a row that is not known is drawn empty, and its part is requested.

import { h } from "./dom.js";

const EXTRA_ROWS = 12;

export class VirtualRows {
  // `rows` has `count`, `get(at)`, which may return undefined, and `request(first, last)`.
  constructor(label, rows, draw) {
    this.draw = draw;
    this.rows = rows;
    this.drawn = new Map();
    this.narrow = matchMedia("(max-width: 760px)");
    this.element = h("div", {
      class: "rows",
      role: "rowgroup",
      tabindex: "0",
      "aria-label": label,
      onscroll: () => this.drawVisible(),
      onkeydown: (event) => this.move(event),
    });
    this.observer = new ResizeObserver(() => this.drawVisible());
    this.observer.observe(this.element);
  }

  get height() {
    return this.narrow.matches ? 104 : 52;
  }

  // Draws all visible rows again.
  redraw() {
    this.element.style.setProperty("--count", this.rows.count);
    const focused = this.element.contains(document.activeElement)
      ? document.activeElement.closest(".row")?.dataset.at
      : undefined;
    for (const row of this.drawn.values()) row.remove();
    this.drawn.clear();
    this.drawVisible();
    if (focused !== undefined) this.focus(Number(focused));
  }

  drawVisible() {
    const { scrollTop, clientHeight, offsetWidth, clientWidth } = this.element;
    // Aligns the headings with their columns, with and without a scroll bar.
    const { parentElement: table } = this.element;
    table?.style.setProperty("--gutter", `${offsetWidth - clientWidth}px`);
    const first = Math.max(0, Math.floor(scrollTop / this.height) - EXTRA_ROWS);
    const last = Math.min(
      this.rows.count,
      Math.ceil((scrollTop + clientHeight) / this.height) + EXTRA_ROWS,
    );
    for (const [at, row] of this.drawn) {
      if (at < first || at >= last) {
        row.remove();
        this.drawn.delete(at);
      }
    }
    for (let at = first; at < last; at += 1) if (!this.drawn.has(at)) this.insert(at);
    this.rows.request(first, last);
  }

  // Keeps the rows in document order, which is the order of the tab key.
  insert(at) {
    const known = this.rows.get(at);
    const row = known ? this.draw(known, at) : h("div", { class: "row", role: "row" });
    row.dataset.at = at;
    row.style.setProperty("--at", at);
    this.element.insertBefore(row, this.following(at));
    this.drawn.set(at, row);
  }

  following(at) {
    return [...this.element.children].find((row) => Number(row.dataset.at) > at) ?? null;
  }

  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const focused = document.activeElement.closest(".row");
    const at = focused ? Number(focused.dataset.at) + step : this.firstInView();
    if (at < 0 || at >= this.rows.count) return;
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
    this.drawVisible();
    this.drawn.get(at)?.querySelector("a, [tabindex]")?.focus({ preventScroll: true });
  }

  close() {
    this.observer.disconnect();
  }
}
