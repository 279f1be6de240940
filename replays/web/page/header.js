// Header of a game: title, players, and the choice of the perspective.

import { h, spoken } from "./dom.js";
import { date } from "./format.js";
import { icon } from "./icons.js";
import { formerPlayers, seatClass, seatMark } from "./seats.js";

export function drawHeader(page, share) {
  const { game, notice } = page.timeline;
  return h(
    "header",
    { class: "game-head" },
    h(
      "div",
      { class: "title" },
      h("h1", null, game.title),
      h(
        "p",
        { class: "facts" },
        facts(game).map((fact) => h("span", null, fact)),
      ),
    ),
    share,
    notice ? h("p", { class: "notice" }, icon("mistake"), " ", notice) : null,
    game.branches.map((branch) => drawBranch(page, branch)),
    drawPerspectives(page),
  );
}

function facts(game) {
  const seed = game.seed === undefined ? null : `seed ${game.seed}`;
  return [date(game.created), `text level: ${game.text_level}`, seed].filter(Boolean);
}

// The name of the other file often contains the seed, which determines the deal. Only a page with
// everything open shows it, with a link if that file is served as well.
function drawBranch(page, branch) {
  const notice = (...parts) => h("p", { class: "notice" }, icon("branch"), " ", ...parts);
  if (page.seat !== null) return notice(`Branched off another game at position ${branch.ply}.`);
  return notice(`Branched off at position ${branch.ply} of `, h("bdi", null, branch.parent));
}

function drawPerspectives(page) {
  const { game } = page.timeline;
  const seats = game.seats.map((name, seat) =>
    choice(page, seat, [seatMark(seat), h("bdi", null, name)], game.specs[seat]),
  );
  return h(
    "fieldset",
    { class: "perspectives" },
    h("legend", { class: "sr" }, "Perspective"),
    page.source.offers(null)
      ? choice(page, null, ["Everything open"], "nothing is hidden")
      : null,
    seats,
  );
}

function choice(page, seat, name, detail) {
  const offered = page.source.offers(seat);
  const id = `view-${seat ?? "open"}`;
  const former = seat === null ? [] : formerPlayers(page.timeline.game, seat);
  const input = h("input", {
    type: "radio",
    name: "perspective",
    id,
    checked: seat === page.seat,
    disabled: !offered,
    onchange: () => page.setPerspective(seat),
  });
  return h(
    "label",
    {
      class: seat === null ? "choice" : `choice ${seatClass(seat)}`,
      for: id,
      title: seat === null ? null : detail,
    },
    input,
    h(
      "span",
      { class: "who" },
      seat === null ? null : spoken("View of "),
      name,
    ),
    h("span", { class: "spec" }, h("bdi", null, detail)),
    former.map(({ spec, ply }) =>
      h("span", { class: "spec" }, "was ", h("bdi", null, spec), ` until ply ${ply}`),
    ),
  );
}
