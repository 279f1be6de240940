// Filtering and sorting of the list of replays.

export const COLUMNS = [
  { key: "game", title: "Game", by: (row) => `${row.game} ${row.variant ?? ""}` },
  { key: "players", title: "Players", by: (row) => row.players.join(" ") },
  { key: "result", title: "Result", by: (row) => `${row.status} ${row.reason}` },
  { key: "turns", title: "Turns", by: (row) => row.turns ?? -1 },
  { key: "created", title: "Played", by: (row) => row.created },
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

export function noFilter() {
  return { text: "", player: "", result: "", least: "", most: "", from: "", to: "" };
}

export function select(games, filter, sort) {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = games.filter((row) => matches(row, filter) && words.every((word) => contains(row, word)));
  const by = COLUMNS.find((column) => column.key === sort.key).by;
  const sign = sort.descending ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: by(row) }));
  keyed.sort((a, b) => sign * order(a.key, b.key) || order(a.row.path, b.row.path));
  return keyed.map((each) => each.row);
}

function order(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

// The searchable text of each row.
const texts = new WeakMap();

function contains(row, word) {
  if (!texts.has(row)) {
    const fields = [row.game, row.variant, row.path, row.reason, row.error];
    const parts = [...fields, row.branch?.parent, ...row.players];
    texts.set(row, parts.filter(Boolean).join(" ").toLowerCase());
  }
  return texts.get(row).includes(word);
}

function matches(row, filter) {
  const turns = row.turns ?? -1;
  return (
    (filter.player === "" || row.players.includes(filter.player)) &&
    hasResult(row, filter) &&
    (filter.least === "" || turns >= Number(filter.least)) &&
    (filter.most === "" || (turns >= 0 && turns <= Number(filter.most))) &&
    (filter.from === "" || day(row) >= filter.from) &&
    (filter.to === "" || (day(row) !== "" && day(row) <= filter.to))
  );
}

function hasResult(row, filter) {
  if (filter.result === "won" || filter.result === "lost") {
    if (row.status !== "terminated" && row.status !== "truncated") return false;
    const winners = row.winners.map((seat) => row.players[seat]);
    const won = winners.length > 0 && (filter.player === "" || winners.includes(filter.player));
    return won === (filter.result === "won");
  }
  return filter.result === "" || row.status === filter.result;
}

function day(row) {
  const when = new Date(row.created);
  if (!row.created || Number.isNaN(when.getTime())) return "";
  const two = (value) => String(value).padStart(2, "0");
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
}

export function playersOf(games) {
  return [...new Set(games.flatMap((row) => row.players))].sort();
}
