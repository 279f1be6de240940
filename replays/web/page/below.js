// The panels that a column shows only when it is scrolled: named at its lower edge, where the
// column fades out, and a press away. Scroll bars alone may be hidden.

import { fill, h } from "./dom.js";

// Pixels of a panel that must be in view for it to be seen to be there.
const HEADING = 40;

export class Below {
  // `panels` are the elements in `column`, by their names.
  constructor(column, panels) {
    this.column = column;
    this.panels = panels;
    this.named = "";
    this.bar = h("nav", { class: "below", "aria-label": "Further down" });
    this.element = h("div", { class: "stage" }, column, this.bar);
    column.addEventListener("scroll", () => this.look(), { passive: true });
    this.watch = new ResizeObserver(() => this.look());
  }

  begin() {
    this.watch.observe(this.column);
    for (const { element } of this.panels) this.watch.observe(element);
  }

  look() {
    const { scrollTop, clientHeight, scrollHeight, offsetWidth, clientWidth } = this.column;
    const end = scrollTop + clientHeight;
    this.element.classList.toggle("goes-on", end < scrollHeight - 4);
    this.element.classList.toggle("scrolled", scrollTop > 4);
    this.element.style.setProperty("--gutter", `${offsetWidth - clientWidth}px`);
    const below = this.panels.filter(
      ({ element }) => !element.hidden && element.offsetTop > end - HEADING,
    );
    const named = below.map((panel) => panel.name).join("\n");
    if (named === this.named) return;
    this.named = named;
    fill(
      this.bar,
      below.map((panel) => this.link(panel)),
    );
  }

  link({ name, element }) {
    const press = () => this.column.scrollTo({ top: element.offsetTop });
    const arrow = h("span", { "aria-hidden": "true" }, "↓ ");
    return h("button", { type: "button", onclick: press }, arrow, name);
  }

  close() {
    this.watch.disconnect();
  }
}
