// The form for a new game: pictures of the games, the options of one, and who sits where.

import { Trouble, button, fill, h, options } from "./dom.js";
import { Names, rememberName, rememberedName } from "./names.js";
import { HELP_NAMES } from "./play_help.js";
import { drawScene } from "./scene.js";
import { loadScene } from "./scenes.js";
import { post } from "./source.js";

const HUMAN = "human";

export class NewGame {
  constructor(form) {
    this.form = form;
    const named = (name) => form.games.find((game) => game.name === name);
    this.game = named(new URLSearchParams(location.search).get("game")) ?? named("cluedo") ?? form.games[0];
    this.options = h("div", { class: "new-options" });
    this.seatRows = h("ol", { class: "new-seats" });
    this.level = h("select", { onchange: () => this.setLevel() });
    this.trouble = new Trouble();
    this.links = h("section", { class: "panel new-links", hidden: true });
    const start = () => this.start({ game: this.game.name, seats: [], guided: true });
    this.guided = h("p", { class: "new-guided" }, "First time? ", button("Play a guided game", start, { class: "link" }));
    this.summary = h("p", { class: "muted" });
    this.pace = h("input", { type: "number", min: 0, max: 60, step: 0.1, value: 0.7 });
    this.clock = h("input", { type: "number", min: 1, max: 86400, placeholder: "no limit" });
    this.name = h("input", { type: "text", maxlength: 24, autocomplete: "nickname", value: rememberedName() });
    const levels = form.help.map((level) => [level, HELP_NAMES[level].toLowerCase()]);
    this.help = h("select", null, options(levels, "posterior"));
    this.element = h(
      "form",
      { class: "new-game", onsubmit: (event) => this.submit(event) },
      h("h1", null, "New game"),
      this.links,
      h("fieldset", { class: "game-cards" }, h("legend", { class: "sr" }, "Game"), form.games.map((game) => this.gameCard(game))),
      h("section", { class: "panel new-panel" }, this.summary, this.guided, this.options),
      h("section", { class: "panel new-panel", "aria-labelledby": "seats-title" }, h("h2", { id: "seats-title" }, "Players"), h("label", null, h("span", null, "Your name"), this.name), h("label", null, h("span", null, "Level of the others"), this.level), this.seatRows),
      h(
        "section",
        { class: "panel new-panel new-extra" },
        h("label", null, h("span", null, "Seconds between moves"), this.pace),
        h("label", null, h("span", null, "Seconds for a decision"), this.clock),
        h("label", null, h("span", null, "Most help"), this.help),
      ),
      this.trouble.element,
      h("button", { type: "submit", class: "primary" }, "Start"),
    );
    this.choose(this.game.name);
  }

  // A game, with its table in small.
  gameCard({ name, title, picture }) {
    const table = h("div", { class: "table-top", "aria-hidden": "true", inert: true });
    const input = { type: "radio", name: "game", value: name, checked: name === this.game.name, onchange: () => this.choose(name) };
    const names = new Names([]); // Players by their numbers from 1.
    if (picture.scene)
      loadScene(picture.scene)
        .then((module) => drawScene(table, module, names.tree(picture.position), null, { ...picture, seats: names.tree(picture.seats) }, null))
        .catch(() => {}); // The form is complete without pictures.
    return h("label", { class: "game-card" }, h("input", input), h("span", { class: "game-picture" }, table), title);
  }

  choose(name) {
    this.game = this.form.games.find((game) => game.name === name);
    this.summary.textContent = this.game.summary.replace(/^./, (letter) => letter.toUpperCase());
    this.guided.hidden = !this.game.has_first_game;
    const levels = this.levels();
    // A bot that is both fair and strong is the level fair.
    const chosen = levels.some(([level]) => level === this.level.value) ? this.level.value : "level:fair";
    fill(this.level, options(levels, chosen));
    this.fields = new Map();
    this.seats = [];
    // The number of players and the variant are what people change; the rest is folded.
    const common = this.game.options.filter((option) => ["players", "variant"].includes(option.name));
    const rare = this.game.options.filter((option) => !common.includes(option));
    fill(
      this.options,
      common.map((option) => this.field(option)),
      rare.length
        ? h("details", null, h("summary", null, "More options"), rare.map((option) => this.field(option)))
        : null,
    );
    this.drawSeats();
  }

  field(option) {
    const control = option.choices ? choiceOf(option) : inputOf(option);
    this.fields.set(option.name, control);
    if (option.name === "players") control.addEventListener("input", () => this.drawSeats());
    const label = h("span", null, sentenceCase(option.name));
    return h("label", { title: option.description }, label, control);
  }

  get players() {
    const field = this.fields.get("players");
    const count = field ? Number(field.value) : this.game.players;
    return Number.isInteger(count) && count > 0 && count <= 64 ? count : this.game.players;
  }

