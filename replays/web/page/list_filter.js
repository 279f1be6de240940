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
  return { text: "", game: "", source: "", player: "", result: "" };
}

// Fields of the request.
export function queryOf(filter, sort) {
  return {
    text: filter.text.trim() || null,
    game: filter.game || null,
    source: filter.source || null,
    player: filter.player || null,
    result: filter.result || null,
    sort: sort.key,
    descending: sort.descending ? null : "0",
  };
}

