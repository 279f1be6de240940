// The list of games with search, filters and sorting. It is updated every few seconds.

import { fill, h, spoken } from "./dom.js";
import { addressOf } from "./address.js";
import { bytes, date, plural } from "./format.js";
import { COLUMNS, RESULTS, noFilter, playersOf, select } from "./list_filter.js";
import { VirtualRows } from "./virtual_rows.js";
import { icon } from "./icons.js";

const UPDATE_INTERVAL = 4000;

// Filters and scroll position are kept while a game is open.
const settings = { filter: noFilter(), sort: { key: "created", descending: true }, scroll: 0 };

export class GameList {
  constructor(source, main, list) {
    this.source = source;
    this.list = list;
    this.stop = new AbortController();
    this.rows = new VirtualRows("Games", (row, at) => drawRow(row, at));
    this.rows.element.addEventListener("scroll", () => {
      settings.scroll = this.rows.element.scrollTop;
    });
    this.build(main);
    this.refresh();
    this.rows.element.scrollTop = settings.scroll;
    this.timer = setInterval(() => this.update(), UPDATE_INTERVAL);
  }

  build(main) {
    this.count = h("p", { class: "count", role: "status" });
    this.error = h("p", { class: "trouble", role: "alert", hidden: true });
    this.heads = h("div", { class: "row head", role: "row", "aria-rowindex": "1" });
    this.empty = h("div", { class: "empty" });
    this.table = h(
      "div",
      { class: "table", role: "table", "aria-label": "Games" },
      h("div", { role: "rowgroup" }, this.heads),
      this.rows.element,
    );
    fill(
      main,
      h(
        "div",
        { class: "list" },
        h("div", { class: "list-head" }, h("h1", null, "Games"), this.count),
        this.form(),
        this.error,
        this.table,
        this.empty,
      ),
    );
  }

  form() {
    this.players = h("select", { id: "f-player" });
    const result = h(
      "select",
      { id: "f-result" },
      RESULTS.map(([value, text]) => option(value, text)),
    );
    const field = (label, name, input) => {
      input.value = settings.filter[name];
      input.addEventListener("input", () => {
        settings.filter[name] = input.value;
        this.rows.element.scrollTop = 0;
        this.refresh();
      });
      return h("label", { class: `field field-${name}` }, h("span", null, label), input);
    };
    const form = h(
      "form",
      { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      field("Search", "text", h("input", { type: "search", placeholder: "Game, player, file…" })),
      field("Player", "player", this.players),
      field("Result", "result", result),
      field("Turns from", "least", h("input", { type: "number", min: "0", inputmode: "numeric" })),
      field("to", "most", h("input", { type: "number", min: "0", inputmode: "numeric" })),
      field("Played from", "from", h("input", { type: "date" })),
      field("to", "to", h("input", { type: "date" })),
      h("button", { type: "button", class: "quiet", onclick: () => this.clear(form) }, "Clear"),
    );
    return form;
  }

  clear(form) {
    settings.filter = noFilter();
    for (const input of form.querySelectorAll("input, select")) input.value = "";
    this.refresh();
  }

  async update() {
    if (document.hidden || this.updating) return;
    this.updating = true;
    try {
      const list = await this.source.games(this.stop.signal);
      const changed = JSON.stringify(list) !== JSON.stringify(this.list);
      this.list = list;
      this.error.hidden = true;
      if (changed) this.refresh();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error.hidden = false;
      this.error.textContent = error.message;
    } finally {
      this.updating = false;
    }
  }

  refresh() {
    const { games, more } = this.list;
    this.offerPlayers(playersOf(games));
    this.drawHeads();
    const shown = select(games, settings.filter, settings.sort);
    this.table.setAttribute("aria-rowcount", shown.length + 1);
    this.table.hidden = shown.length === 0;
    this.rows.show(shown);
    const all = games.length + more;
    this.count.textContent =
      (shown.length === games.length
        ? plural(games.length, "game")
        : `${shown.length.toLocaleString("en")} of ${plural(games.length, "game")}`) +
      (more ? `; ${all.toLocaleString("en")} in the folder, only the newest are listed` : "");
    this.drawEmpty(games.length, shown.length);
  }

  offerPlayers(specs) {
    const known = [...this.players.options].slice(1).map((each) => each.value);
    if (this.players.options.length && known.join("\n") === specs.join("\n")) return;
    fill(
      this.players,
      option("", "Any player"),
      specs.map((spec) => option(spec, spec)),
    );
    this.players.value = specs.includes(settings.filter.player) ? settings.filter.player : "";
    settings.filter.player = this.players.value;
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
      this.refresh();
    };
    return h(
      "div",
      { role: "columnheader", class: `c-${column.key}`, "aria-sort": sorted ? direction : "none" },
      h(
        "button",
        { type: "button", "data-sort": column.key, onclick: press },
        column.title,
        h("span", { "aria-hidden": "true" }, sorted ? arrow : ""),
      ),
    );
  }

  drawEmpty(all, shown) {
    this.empty.hidden = shown > 0;
    if (shown > 0) return;
    if (all > 0) {
      fill(this.empty, h("p", null, "No game matches. Change a filter, or clear all filters."));
      return;
    }
    fill(
      this.empty,
      h("h2", null, "No games here yet"),
      h("p", null, "There are no replays in ", h("code", null, this.list.root), ". Play a game:"),
      h("pre", null, h("code", null, exampleOf(this.list.folder))),
      h("p", null, "The game appears here while it is running."),
    );
  }

  close() {
    clearInterval(this.timer);
    this.stop.abort();
    this.rows.close();
  }
}

// A command for the folder in which the viewer was started; `folder` is relative to it.
function exampleOf(folder) {
  const seats = ["detective", "detective", "novice"].map((bot, seat) => `--seat ${seat}=bot:${bot}`);
  return ["arena play cluedo", "--players 3", ...seats, "--no-watch", `--out ${folder}`].join(" ");
}

function option(value, text) {
  return h("option", { value }, text);
}

function drawRow(row, at) {
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
  const text = [row.game || row.path, row.variant].filter(Boolean).join(" · ");
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
        h("bdi", null, spec),
      ),
    ),
  );
}

function drawResult(row) {
  const labels = {
    terminated: "Finished",
    truncated: "Cut off",
    running: "Running",
    unfinished: "Unfinished",
    unreadable: "Unreadable",
  };
  const detail = row.status === "unreadable" ? row.error : row.reason;
  return [
    h("span", { class: "status" }, labels[row.status] ?? row.status),
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
