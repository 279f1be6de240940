// The list of games with search, filters and sorting. It is updated every few seconds.

import { Trouble, button, fill, h, options, spoken } from "./dom.js";
import { addressOf } from "./address.js";
import { bytes, date, plural } from "./format.js";
import { COLUMNS, RESULTS, SOURCES, noFilter, queryOf } from "./list_filter.js";
import { ListRows } from "./list_rows.js";
import { VirtualRows } from "./virtual_rows.js";
import { icon } from "./icons.js";

const UPDATE_INTERVAL = 4000;
const READING_INTERVAL = 500;
const TYPING_PAUSE = 90;
const LABELS = new Map(RESULTS);

// Filters and scroll position are kept while a game is open.
const settings = { filter: noFilter(), sort: { key: "created", descending: true }, scroll: 0 };

export class GameList {
  // `within` is a folder whose games are listed; "" for all.
  // `isPart` is true if the folder has a home page with more than games.
  // `from` is where they come from, see SOURCES.
  constructor(source, main, list, { within = "", from = "" } = {}, isPart = false) {
    this.source = source;
    this.list = list;
    this.requests = 0;
    this.stop = new AbortController();
    if (within || from) settings.filter = { ...noFilter(), text: within, source: from };
    this.known = new ListRows(
      (offset, limit) => this.ask(offset, limit),
      () => this.rows.redraw(),
    );
    this.rows = new VirtualRows("Games", this.known, (row, at) => drawRow(row, at));
    this.rows.element.addEventListener("scroll", () => {
      settings.scroll = this.rows.element.scrollTop;
    });
    this.build(main, isPart);
    const scroll = settings.scroll;
    this.known.take(list, true);
    this.refresh();
    this.rows.element.scrollTop = scroll;
    if (isFiltered()) this.update(true).then(() => (this.rows.element.scrollTop = scroll));
    this.timer = setInterval(() => this.update(), UPDATE_INTERVAL);
  }

  build(main, isPart) {
    this.count = h("p", { class: "count", role: "status" });
    this.error = new Trouble();
    this.heads = h("div", { class: "row head", role: "row", "aria-rowindex": "1" });
    this.empty = h("div", { class: "empty" });
    this.table = h(
      "div",
      { class: "table", role: "table", "aria-label": "Games" },
      h("div", { role: "rowgroup" }, this.heads),
      this.rows.element,
    );
    const way = isPart ? h("p", { class: "way" }, h("a", { href: "#" }, "Home")) : null;
    fill(
      main,
      h(
        "div",
        { class: "list" },
        h("div", { class: "list-head" }, h("h1", null, "Games"), this.count, way),
        (this.filters = this.form()),
        this.error.element,
        this.table,
        this.empty,
      ),
    );
  }

  form() {
    this.players = h("select", { id: "f-player" });
    this.names = h("select", { id: "f-game" });
    const sources = h("select", { id: "f-source" }, options(SOURCES));
    const result = h("select", { id: "f-result" }, options(RESULTS));
    const field = (label, name, input) => {
      input.value = settings.filter[name];
      input.addEventListener("input", () => {
        settings.filter[name] = input.value;
        // Typing is not interrupted by a request for each letter.
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.update(true), TYPING_PAUSE);
      });
      return h("label", { class: `field field-${name}` }, h("span", null, label), input);
    };
    const form = h(
      "form",
      { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      field("Search", "text", h("input", { type: "search", placeholder: "Game, player, file…" })),
      field("Game", "game", this.names),
      field("Player", "player", this.players),
      field("Source", "source", sources),
      field("Result", "result", result),
      button("Clear", () => this.clear(form), { class: "quiet" }),
    );
    return form;
  }

  clear(form) {
    settings.filter = noFilter();
    for (const input of form.querySelectorAll("input, select")) input.value = "";
    this.update(true);
  }

  // Requests the rows in view again: after a change of the query, and every few seconds.
  async update(isNew = false) {
    if (!isNew && (document.hidden || this.updating)) return;
    const request = (this.requests += 1);
    this.updating = true;
    try {
      const first = isNew ? 0 : Math.max(0, this.rows.firstInView() - 20);
      const list = await this.ask(first, 100);
      if (request !== this.requests) return;
      const text = JSON.stringify(list);
      this.error.show("");
      if (text !== this.shown) this.take(list, isNew);
      this.shown = text;
    } catch (error) {
      if (error.name === "AbortError" || request !== this.requests) return;
      this.error.show(error.message);
    } finally {
      if (request === this.requests) this.updating = false;
    }
    clearTimeout(this.soon);
    // The first list of a large folder grows quickly.
    if (this.list.unread && !this.stop.signal.aborted) {
      this.soon = setTimeout(() => this.update(), READING_INTERVAL);
    }
  }

  ask(offset, limit) {
    const query = { ...queryOf(settings.filter, settings.sort), offset, limit };
    return this.source.games(this.stop.signal, query);
  }

  take(list, isNew) {
    this.list = list;
    if (isNew) this.rows.element.scrollTop = 0;
    this.known.take(list, isNew);
    this.refresh();
  }

  refresh() {
    const { all, found, unread, players, names } = this.list;
    offer(this.names, "game", "Any game", names);
    offer(this.players, "player", "Any player", players);
    this.drawHeads();
    this.table.setAttribute("aria-rowcount", found + 1);
    this.table.hidden = found === 0;
    this.rows.redraw();
    const games = plural(all, "game");
    const some = `${found.toLocaleString("en")} of ${games}`;
    const more = unread ? `; reading ${unread.toLocaleString("en")} more` : "";
    this.count.textContent = (found === all ? games : some) + more;
    this.drawEmpty(all, found);
  }

