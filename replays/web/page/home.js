// The home page: everything in the folder, by kind. It is updated every few seconds.

import { Trouble, button, fill, h, spoken } from "./dom.js";
import { gamesAddress, reportLink } from "./home_address.js";
import { bytes, date, plural } from "./format.js";
import { drawHead, drawRow } from "./list.js";

const UPDATE_INTERVAL = 3000;
const READING_INTERVAL = 700;
const TYPING_PAUSE = 120;
// Entries of one kind that are shown at first, and at most.
const FEW = 6;
const MANY = 300;
const FEW_GAMES = 6;

const GROUPS = [
  { kind: "train", title: "Training runs" },
  { kind: "eval", title: "Evaluations" },
  { kind: "tournament", title: "Tournaments" },
];

// What is kept while something is open.
const settings = { text: "", unfolded: new Set() };

export class HomePage {
  constructor(source, main, home, games) {
    this.source = source;
    this.home = home.document;
    this.tag = home.tag;
    // By source; all games until the first answer.
    this.games = { single: { ...games, games: games.games.slice(0, FEW_GAMES) } };
    this.stop = new AbortController();
    this.error = new Trouble();
    this.count = h("p", { class: "count", role: "status" });
    this.groups = h("div", { class: "groups" });
    fill(main, h("div", { class: "home" }, this.head(), this.error.element, this.groups));
    this.draw();
    this.update();
  }

