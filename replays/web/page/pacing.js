// Tells what happens at once, such as a night, event by event. It can be turned off, and is off where
// the system asks for reduced motion, and while a clock runs.

import { h } from "./dom.js";
import { recall, remember } from "./storage.js";

const KEY = "arena.pacing";
// Milliseconds before an event that follows another one, and for all events of a message.
const PAUSE = 700;
const LONGEST = 4000;
// More events than these wait for no one: the players are faster than a reader.
const MOST_STEPS = 12;

export class Pacing {
  constructor(show) {
    this.show = show;
    this.steps = [];
    this.input = h("input", { type: "checkbox", onchange: () => this.choose() });
    const kept = recall(KEY);
    this.input.checked = kept ? kept === "true" : !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.element = h("label", { class: "muted" }, this.input, " Show moves one at a time");
  }

  choose() {
    remember(KEY, String(this.input.checked));
    if (!this.input.checked) this.flush();
  }

  // Shows everything at once from now on.
  stop() {
    this.input.checked = false;
    this.flush();
  }

  // Takes a message of the server; it is shown after those before it.
  take(message) {
    // The first message, also after a lost connection, repeats everything.
    if (message.table) this.steps = [];
    const added = message.table ? [{ message, pause: 0 }] : split(message);
    if (this.steps.length && message.events) added[0].pause = PAUSE;
    this.steps.push(...added);
    if (message.table || this.steps.length > MOST_STEPS || message.parts?.turn?.until || !this.input.checked) this.flush();
    else if (!this.timer) this.go();
  }

  go() {
    this.timer = null;
    while (this.steps.length && !this.steps[0].pause) this.show(this.steps.shift().message);
    if (!this.steps.length) return;
    const { pause } = this.steps[0];
    this.steps[0].pause = 0;
    this.timer = setTimeout(() => this.go(), pause);
  }

  flush() {
    clearTimeout(this.timer);
    this.steps.forEach((step) => (step.pause = 0));
    this.go();
  }
}

// One message for each event; what else has changed comes with the last one, but the end of the own
// turn comes at once.
function split(message) {
  const { events = [], first, now, parts } = message;
  const pause = Math.min(PAUSE, LONGEST / events.length);
  const early = parts && "turn" in parts ? { turn: null } : {};
  const steps = events.slice(0, -1).map((event, at) => ({
    message: { now, first: first + at, events: [event], parts: at === 0 ? early : {} },
    pause: at && pause,
  }));
  if (!steps.length) return [{ message, pause: 0 }];
  const last = { ...message, first: first + steps.length, events: events.slice(-1) };
  return [...steps, { message: last, pause }];
}
