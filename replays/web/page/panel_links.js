// Links to the panels that are below the visible part of a column. Many systems hide scroll bars,
// so the lower edge of the column fades out and names these panels.

import { button, fill, h } from "./dom.js";

// Pixels of a panel that must be in view for its heading to be visible.
const HEADING_HEIGHT = 40;

// Pixels that may be hidden without a notice: the margin below the last panel.
const SLACK = 16;

export class PanelLinks {
  // `panels` are the elements in `column` with their names.
  constructor(column, panels) {
    this.column = column;
    this.panels = panels;
    this.shownNames = "";
    this.bar = h("nav", { class: "panel-links", "aria-label": "Panels below" });
    this.element = h("div", { class: "stage" }, column, this.bar);
    column.addEventListener("scroll", () => this.update(), { passive: true });
    this.observer = new ResizeObserver(() => this.update());
  }

  start() {
    this.observer.observe(this.column);
    for (const { element } of this.panels) this.observer.observe(element);
  }

  update() {
    const { scrollTop, clientHeight, scrollHeight, offsetWidth, clientWidth } = this.column;
    const end = scrollTop + clientHeight;
    this.element.classList.toggle("has-more", end < scrollHeight - SLACK);
    this.element.classList.toggle("scrolled", scrollTop > 4);
    this.element.style.setProperty("--gutter", `${offsetWidth - clientWidth}px`);
    const below = this.panels.filter(
      ({ element }) => !element.hidden && element.offsetTop > end - HEADING_HEIGHT,
    );
    const names = below.map((panel) => panel.name).join("\n");
    if (names === this.shownNames) return;
    this.shownNames = names;
    fill(
      this.bar,
      below.map((panel) => this.link(panel)),
    );
  }

  link({ name, element }) {
    const scroll = () => this.column.scrollTo({ top: element.offsetTop });
    const arrow = h("span", { "aria-hidden": "true" }, "↓ ");
    return button([arrow, name], scroll);
  }

  close() {
    this.observer.disconnect();
  }
}
