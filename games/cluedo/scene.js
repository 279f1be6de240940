// The table of Cluedo: the board with the seats beside it or, without a board, the seats around the
// envelope. All information in shapes is available as text too: figures have a label.
//
// The content security policy of the page forbids style attributes. Figures use presentation
// attributes, and the text around them uses a style sheet that this script creates. Tests compare
// BOARD with `board.py` and MISTAKE with `comments.py`.

// The hidden information, as the page names it: "bits left about …".
export const HIDDEN = "the envelope";

// Explanation of the marks on the slider.
export const MISTAKE =
  "a question with less than half the expected bits of the best one, and at least 0.2 bits less; " +
  "a shown card that gave at least 0.2 bits more than another one; an accusation of an impossible " +
  "envelope, or before it pays; a turn that ended without an accusation although the case was " +
  "certain.";

export const BOARD = {
  map: `
SSSSSS#.#HHHHHH#1#LLLLLL
SSSSSSS..HHHHHH..LLLLLLL
SSSSSSS..HHHHHH..LLLLLLL
SSSSSSS..HHHHHH..LLLLLLL
#........HHHHHH..LLLLLLL
6........HHHHHH..LLLLLLL
#IIIII...HHHHHH........#
IIIIIII................2
IIIIIII..#####.........#
IIIIIII..#####..DDDDDDDD
#IIIII...#####..DDDDDDDD
#........#####..DDDDDDDD
BBBBBB...#####..DDDDDDDD
BBBBBB...#####..DDDDDDDD
BBBBBB...#####..DDDDDDDD
BBBBBB.............DDDDD
BBBBBB.................#
#.......AAAAAAAA........
5.......AAAAAAAA..KKKKK#
#CCCC...AAAAAAAA..KKKKKK
CCCCCC..AAAAAAAA..KKKKKK
CCCCCC..AAAAAAAA..KKKKKK
CCCCCC..AAAAAAAA..KKKKKK
CCCCCC#...AAAA...#KKKKKK
#########4####3#########
`.trim().split("\n"),
  letters: {
    Kitchen: "K", Ballroom: "A", Conservatory: "C", "Billiard Room": "B", Library: "I",
    Study: "S", Hall: "H", Lounge: "L", "Dining Room": "D",
  },
  passages: { Study: "Kitchen", Kitchen: "Study", Conservatory: "Lounge", Lounge: "Conservatory" },
  doors: {
    Study: [[4, 6]],
    Hall: [[4, 8], [7, 11], [7, 12]],
    Lounge: [[6, 17]],
    Library: [[8, 7], [11, 3]],
    "Billiard Room": [[11, 1], [15, 6]],
    Conservatory: [[19, 5]],
    Ballroom: [[19, 7], [16, 9], [16, 14], [19, 16]],
    Kitchen: [[17, 19]],
    "Dining Room": [[8, 17], [12, 15]],
  },
};
const COLUMNS = 24;
const UNIT = 24; // The side of a square.

const FLOORS = {
  Kitchen: "#dde2da", Ballroom: "#e5d5be", Conservatory: "#d3ddc6", "Billiard Room": "#c9d8cf",
  Library: "#dccab6", Study: "#d5cfc0", Hall: "#e1d8c5", Lounge: "#dfc9c4",
  "Dining Room": "#dad1de",
};
const INK = "#22201d";
const WALL = "#4a3a2c";
const MARKED = "#f0e442";
// The palette of Okabe and Ito, with a readable ink for each colour.
const PAWNS = [
  { fill: "#d55e00", ink: "#000000" },
  { fill: "#e69f00", ink: "#000000" },
  { fill: "#ffffff", ink: "#000000" },
  { fill: "#009e73", ink: "#000000" },
  { fill: "#0072b2", ink: "#ffffff" },
  { fill: "#cc79a7", ink: "#000000" },
];
const FONT = "system-ui, sans-serif";

// Paths in the order of the deck, in a box of 24 by 24.
const WEAPONS = [
  "M12 2c2.6 2.8 2.6 4.8 0 6c-2.6-1.2-2.6-3.2 0-6zM10 9.5h4v8h3v3.5h-10v-3.5h3z",
  "M20.5 3.5l-1.2 5l-7 7l-3.8-3.8l7-7zM6.5 11.5l6 6l-1.5 1.5l-2.2-2.2l-4 4l-1.6-1.6l4-4l-2.2-2.2z",
  "M3 20v-9q0-6 6-6h9v-1.5h3v7.5h-3v-1.5h-8q-2.5 0-2.5 2.5v8h1.5v2h-7.5v-2z",
  "M2.5 6h18.5v4.5h-8.5q-.5 3.5-3.5 3.5h-1l-1.5 6h-4.5l2.5-9.5h-2z",
  "M12 3a8 5 0 1 0 .01 0zm0 3a4.5 2.2 0 1 1-.01 0zM4.5 12a8 5 0 0 0 14 2q1 3-.5 7h2.8q2-6 .2-11q-7 6-16.5 2z",
  "M21 7.5l-3.6 1.8l-2.7-2.7l1.8-3.6a5.5 5.5 0 0 0-6.5 7.4l-7 7l3.6 3.6l7-7a5.5 5.5 0 0 0 7.4-6.5z",
];
const WEAPON_SIGN = "M12 2l8 10l-8 10l-8-10zM12 7l-4 5l4 5l4-5z";
const ROOM_SIGN =
  "M5 22v-19.5h14v19.5h-3v-16.5h-8v16.5zM10 22v-14.5l5 2v14zM12.8 15a1 1 0 1 0 .01 0z";