  drawHeads() {
    const focused = document.activeElement?.dataset?.sort;
    fill(
      this.heads,
      COLUMNS.map((column) => this.head(column)),
    );
    if (focused) this.heads.querySelector(`[data-sort="${CSS.escape(focused)}"]`)?.focus();
  }

  head(column) {
    const sorted = settings.sort.key === column.key;
    const direction = settings.sort.descending ? "descending" : "ascending";
    const arrow = settings.sort.descending ? " ↓" : " ↑";
    const press = () => {
      const first = column.key === "created" || column.key === "turns";
      settings.sort = { key: column.key, descending: sorted ? !settings.sort.descending : first };
      this.drawHeads();
      this.update(true);
    };
    return h(
      "div",
      { role: "columnheader", class: `c-${column.key}`, "aria-sort": sorted ? direction : "none" },
      button(
        [column.title, h("span", { "aria-hidden": "true" }, sorted ? arrow : "")],
        press,
        { "data-sort": column.key },
      ),
    );
  }

  drawEmpty(all, shown) {
    this.empty.hidden = shown > 0;
    this.filters.hidden = !all && !this.list.unread;
    let text = null;
    if (this.list.unread) text = "Reading the folder…";
    else if (all > 0) text = "No game matches. Change a filter, or clear all filters.";
    if (shown > 0 || text === this.emptyText) return;
    this.emptyText = text;
    if (text !== null) fill(this.empty, h("p", null, text));
    else this.drawStart();
  }

  // Where people may play, that comes first: a new game, and games that are explained step by step.
  async drawStart() {
    const open = (query) => () => location.assign(`/play${query}`);
    const start = this.list.can_play ? button("New game", open(""), { class: "primary" }) : null;
    const guided = h("p", { class: "empty-start" });
    fill(this.empty, h("h2", null, "No games here yet"), start, guided, drawExample(this.list));
    const form = start ? await this.source.playForm().catch(() => null) : null;
    const names = (form?.games ?? []).filter((game) => game.has_first_game).map(({ name }) => name);
    if (names.length) fill(guided, "Explained step by step: ", names.map((name) => button(name, open(`?game=${name}`))));
  }

  close() {
    clearInterval(this.timer);
    clearTimeout(this.soon);
    clearTimeout(this.typing);
    this.stop.abort();
    this.known.close();
    this.rows.close();
  }
}

// Keeps what is chosen of a list that may grow.
function offer(select, field, any, names) {
  const known = [...select.options].slice(1).map((each) => each.value);
  if (select.options.length && known.join("\n") === names.join("\n")) return;
  fill(select, options([["", any], ...names.map((name) => [name, name])]));
  select.value = names.includes(settings.filter[field]) ? settings.filter[field] : "";
  settings.filter[field] = select.value;
}

function isFiltered() {
  const { filter, sort } = settings;
  return Object.values(filter).some(Boolean) || sort.key !== "created" || !sort.descending;
}

function drawExample({ root, folder }) {
  return [
    h("p", null, "There are no replays in ", h("code", null, root), ". A command for a game of bots:"),
    h("pre", null, h("code", null, exampleOf(folder))),
    h("p", null, "The game appears here while it is running."),
  ];
}

// A command for the folder in which the viewer was started; `folder` is relative to it.
function exampleOf(folder) {
  const seats = ["detective", "detective", "novice"].map((bot, seat) => `--seat ${seat}=bot:${bot}`);
  return ["arena play cluedo", "--players 3", ...seats, "--no-watch", `--out ${folder}`].join(" ");
}

// The heads of the columns, where the order is fixed.
export function drawHead() {
  const heads = COLUMNS.map(({ key, title }) => h("div", { role: "columnheader", class: `c-${key}` }, title));
  return h("div", { class: "row head", role: "row" }, heads);
}

// A row of the list; the home page shows the newest ones.
export function drawRow(row, at) {
  const cell = (name, ...children) => h("div", { role: "cell", class: `c-${name}` }, ...children);
  return h(
    "div",
    { class: `row is-${row.status}`, role: "row", "aria-rowindex": at + 2 },
    cell("game", drawTitle(row), h("span", { class: "path" }, h("bdi", null, row.path))),
    cell("players", drawPlayers(row)),
    cell("result", drawResult(row)),
    cell(
      "turns",
      row.turns ?? "",
      h("span", { class: "unit" }, row.turns === 1 ? " turn" : " turns"),
    ),
    cell("created", date(row.created), h("span", { class: "path" }, bytes(row.bytes))),
  );
}

function drawTitle(row) {
  const text = [row.title || row.path, row.variant].filter(Boolean).join(" · ");
  if (row.status === "unreadable") return h("span", { class: "name", tabindex: "-1" }, text);
  return h("a", { class: "name", href: addressOf({ path: row.path }) }, text);
}

function drawPlayers(row) {
  return h(
    "ul",
    null,
    row.players.map((spec, seat) =>
      h(
        "li",
        { class: row.winners.includes(seat) ? "winner" : null },
        row.winners.includes(seat) ? [icon("good"), spoken("won: ")] : null,
        h("bdi", { title: spec }, row.names[seat]),
      ),
    ),
  );
}

function drawResult(row) {
  const detail = row.status === "unreadable" ? row.error : row.reason;
  return [
    h("span", { class: "status" }, row.is_draw ? "Draw" : LABELS.get(row.status)),
    detail ? h("span", { class: "path", title: detail }, detail) : null,
    row.branch
      ? h(
          "span",
          { class: "path", title: row.branch.parent },
          icon("branch"),
          ` branch at position ${row.branch.ply} of `,
          h("bdi", null, row.branch.parent),
        )
      : null,
  ];
}
