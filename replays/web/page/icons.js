// Icons; each is next to a word, or in a button that has a name.

import { s } from "./dom.js";

const PATHS = {
  first: "M4 3v10M13 3.5v9L6.5 8z",
  back: "M11 3.5v9L4.5 8z",
  play: "M5 3v10l8-5z",
  pause: "M5 3v10M11 3v10",
  next: "M5 3.5v9L11.5 8z",
  last: "M12 3v10M3 3.5v9L9.5 8z",
  lock: "M4.5 7.5h7v5.5h-7zM6 7.5V5a2 2 0 0 1 4 0v2.5",
  mistake: "M8 2.5L14 13H2zM8 6.5v3M8 11v.6",
  good: "M3 8.5l3.5 3.5L13 4.5",
  branch: "M5 3v10M5 9c0-3 6-1.5 6-5M9 5l2-2 2 2",
};

export function icon(name) {
  return s(
    "svg",
    { class: `icon icon-${name}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    s("path", { d: PATHS[name] }),
  );
}