const STYLE = `
.cluedo { container-type: inline-size; font: 14px/1.35 ${FONT}; }
.cluedo :is(ul, p) { list-style: none; margin: 0; padding: 0; }
.cluedo-table { display: grid; gap: 10px; grid-template-columns: minmax(0, 1fr); }
.cluedo-board { display: block; width: 100%; height: auto; max-height: var(--board-height, 80vh); }
.cluedo-side { display: grid; gap: 8px; align-content: start; min-width: 0; }
.cluedo-seats { display: grid; gap: 8px; grid-template-columns: repeat(2, minmax(0, 1fr)); }
.cluedo-seats > :last-child:nth-child(odd) { grid-column: 1 / -1; }
.cluedo-seat { background: #214538; border: 2px solid #4d7a6a; border-radius: 9px;
  padding: 5px 7px 6px; min-width: 0; box-shadow: inset 5px 0 0 var(--pawn, transparent);
  padding-left: 12px; }
.cluedo-seat.cluedo-turn { border-color: ${MARKED}; }
.cluedo-seat.cluedo-out { border-style: dashed; background: #2b3b35; }
.cluedo-name { display: flex; flex-wrap: wrap; gap: 0 5px; align-items: center; font-weight: 600;
  white-space: nowrap; }
.cluedo-name .cluedo-small { font-weight: 400; min-width: 0; max-width: 100%; flex: 1 1 auto; }
.cluedo :is(.cluedo-name, .cluedo-pile, .cluedo-backs, .cluedo-card) svg { flex: none; }
.cluedo-badge { border-radius: 9px; padding: 0 7px; font-size: 12px; background: #e3ded2;
  color: ${INK}; }
.cluedo-badge.cluedo-turn { background: ${MARKED}; }
.cluedo-small { font-size: 12px; color: #e3efe9; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.cluedo .cluedo-legend { white-space: normal; max-width: 340px; }
.cluedo .cluedo-hand { display: flex; flex-wrap: wrap; gap: 3px; margin-top: 4px; }
.cluedo-card { display: inline-flex; align-items: center; gap: 3px; background: #fbf6ea;
  color: ${INK}; border-radius: 4px; padding: 1px 6px 1px 3px; font-size: 12.5px; max-width: 100%; }
.cluedo-card.cluedo-named { background: ${MARKED}; }
.cluedo-backs { display: inline-flex; align-items: center; gap: 5px; font-size: 12.5px; }
.cluedo-call { background: #1d332b; border-radius: 9px; padding: 7px 9px 9px; }
.cluedo .cluedo-three { display: flex; gap: 7px; margin: 8px 0; }
.cluedo-three li { flex: 1 1 0; max-width: 100px; min-width: 0; background: #fbf6ea; color: ${INK};
  border-radius: 7px; padding: 8px 3px; text-align: center; font-size: 12.5px; line-height: 1.15;
  display: flex; flex-direction: column; align-items: center; gap: 4px; }
.cluedo-three li.cluedo-shown { outline: 3px solid ${MARKED}; outline-offset: 1px; }
.cluedo-centre { display: flex; flex-wrap: wrap; gap: 10px 16px; align-items: center;
  justify-content: center; padding: 4px 0; }
.cluedo-centre .cluedo-call { flex: 0 1 320px; }
.cluedo-pile { display: flex; gap: 8px; align-items: center; }
.cluedo-deck { display: grid; gap: 6px; min-width: 0; }
.cluedo-kind { display: flex; flex-wrap: wrap; gap: 5px; }
.cluedo-deck .cluedo-seen:not(.picked) { opacity: .62; }
.cluedo-around .cluedo-deck { flex: 1 1 100%; }
.cluedo-around .cluedo-kind { justify-content: center; }
.cluedo-around .cluedo-deck .cluedo-card { flex: 1 1 10cqw; min-width: 62px;
  max-width: clamp(62px, 14cqw, 150px); flex-direction: column; justify-content: center;
  gap: 4px; min-height: clamp(56px, 11cqw, 112px); padding: 4px 2px; text-align: center;
  line-height: 1.15; border-radius: 8px; font-size: clamp(11px, 1.6cqw, 14px); }
.cluedo-around .cluedo-deck svg { width: clamp(22px, 4.6cqw, 44px); height: auto; }
@container (max-width: 449px) {
  .cluedo-name { flex-wrap: wrap; }
}
@container (min-width: 450px) {
  /* The board is nearly square; the rest of the width is for the cards beside it. */
  .cluedo-with-board { grid-template-columns:
    minmax(0, min(100% - 200px, var(--board-height, 80vh) * .961)) minmax(190px, 1fr); }
  .cluedo-with-board > .cluedo-seats { grid-column: 1 / -1; }
}
/* Beside a small board: little pictures, so that the hands below stay in view. */
@container (min-width: 450px) and (max-width: 640px) {
  .cluedo-with-board .cluedo-side { gap: 5px; font-size: 13px; }
  .cluedo-with-board .cluedo-pile > svg { display: none; }
  .cluedo-with-board .cluedo-three svg { width: 24px; height: 24px; }
}
@container (min-width: 450px) and (max-width: 559px) {
  .cluedo-with-board .cluedo-three { margin: 4px 0; gap: 5px; }
  .cluedo-with-board .cluedo-three li { padding: 4px 2px; gap: 2px; font-size: 12px; }
}
@container (min-width: 560px) {
  .cluedo-with-board .cluedo-three { flex-direction: column; gap: 5px; }
  .cluedo-with-board .cluedo-three li { flex-direction: row; max-width: none; padding: 3px 6px; }
  .cluedo-seats.cluedo-wide { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  .cluedo-seats.cluedo-wide > :last-child { grid-column: auto; }
}
@container (min-width: 940px) {
  .cluedo-with-board { grid-template:
    auto 1fr / minmax(0, min(620px, var(--board-height, 80vh) * .961)) minmax(0, 1fr); }
  .cluedo-board { grid-row: 1 / 3; }
  .cluedo-with-board .cluedo-three { flex-direction: row; }
  .cluedo-with-board .cluedo-three li { flex-direction: column; max-width: 100px;
    padding: 8px 3px; }
  .cluedo-with-board > .cluedo-seats { grid-column: 2; align-content: start;
    grid-template-columns: repeat(2, minmax(0, 1fr)); }
}`;
let sheet = null;

