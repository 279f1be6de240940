// The query of the list of games: the server searches, filters and orders.

export const COLUMNS = [
  { key: "game", title: "Game" },
  { key: "players", title: "Players" },
  { key: "result", title: "Result" },
  { key: "turns", title: "Turns" },
  { key: "created", title: "Played" },
];

export const RESULTS = [
  ["", "Any result"],
  ["terminated", "Finished"],
  ["truncated", "Cut off"],
  ["running", "Running"],
  ["unfinished", "Unfinished"],
  ["unreadable", "Unreadable"],
  ["won", "Won by the player"],
  ["lost", "Not won by the player"],
];

export const SOURCES = [
  ["", "Any source"],
  ["person", "Played by me"],
  ["single", "Single games"],
  ["study", "Evaluations and runs"],
];

export function noFilter() {
  return { text: "", game: "", source: "", player: "", result: "", least: "", most: "", from: "", to: "" };
}

// Fields of the request. Days are those of the reader's time zone, and the server knows UTC only.
export function queryOf(filter, sort) {
  const whole = (text) => (/^\d{1,9}$/.test(text) ? text : null);
  return {
    text: filter.text.trim() || null,
    game: filter.game || null,
    source: filter.source || null,
    player: filter.player || null,
    result: filter.result || null,
    least: whole(filter.least),
    most: whole(filter.most),
    since: startOf(filter.from, 0),
    until: startOf(filter.to, 1),
    sort: sort.key,
    descending: sort.descending ? null : "0",
  };
}

// Start of a day, or of the one after it, in UTC; null for no day.
function startOf(day, later) {
  const parts = /^(\d{4})-(\d\d)-(\d\d)$/.exec(day);
  if (!parts) return null;
  const start = new Date(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3]) + later);
  return Number.isNaN(start.getTime()) ? null : start.toISOString();
}