  head() {
    const search = h("input", { type: "search", placeholder: "Name, game, player, file…" });
    search.value = settings.text;
    search.addEventListener("input", () => {
      settings.text = search.value;
      this.draw();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.update(), TYPING_PAUSE);
    });
    return h(
      "div",
      { class: "home-head" },
      h("h1", null, h("bdi", null, this.home.root)),
      this.count,
      h(
        "form",
        { role: "search", onsubmit: (event) => event.preventDefault() },
        h("label", { class: "field" }, h("span", null, "Search"), search),
      ),
    );
  }

  schedule() {
    const wait = this.home.unread ? READING_INTERVAL : UPDATE_INTERVAL;
    clearTimeout(this.timer);
    if (!this.stop.signal.aborted) this.timer = setTimeout(() => this.update(), wait);
  }

  async update() {
    if (document.hidden) return this.schedule();
    const { signal } = this.stop;
    const text = settings.text.trim();
    try {
      const some = (source, limit) => this.source.games(signal, { limit, source, text: text || null });
      const [home, person, single, study] = await Promise.all([
        this.source.view("home", {}, signal, this.tag),
        some("person", FEW_GAMES),
        some("single", FEW_GAMES),
        some("study", 0),
      ]);
      const games = { person, single, study };
      const changed = home !== null || JSON.stringify(games) !== JSON.stringify(this.games);
      this.home = home?.document ?? this.home;
      this.tag = home?.tag ?? this.tag;
      this.games = games;
      this.error.show("");
      if (changed) this.draw();
    } catch (error) {
      if (error.name === "AbortError") return null;
      this.error.show(error.message);
    }
    return this.schedule();
  }

  draw() {
    if (this.groups.matches(":active")) {
      // A link that is drawn anew between press and release loses the click.
      setTimeout(() => this.draw(), 100);
      return;
    }
    const { entries, games, unread, left_out: leftOut } = this.home;
    const reading = unread ? `reading ${unread.toLocaleString("en")} more files` : null;
    const out = leftOut ? `${plural(leftOut, "older entry", "older entries")} not shown` : null;
    const counts = GROUPS.map(({ kind, title }) => {
      const count = entries.filter((entry) => entry.kind === kind).length;
      return count ? `${count} ${count === 1 ? title.slice(0, -1) : title}`.toLowerCase() : null;
    });
    const parts = [plural(games, "game"), ...counts, reading, out];
    this.count.textContent = parts.filter(Boolean).join(" · ");
    const focused = focusOf(this.groups);
    fill(
      this.groups,
      this.drawGames("person", "Played by me"),
      GROUPS.map((group) => this.drawGroup(group)),
      this.drawGames("single", "Games"),
      this.drawStudy(),
    );
    if (focused) this.groups.querySelector(focused)?.focus({ preventScroll: true });
  }

  drawGroup({ kind, title }) {
    const words = settings.text.toLowerCase().split(/\s+/).filter(Boolean);
    const all = this.home.entries.filter((entry) => entry.kind === kind);
    const found = all.filter((entry) => words.every((word) => textOf(entry).includes(word)));
    if (!found.length) return null;
    const most = settings.unfolded.has(kind) || words.length ? MANY : FEW;
    const rest = found.length - most;
    const press = () => {
      settings.unfolded.add(kind);
      this.draw();
    };
    const look = { class: "quiet more", "data-focus": `more-${kind}` };
    return section(
      kind,
      title,
      found.length,
      h(
        "ul",
        { class: "entries panel" },
        found.slice(0, most).map((entry) => this.drawEntry(entry)),
      ),
      rest > 0 && most === FEW
        ? button(`Show all ${found.length.toLocaleString("en")}`, press, look)
        : null,
      rest > 0 && most === MANY
        ? h("p", { class: "meaning" }, `${plural(rest, "more entry", "more entries")}: search to narrow the list.`)
        : null,
    );
  }

  drawEntry(entry) {
    const title = h("bdi", null, entry.title);
    const id = `${entry.kind}:${entry.path}`;
    let name = h("span", { class: "name" }, title);
    if (entry.opens) {
      name = reportLink(entry, title);
      name.dataset.focus = `open-${id}`;
    }
    return h(
      "li",
      { class: `entry is-${entry.status || "stored"}` },
      h(
        "div",
        { class: "entry-main" },
        name,
        entry.facts.length ? h("span", { class: "entry-facts" }, entry.facts.join(" · ")) : null,
        entry.error ? h("span", { class: "entry-error" }, entry.error) : null,
        entry.title === entry.path
          ? null
          : h("span", { class: "path" }, h("bdi", null, entry.path || ".")),
      ),
      entry.status ? h("span", { class: "status" }, entry.status) : null,
      h("span", { class: "entry-date" }, date(entry.changed), spoken(", "), h("span", { class: "path" }, bytes(entry.bytes))),
    );
  }

  // The newest games of a source; without any, only the section of games says so.
  drawGames(source, title) {
    const { games, found, all } = this.games[source] ?? { games: [], found: 0, all: 0 };
    const isMain = source === "single" && !this.games.study?.found && !this.games.person?.found;
    if (!games.length && (!isMain || (!all && settings.text))) return null;
    const more = gamesAddress(settings.text.trim(), isMain ? "" : source);
    const everything = plural(found, settings.text ? "matching game" : "game");
    const label = found > games.length ? `All ${everything}` : "Sort and filter";
    return section(
      `games-${source}`,
      title,
      found,
      games.length
        ? h(
            "div",
            { class: "table few", role: "table", "aria-label": "Newest games" },
            h("div", { role: "rowgroup" }, drawHead(), games.map((row, at) => drawRow(row, at))),
          )
        : h("p", { class: "none" }, all ? "No game matches." : "No games yet."),
      found > games.length || source === "single"
        ? h("a", { class: "more", href: more, "data-focus": source, hidden: !games.length }, label)
        : null,
    );
  }

  // Games of evaluations and runs are many, and are reached from those; one line leads to all.
  drawStudy() {
    const found = this.games.study?.found;
    if (!found) return null;
    const text = `${plural(found, "game")} of evaluations and runs`;
    const link = h("a", { href: gamesAddress(settings.text.trim(), "study"), "data-focus": "study" }, text);
    return h("p", { class: "more" }, link);
  }

  close() {
    clearTimeout(this.timer);
    this.stop.abort();
  }
}

// The entries of one kind, under their number.
function section(kind, title, count, ...children) {
  const id = `group-${kind}`;
  const number = h("span", { class: "count" }, ` ${count.toLocaleString("en")}`);
  const heading = h("h2", { id }, title, number);
  return h("section", { class: "group", "aria-labelledby": id }, heading, children);
}

function focusOf(element) {
  const name = element.contains(document.activeElement)
    ? document.activeElement.dataset.focus
    : undefined;
  return name === undefined ? null : `[data-focus="${CSS.escape(name)}"]`;
}

// The searchable text of an entry.
function textOf(entry) {
  const parts = [entry.title, entry.path, entry.status, entry.error ?? "", ...entry.facts];
  return parts.join(" ").toLowerCase();
}
