// Names of the players in place of their numbers. The server's texts and actions number the players
// from 0 ("Player 0"), as those that models read do; people see names, and may type them.

import { recall, remember } from "./storage.js";

const KEY = "arena.name";
const NUMBERED = /\bPlayers? (\d+(?:(?:, | and |, and | or )\d+)*)\b/g;
const IDENTIFIERS = new Set(["action", "actions", "value", "values", "picks"]);

// The name that was entered last; empty if there is none, or if this browser keeps nothing.
export function rememberedName() {
  return recall(KEY) ?? "";
}

// Whether the name was asked for, and perhaps left empty.
export function hasBeenAsked() {
  return recall(KEY) !== null;
}

export function rememberName(name) {
  remember(KEY, name);
}

export class Names {
  constructor(names) {
    this.names = names;
    const longestFirst = [...names].sort((a, b) => b.length - a.length);
    const escaped = longestFirst.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const any = [...escaped, "P(?:layer )?([1-9]\\d*)"].join("|");
    this.any = new RegExp(`(?<![\\p{L}\\p{N}])(?:${any})(?![\\p{L}\\p{N}])`, "giu");
  }

  of(seat) {
    return this.names[seat] ?? `Player ${Number(seat) + 1}`;
  }

  // A text of the server for people.
  text(text) {
    return text.replace(NUMBERED, (_, seats) => seats.replace(/\d+/g, (seat) => this.of(seat)));
  }

  // The same for every string in a value, but for those under the keys that are kept.
  tree(value, kept = IDENTIFIERS) {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return value.map((each) => this.tree(each, kept));
    if (value === null || typeof value !== "object") return value;
    const named = ([key, each]) => [key, kept.has(key) ? each : this.tree(each, kept)];
    return Object.fromEntries(Object.entries(value).map(named));
  }

  // A text that a person has typed, for the server. People count from 1, as the names do.
  typed(text) {
    const seatOf = (name) => this.names.findIndex((each) => each.toLowerCase() === name.toLowerCase());
    return text.replace(this.any, (name, number) => `Player ${number ? number - 1 : seatOf(name)}`);
  }
}
