// The time that is left for a decision.

import { h } from "./dom.js";

export class Clock {
  constructor() {
    this.element = h("span", { class: "play-clock", role: "timer", hidden: true });
    this.ahead = 0;
  }

  // The clock of this machine may differ from the server's.
  setServerTime(seconds) {
    this.ahead = Date.now() / 1000 - seconds;
  }

  show(until) {
    clearInterval(this.timer);
    this.element.hidden = until === null;
    if (until === null) return;
    const tick = () => {
      const left = Math.max(0, Math.ceil(until - (Date.now() / 1000 - this.ahead)));
      this.element.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
      this.element.classList.toggle("short", left <= 10);
    };
    tick();
    this.timer = setInterval(tick, 250);
  }
}