  // Pairs of a SPEC and words: "fair (Detective)". A bot that plays at two levels is there once.
  levels() {
    const levels = Object.entries(this.game.levels);
    return [...new Set(Object.values(this.game.levels))].map((bot) => {
      const same = levels.filter(([, each]) => each === bot).map(([level]) => level);
      const name = describe(bot.replace(/^bot:/, ""));
      const shown = bot === "bot:easy" ? "one move in four is random" : `${name[0].toUpperCase()}${name.slice(1)}`;
      const words = `${same.join(" and ")} (${shown})`;
      return [`level:${same.includes("fair") ? "fair" : same[0]}`, words];
    });
  }

  // All seats that a bot has by its level.
  setLevel() {
    for (const select of this.seats)
      if (select.value.startsWith("level:")) select.value = this.level.value;
  }

  drawSeats() {
    const before = this.seats.map((select) => select.value);
    this.seats = Array.from({ length: this.players }, (_, seat) => {
      const value = before[seat] ?? (seat === 0 ? HUMAN : this.level.value);
      const person = seat === 0 ? "you" : "a person, by link";
      const atLevels = Object.values(this.game.levels);
      const bots = this.game.bots.filter((spec) => !atLevels.includes(spec));
      const named = [...bots, ...this.form.models].map((spec) => [spec, spec]);
      const choices = options([[HUMAN, person], ...this.levels()], value);
      const others = h("optgroup", { label: "By name" }, options(named, value));
      return h("select", { "aria-label": `Seat ${seat + 1}` }, choices, others);
    });
    fill(
      this.seatRows,
      this.seats.map((select, seat) => h("li", null, h("span", null, `Seat ${seat + 1}`), select)),
    );
  }

  body() {
    const chosen = {};
    for (const { name, default: usual } of this.game.options) {
      const control = this.fields.get(name);
      const value = control.value === "" ? usual : convert(control.value, usual);
      if (value !== usual) chosen[name] = value;
    }
    return {
      game: this.game.name,
      options: chosen,
      seats: this.seats.map((select) => select.value),
      pace: Number(this.pace.value),
      clock: this.clock.value === "" ? null : Number(this.clock.value),
      help: this.help.value,
    };
  }

  submit(event) {
    event.preventDefault();
    this.start(this.body());
  }

  async start(body) {
    this.trouble.show("");
    rememberName(this.name.value.trim());
    try {
      this.made(await post("/api/play/games", body));
    } catch (error) {
      this.trouble.show(error.message);
    }
  }

  // One person starts at once; several get their links first.
  made({ seats, spectators }) {
    const tokens = Object.entries(seats);
    if (tokens.length === 1) {
      location.hash = tokens[0][1];
      return;
    }
    const isLocal = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
    const remote = isLocal
      ? h("p", { class: "muted" }, "These links work on this machine only. For others in your network, start with ", h("code", null, "arena play --web --host 0.0.0.0"), ".")
      : null;
    const rows = [...tokens.map(([seat, token]) => [`Seat ${Number(seat) + 1}`, token]), ["To watch", spectators]];
    fill(
      this.links,
      h("h2", null, "Send each person one link"),
      h("p", { class: "muted" }, "The game starts when all of them are open. Open your own in another tab."),
      remote,
      h(
        "dl",
        null,
        rows.map(([name, token]) => {
          const address = `${location.origin}/play#${token}`;
          const field = h("input", { type: "text", readonly: true, value: address, "aria-label": name, onfocus: (event) => event.target.select() });
          const open = button("Open", () => window.open(`/play#${token}`, "_blank", "noopener"));
          return [h("dt", null, name), h("dd", null, field, open)];
        }),
      ),
    );
    this.links.hidden = false;
    this.links.scrollIntoView();
    this.links.querySelector("input").focus();
  }
}

function choiceOf(option) {
  const pairs = option.choices.map((choice) => [String(choice), describe(choice)]);
  return h("select", null, options(pairs, String(option.default)));
}

function inputOf(option) {
  const isNumber = typeof option.default === "number";
  return h("input", {
    type: isNumber ? "number" : "text",
    min: option.low,
    max: option.high,
    value: option.default === null ? "" : option.default,
  });
}

function describe(choice) {
  return choice === true ? "yes" : choice === false ? "no" : String(choice).replaceAll("_", " ");
}

function sentenceCase(name) {
  const words = describe(name);
  return words[0].toUpperCase() + words.slice(1);
}

// Values of options have the type of their default, or are words: "statements".
function convert(text, usual) {
  if (typeof usual === "boolean") return { true: true, false: false }[text] ?? text;
  return typeof usual === "number" && text !== "" && !isNaN(text) ? Number(text) : text;
}
