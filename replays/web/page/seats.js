// Marks of the seats. Seats differ by colour and also, for colour-blind users, by the shape of their
// mark and the dashes of their line.

import { h, s } from "./dom.js";

const SHAPES = [
  "M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9z",
  "M1.8 1.8h8.4v8.4H1.8z",
  "M6 1l5.2 9.4H.8z",
  "M6 .6L11.4 6L6 11.4L.6 6z",
  "M4.2 1h3.6v3.2H11v3.6H7.8V11H4.2V7.8H1V4.2h3.2z",
  "M6 11L.8 1.6h10.4z",
  "M3.4 1h5.2L11.4 6L8.6 11H3.4L.6 6z",
  "M6 .5l1.5 3.7 4 .3-3.1 2.6 1 3.9L6 8.9 2.6 11l1-3.9L.5 4.5l4-.3z",
  "M1.5 1h9L7 6l3.5 5h-9L5 6z",
  "M2.7 1L6 4.3 9.3 1 11 2.7 7.7 6 11 9.3 9.3 11 6 7.7 2.7 11 1 9.3 4.3 6 1 2.7z",
  "M1 3.8h10v4.4H1z",
  "M3.8 1h4.4v10H3.8z",
];
// As many as colours: with the shape they make 84 different marks.
const COLOURS = 7;

const DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "4 2", "12 3 2 2 2 3", "1 4", "15 4"];

export function seatShape(seat) {
  return SHAPES[seat % SHAPES.length];
}

export function seatDashes(seat) {
  return DASHES[seat % DASHES.length];
}

export function seatClass(seat) {
  return `seat-${seat % COLOURS}`;
}

export function seatMark(seat) {
  return s(
    "svg",
    { class: `mark ${seatClass(seat)}`, viewBox: "0 0 12 12", "aria-hidden": "true" },
    s("path", { d: seatShape(seat) }),
  );
}

export function seatName(game, seat) {
  return game.seats[seat] ?? (seat === -1 ? "Chance" : `Seat ${seat + 1}`);
}

export function seatLabel(game, seat) {
  return h("span", { class: "seat" }, seatMark(seat), h("bdi", null, seatName(game, seat)));
}

export function seatList(game, seats) {
  return seats.map((seat, at) => [at ? ", " : "", seatLabel(game, seat)]);
}

// Whether a player is a seat: not chance (-1), and not unknown (null).
export function isSeat(player) {
  return player !== null && player >= 0;
}

// The SPEC of a seat at the time a ply was played.
function playerAt(game, seat, ply) {
  let spec = game.specs[seat];
  for (const branch of [...game.branches].reverse()) {
    if (ply >= branch.ply) break;
    spec = branch.players?.[seat] ?? spec;
  }
  return spec;
}

// Earlier players of a seat, the latest first, each with the ply from which it was replaced.
export function formerPlayers(game, seat) {
  const former = [];
  let spec = game.specs[seat];
  const branchPlies = new Set(game.branches.map((branch) => branch.ply));
  for (const ply of [...branchPlies].sort((a, b) => b - a)) {
    const before = playerAt(game, seat, ply - 1);
    if (ply > 0 && before !== spec) former.push({ spec: before, ply });
    spec = before;
  }
  return former;
}