function addStyleSheet() {
  if (sheet) return;
  sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

// Names and seen cards

// The first letters of each suspect's last name, up to three, enough to be unique: S, M, W, G, Pe.
function initials(suspects) {
  const names = suspects.map((suspect) => suspect.split(" ").at(-1));
  return names.map((name) => {
    const alike = (length) => names.filter((other) => other.startsWith(name.slice(0, length)));
    return name.slice(0, [1, 2].find((length) => alike(length).length === 1) ?? 3);
  });
}

// The cards that a seat or the envelope has (sign X) or lacks (sign -), as far as the viewer saw.
function cardsWith(scene, holder, sign) {
  return scene.deck.flat().filter((_, row) => scene.marks[row][holder] === sign);
}

// The cards of the latest accusation, or else those of this turn's suggestion.
function namedCards({ accusation, suggestion }) {
  return (accusation ?? suggestion)?.cards ?? [];
}

function placeInWords(place) {
  if (typeof place === "string") return `in the ${place}`;
  return `in the corridor, row ${Math.floor(place / COLUMNS) + 1}, column ${(place % COLUMNS) + 1}`;
}

// Signs of cards

function pawn({ s }, suspects, suspect, attributes = {}) {
  const { fill, ink } = PAWNS[suspect % PAWNS.length];
  const letters = initials(suspects)[suspect];
  return s("g", attributes,
    s("path", {
      d: "M-13 15.5Q-12 2 -5 -2L5 -2Q12 2 13 15.5Q0 19 -13 15.5Z", fill, stroke: INK,
      "stroke-width": 1.8, "stroke-linejoin": "round",
    }),
    s("circle", { cy: -7.5, r: 7, fill, stroke: INK, "stroke-width": 1.8 }),
    s("text", {
      y: 13, "font-size": [14, 12, 9][letters.length - 1], "font-weight": 700, "font-family": FONT,
      "text-anchor": "middle", fill: ink,
    }, letters),
  );
}

function sign(context, scene, card, size) {
  const { s } = context;
  const [suspects, weapons] = scene.deck;
  const box = { width: size, height: size, "aria-hidden": "true" };
  if (suspects.includes(card)) {
    const figure = pawn(context, suspects, suspects.indexOf(card));
    return s("svg", { ...box, viewBox: "-18 -17 36 36" }, figure);
  }
  const weapon = weapons.indexOf(card);
  // Invented weapons have no shape of their own.
  const shape = weapons[0] === "Candlestick" ? WEAPONS[weapon] : WEAPON_SIGN;
  const d = weapon < 0 ? ROOM_SIGN : shape;
  const fill = weapon < 0 ? "#7a4a1e" : "#3c4650";
  return s("svg", { ...box, viewBox: "0 0 24 24" }, s("path", { d, fill, "fill-rule": "evenodd" }));
}

function backs({ s }, count) {
  const lefts = Array.from({ length: Math.min(count, 6) }, (_, number) => 7 * number);
  const back = (left) => s("g", { transform: `translate(${left} 0)` },
    s("rect", {
      x: 1, y: 1, width: 13, height: 18, rx: 2.5, fill: "#24507a", stroke: "#ffffff",
      "stroke-width": 1.6,
    }),
    s("path", { d: "M7.5 5l3 5l-3 5l-3-5z", fill: "#a9c4dd" }),
  );
  const size = { width: 15 + lefts.at(-1), height: 20, "aria-hidden": "true" };
  return s("svg", size, ...lefts.map(back));
}

function envelope({ s }, known, width) {
  return s("svg", { viewBox: "0 0 64 44", width, height: (width * 44) / 64, "aria-hidden": "true" },
    ...envelopeShapes(s, known));
}

function envelopeShapes(s, known) {
  return [
    s("rect", { x: 1, y: 1, width: 62, height: 42, rx: 4, fill: "#efe2c0", stroke: INK }),
    s("path", { d: "M2 3L32 25L62 3", fill: "none", stroke: INK, "stroke-width": 1.5 }),
    s("circle", { cx: 32, cy: 24, r: 10, fill: known ? MARKED : "#a03020", stroke: INK }),
    // Open or sealed; deductions are shown by the grid of the page, not here.
    s("path", {
      d: known ? "M27 24.5l3.5 3.5l6.5 -7.5" : "M27 21h10M27 24h10M27 27h10", fill: "none",
      stroke: known ? INK : "#e9b4a8", "stroke-width": known ? 2.5 : 1.5,
    }),
  ];
}

// The board

const squareAt = (row, column) => BOARD.map[row]?.[column] ?? "#";

const ROOMS = Object.fromEntries(Object.entries(BOARD.letters).map(([room, letter]) => {
  const squares = [];
  BOARD.map.forEach((line, row) => [...line].forEach((character, column) => {
    if (character === letter) squares.push([row, column]);
  }));
  return [room, { letter, squares, doors: BOARD.doors[room].map((door) => doorOf(letter, door)) }];
}));

// The step from the square outside a door into the room.
function doorOf(letter, [row, column]) {
  const steps = [[1, 0], [-1, 0], [0, 1], [0, -1]];
  const step = steps.find(([down, right]) => squareAt(row + down, column + right) === letter);
  return { row, column, down: step[0], right: step[1] };
}

// Positions of the name, the weapons and the pawns of a room.
function middleOf(room) {
  const { squares } = ROOMS[room];
  const columns = squares.map(([, column]) => column);
  const [left, right] = [Math.min(...columns), Math.max(...columns) + 1];
  const top = squares[0][0];
  const height = squares.at(-1)[0] + 1 - top;
  const narrow = squares.filter(([row]) => row === top).length < 5;
  return {
    x: ((left + right) / 2) * UNIT, width: (right - left) * UNIT,
    name: top * UNIT + (narrow ? 42 : 21), weapons: top * UNIT + (narrow ? 64 : 46),
    pawns: top * UNIT + Math.min(height * UNIT, 124) - 24,
  };
}

const unitSquare = ([row, column]) => `M${column * UNIT} ${row * UNIT}h${UNIT}v${UNIT}h-${UNIT}z`;

// The edges between a room's squares and all others.
function walls({ letter, squares }) {
  const edges = [];
  for (const [row, column] of squares) {
    const [x, y] = [column * UNIT, row * UNIT];
    if (squareAt(row - 1, column) !== letter) edges.push(`M${x} ${y}h${UNIT}`);
    if (squareAt(row + 1, column) !== letter) edges.push(`M${x} ${y + UNIT}h${UNIT}`);
    if (squareAt(row, column - 1) !== letter) edges.push(`M${x} ${y}v${UNIT}`);
    if (squareAt(row, column + 1) !== letter) edges.push(`M${x + UNIT} ${y}v${UNIT}`);
  }
  return edges.join("");
}

function door(s, { row, column, down, right }, floor) {
  const x = (column + 0.5 + right / 2) * UNIT;
  const y = (row + 0.5 + down / 2) * UNIT;
  const turned = { "1,0": 0, "0,-1": 90, "-1,0": 180, "0,1": 270 }[`${down},${right}`];
  return s("g", { transform: `translate(${x} ${y}) rotate(${turned})` },
    s("path", { d: "M-9 0h18", stroke: floor, "stroke-width": 5 }),
    s("path", { d: "M-10 -3v6M10 -3v6", stroke: WALL, "stroke-width": 2.5 }),
    s("path", { d: "M-5 -10l5 5l5 -5", fill: "none", stroke: "#8a7440", "stroke-width": 2 }),
  );
}

function corridors(s) {
  const squares = [];
  BOARD.map.forEach((line, row) => [...line].forEach((character, column) => {
    if (".123456".includes(character)) squares.push([row, column]);
  }));
  return s("path", {
    d: squares.map(unitSquare).join(""), fill: "#f1e6c8", stroke: "#d3c397", "stroke-width": 1,
  });
}

function starts(s) {
  return BOARD.map.flatMap((line, row) => [...line].flatMap((character, column) => (
    "123456".includes(character) ? [7, 4].map((width) => s("circle", {
      cx: (column + 0.5) * UNIT, cy: (row + 0.5) * UNIT, r: 7.5, fill: "none",
      "stroke-width": width, stroke: width > 4 ? INK : PAWNS[Number(character) - 1].fill,
    })) : [])));
}

// A trapdoor in the outer corner of the room.
function passage(s, room) {
  const { squares } = ROOMS[room];
  const outer = ([row, column]) => Math.abs(row - 12) + Math.abs(column - 11.5);
  const [row, column] = squares.reduce((far, next) => (outer(next) > outer(far) ? next : far));
  return s("g", { transform: `translate(${column * UNIT + 3} ${row * UNIT + 3})` },
    s("title", {}, `secret passage to the ${BOARD.passages[room]}`),
    s("rect", { width: 18, height: 18, rx: 2, fill: "#3a3129" }),
    s("path", { d: "M3 15h4v-4h4v-4h4v-4", fill: "none", stroke: "#e9d9a6", "stroke-width": 2 }),
  );
}

// The squares and rooms that the throw reaches.
function reached(s, scene) {
  const squares = (scene.reach?.squares ?? []).map((place) => unitSquare([Math.floor(place / COLUMNS), place % COLUMNS]));
  const rooms = (scene.reach?.rooms ?? []).map((room) => walls(ROOMS[room]));
  const light = (d, look) => s("path", { d, "pointer-events": "none", ...look });
  return [
    light(squares.join(""), { fill: MARKED, opacity: 0.55, stroke: "#8a7d00", "stroke-width": 1 }),
    light(rooms.join(""), { fill: "none", stroke: INK, "stroke-width": 9, "stroke-linecap": "square" }),
    light(rooms.join(""), { fill: "none", stroke: MARKED, "stroke-width": 5, "stroke-linecap": "square" }),
  ];
}

function roomShape(s, room, named, isFar) {
  const { squares, doors } = ROOMS[room];
  return s("g", { "data-picks": room, ...(isFar ? { class: "far" } : {}) },
    s("path", { d: squares.map(unitSquare).join(""), fill: FLOORS[room], stroke: FLOORS[room] }),
    s("path", {
      d: walls(ROOMS[room]), fill: "none", stroke: WALL, "stroke-width": named ? 7 : 3.5,
      "stroke-linecap": "square",
    }),
    ...(named ? [s("path", {
      d: walls(ROOMS[room]), fill: "none", stroke: MARKED, "stroke-width": 3,
    })] : []),
    ...doors.map((way) => door(s, way, FLOORS[room])),
    ...(BOARD.passages[room] ? [passage(s, room)] : []),
  );
}

function roomName(s, room) {
  const { x, name } = middleOf(room);
  return s("text", {
    x, y: name, "font-size": 16, "font-weight": 600, "font-family": "Georgia, serif",
    "text-anchor": "middle", fill: INK,
  }, room);
}

// Pawns in a room form a row.
function pawnSpots(pawns) {
  return pawns.map((place, suspect) => {
    if (typeof place === "number") {
      const row = Math.floor(place / COLUMNS);
      return { x: ((place % COLUMNS) + 0.5) * UNIT, y: (row + 0.5) * UNIT - 3 };
    }
    const guests = pawns.flatMap((other, number) => (other === place ? [number] : []));
    const { x, width, pawns: y } = middleOf(place);
    const step = Math.min(31, (width - 34) / Math.max(1, guests.length - 1));
    return { x: x + (guests.indexOf(suspect) - (guests.length - 1) / 2) * step, y };
  });
}

function weaponTokens({ s }, scene) {
  return scene.deck[1].flatMap((weapon, number) => {
    const room = scene.weapons[weapon];
    if (!room) return [];
    const there = scene.deck[1].filter((other) => scene.weapons[other] === room);
    const { x, weapons: y } = middleOf(room);
    const named = namedCards(scene).includes(weapon);
    const left = x + (there.indexOf(weapon) - (there.length - 1) / 2) * 25;
    return [s("g", { transform: `translate(${left} ${y})` },
      s("title", {}, weapon),
      s("circle", {
        r: 11.5, fill: named ? MARKED : "#fbf6ea", stroke: INK, "stroke-width": named ? 2.5 : 1,
      }),
      s("path", {
        d: WEAPONS[number], fill: "#3c4650", "fill-rule": "evenodd",
        transform: "translate(-8.5 -8.5) scale(0.71)",
      }),
    )];
  });
}

// A line from the place of a pawn one ply earlier; it is bent, so that it hides less.
function trail({ s }, start, end) {
  const bend = {
    x: (start.x + end.x - (end.y - start.y) / 3) / 2,
    y: (start.y + end.y + (end.x - start.x) / 3) / 2,
  };
  const line = {
    d: `M${start.x} ${start.y}Q${bend.x} ${bend.y} ${end.x} ${end.y}`, fill: "none",
    "stroke-linecap": "round",
  };
  const thin = { stroke: INK, "stroke-width": 1.5 };
  return s("g", {},
    s("circle", {
      cx: start.x, cy: start.y, r: 10, fill: "none", ...thin, "stroke-dasharray": "3 3",
    }),
    s("path", { ...line, stroke: "#fffdf6", "stroke-width": 6, opacity: 0.7 }),
    s("path", { ...line, stroke: INK, "stroke-width": 3, "stroke-dasharray": "1 7" }),
    s("circle", { cx: end.x, cy: end.y + 1, r: 21, fill: "#fffdf6", opacity: 0.9, ...thin }),
  );
}

function trails(context, scene, before) {
  if (!before?.pawns) return [];
  const [from, to] = [pawnSpots(before.pawns), pawnSpots(scene.pawns)];
  return scene.pawns.flatMap((place, suspect) => (
    place === before.pawns[suspect] ? [] : [trail(context, from[suspect], to[suspect])]));
}

function pawns(context, scene) {
  const { s } = context;
  const suspects = scene.deck[0];
  return pawnSpots(scene.pawns).map(({ x, y }, suspect) => {
    const named = namedCards(scene).includes(suspects[suspect]);
    const marked = named || suspect === scene.player;
    return s("g", { transform: `translate(${x} ${y})` },
      s("title", {}, suspects[suspect]),
      ...(marked ? [s("ellipse", {
        cy: 15, rx: 18, ry: 7, fill: MARKED, stroke: INK, "stroke-width": 1.5,
        ...(named ? { "stroke-dasharray": "3 2" } : {}),
      })] : []),
      pawn(context, suspects, suspect),
    );
  });
}

// The numbers of the visible spots among the nine of a die, row by row.
const PIPS = [[4], [0, 8], [0, 4, 8], [0, 2, 6, 8], [0, 2, 4, 6, 8], [0, 2, 3, 5, 6, 8]];

function die(s, x, y, number) {
  return s("g", { transform: `translate(${x} ${y})` },
    s("rect", { width: 36, height: 36, rx: 7, fill: "#fffdf6", stroke: INK }),
    ...PIPS[number - 1].map((spot) => s("circle", {
      cx: 9 + 9 * (spot % 3), cy: 9 + 9 * Math.floor(spot / 3), r: 3.3, fill: INK,
    })),
  );
}

// The stairs in the middle, with the envelope and the dice.
function stairs(s, scene, players) {
  const known = cardsWith(scene, players, "X").length > 0;
  const text = (y, words) => s("text", {
    x: 60, y, "font-size": 16, "font-family": FONT, "text-anchor": "middle", fill: "#ffffff",
  }, words);
  return s("g", { transform: `translate(${9 * UNIT} ${8 * UNIT})` },
    s("rect", { width: 120, height: 168, fill: "#33463f", stroke: WALL, "stroke-width": 3.5 }),
    s("rect", { x: 6, y: 6, width: 108, height: 156, fill: "none", stroke: "#6f8a7f" }),
    s("g", { transform: "translate(20 18) scale(1.25)" }, ...envelopeShapes(s, known)),
    ...(scene.dice ? [die(s, 19, 86, scene.dice[0]), die(s, 65, 86, scene.dice[1])] : []),
    text(148, scene.turn ? `turn ${scene.turn}` : "the deal"),
  );
}

function boardInWords(scene, before) {
  const [suspects, weapons] = scene.deck;
  const pawnWords = scene.pawns.map((place, number) => {
    const moved = before?.pawns && before.pawns[number] !== place;
    const from = moved ? ` (it was ${placeInWords(before.pawns[number])})` : "";
    return `${suspects[number]} is ${placeInWords(place)}${from}`;
  });
  const brought = weapons.filter((weapon) => scene.weapons[weapon])
    .map((weapon) => `the ${weapon} is in the ${scene.weapons[weapon]}`);
  const within = scene.reach?.rooms.length ? ` The throw reaches: ${scene.reach.rooms.join(", ")}.` : "";
  const dice = scene.dice ? ` The dice show ${scene.dice.join(" and ")}.${within}` : "";
  const weaponWords = brought.join("; ") || "no weapon is on the board";
  return `The board. ${pawnWords.join("; ")}. Weapons: ${weaponWords}.${dice}`;
}

function boardFigure(context, scene) {
  const { s, before, seats } = context;
  const named = namedCards(scene);
  const rooms = Object.keys(ROOMS);
  const isFar = (room) => Boolean(scene.reach) && !scene.reach.rooms.includes(room);
  return s("svg", {
      viewBox: "-8 -8 592 616", class: "cluedo-board", role: "img",
      "aria-label": boardInWords(scene, before),
    },
    s("rect", { x: -8, y: -8, width: 592, height: 616, rx: 10, fill: "#1d332b" }),
    corridors(s),
    ...starts(s),
    ...rooms.filter((room) => !named.includes(room)).map((room) => roomShape(s, room, false, isFar(room))),
    ...rooms.filter((room) => named.includes(room)).map((room) => roomShape(s, room, true, isFar(room))),
    stairs(s, scene, seats.length),
    ...reached(s, scene),
    ...trails(context, scene, before),
    ...rooms.map((room) => roomName(s, room)),
    ...weaponTokens(context, scene),
    ...pawns(context, scene),
  );
}

// The seats

function chip(context, scene, card) {
  const { h } = context;
  const named = namedCards(scene).includes(card) ? " cluedo-named" : "";
  return h("span", { class: `cluedo-card${named}`, "data-picks": card }, sign(context, scene, card, 17), card);
}

// Where people play, the cards to choose from; those that were seen in a hand are paler.
function deck(context, scene, kinds) {
  const { h, choose, seats } = context;
  if (!choose) return [];
  const seen = new Set(seats.flatMap((_, seat) => cardsWith(scene, seat, "X")));
  const rows = kinds.map((cards) => h("div", { class: "cluedo-kind" }, ...cards.map((card) => {
    const made = chip(context, scene, card);
    if (seen.has(card)) made.classList.add("cluedo-seen");
    return made;
  })));
  return [h("div", { class: "cluedo-deck", role: "group", "aria-label": "Cards" }, ...rows)];
}

function pile(context, scene, cards, ...more) {
  const chips = cards.map((card) => chip(context, scene, card));
  return context.h("div", { class: "cluedo-hand" }, ...chips, ...more);
}

function badges({ h }, scene, holder) {
  const words = [
    ...(scene.player === holder ? ["turn"] : []),
    ...(scene.out.includes(holder) ? ["out"] : []),
  ];
  return words.map((word) => h("span", {
    class: `cluedo-badge${word === "turn" ? " cluedo-turn" : ""}`,
  }, word));
}

// The unseen cards of a hand, and the number of cards that the hand is known to lack.
function unseen(context, scene, holder, seen) {
  const count = (scene.sizes[holder] ?? 0) - seen;
  if (count <= 0) return [];
  const lacks = cardsWith(scene, holder, "-").length - scene.open.length;
  const words = `${count} hidden${lacks ? `; ${lacks} ruled out` : ""}`;
  return [context.h("span", { class: "cluedo-backs" }, backs(context, count), words)];
}

function seatPanel(context, scene, holder) {
  const { h, seats, specs, choose } = context;
  const spec = choose ? "" : specs[holder]; // Of interest in a replay.
  const has = cardsWith(scene, holder, "X");
  const turn = scene.player === holder ? " cluedo-turn" : "";
  const out = scene.out.includes(holder) ? " cluedo-out" : "";
  const suspect = scene.pawns ? scene.deck[0][holder] : null;
  return h("li", { class: `cluedo-seat seat-${holder % 7}${turn}${out}` },
    h("div", { class: "cluedo-name" },
      ...(suspect ? [sign(context, scene, suspect, 22)] : []),
      h("span", {}, seats[holder]), ...badges(context, scene, holder),
      h("span", { class: "cluedo-small", title: spec ?? "" },
        [suspect, spec].filter(Boolean).join(" · "))),
    pile(context, scene, has, ...unseen(context, scene, holder, has.length)),
  );
}

function answers({ h, seats }, suggestion) {
  const { unable, refuter, shown } = suggestion;
  const lines = unable.map((seat) => `${seats[seat]} has none of them.`);
  if (refuter !== null) lines.push(`${seats[refuter]} shows ${shown ?? "a card"}.`);
  if (unable.length === seats.length - 1) lines.push("No player can refute it.");
  return h("ul", {}, ...lines.map((line) => h("li", {}, line)));
}

function three(context, scene, cards, shown) {
  const { h } = context;
  return h("ul", { class: "cluedo-three" }, ...cards.map((card) => h("li", {
    ...(shown.includes(card) ? { class: "cluedo-shown" } : {}),
  }, sign(context, scene, card, 34), card)));
}

// The accusation or the suggestion of this turn.
function call(context, scene) {
  const { h, seats } = context;
  const { accusation, suggestion } = scene;
  if (accusation) {
    const verdict = accusation.correct ? "It is right: the game is won." : "It is false: out.";
    return [h("div", { class: "cluedo-call" },
      h("strong", {}, `${seats[accusation.player]} accuses`),
      three(context, scene, accusation.cards, []), h("p", {}, verdict))];
  }
  if (!suggestion) return [];
  return [h("div", { class: "cluedo-call" },
    h("strong", {}, `${seats[suggestion.player]} suggests`),
    three(context, scene, suggestion.cards, [suggestion.shown]),
    answers(context, suggestion))];
}

function envelopePile(context, scene) {
  const { h, seats } = context;
  const known = cardsWith(scene, seats.length, "X");
  const excluded = cardsWith(scene, seats.length, "-").length;
  const words = known.length ? pile(context, scene, known)
    : h("div", {}, `3 hidden cards${excluded ? `; ${excluded} ruled out` : ""}`);
  return h("div", { class: "cluedo-pile" }, envelope(context, known.length > 0, 56),
    h("div", {}, h("strong", {}, "Envelope"), words));
}

function openPile(context, scene) {
  if (!scene.open.length) return [];
  const { h } = context;
  return [h("div", {}, h("strong", {}, "Open cards"), pile(context, scene, scene.open))];
}

function turnLine({ h, seats }, scene) {
  const whose = scene.player === null ? "" : `, ${seats[scene.player]}`;
  const dice = scene.dice ? `, dice ${scene.dice.join(" + ")}` : "";
  return h("p", {}, scene.turn ? `Turn ${scene.turn}${whose}${dice}` : "Before the deal");
}

// Cards may be face down here although the grid is certain of them.
function legend({ h, seats, seat }, scene) {
  if (seat === null || cardsWith(scene, seats.length, "X").length || !scene.turn) return [];
  return [h("p", { class: "cluedo-small cluedo-legend" },
    `Cards that ${seats[seat]} has seen. Deductions are shown in the grid. ` +
    "Ruled out: cards seen elsewhere, or cards that could not be shown.")];
}

function withBoard(context, scene) {
  const { h, seats } = context;
  const beside = scene.deck[1].filter((weapon) => !scene.weapons[weapon]);
  return h("div", { class: "cluedo-table cluedo-with-board" },
    boardFigure(context, scene),
    h("div", { class: "cluedo-side" },
      turnLine(context, scene), ...legend(context, scene), ...call(context, scene),
      envelopePile(context, scene), ...openPile(context, scene),
      ...deck(context, scene, scene.deck.slice(0, 2)),
      ...(beside.length ? [h("p", {}, `Beside the board: ${beside.join(", ")}`)] : []),
    ),
    h("ul", { class: `cluedo-seats${[3, 5, 6].includes(seats.length) ? " cluedo-wide" : ""}` },
      ...seats.map((_, seat) => seatPanel(context, scene, seat))),
  );
}

// Clockwise: the first half of the seats above, the others below from right to left.
function around(context, scene) {
  const { h, seats } = context;
  const numbers = seats.map((_, seat) => seat);
  const half = Math.ceil(seats.length / 2);
  const row = (chosen) => h("ul", { class: `cluedo-seats${half > 2 ? " cluedo-wide" : ""}` },
    ...chosen.map((seat) => seatPanel(context, scene, seat)));
  return h("div", { class: "cluedo-table cluedo-around" },
    row(numbers.slice(0, half)),
    h("div", { class: "cluedo-centre" },
      h("div", { class: "cluedo-side" },
        turnLine(context, scene), ...legend(context, scene), envelopePile(context, scene),
        ...openPile(context, scene)),
      ...call(context, scene), ...deck(context, scene, scene.deck)),
    row(numbers.slice(half).reverse()),
  );
}

export function draw(scene, context) {
  addStyleSheet();
  const table = scene.pawns ? withBoard(context, scene) : around(context, scene);
  return context.h("div", { class: "cluedo", role: "group", "aria-label": "The table" }, table);
}
