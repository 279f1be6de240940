// The board of tic-tac-toe. Copy this file to draw a game of your own. `Scene` in arena/core/views/scene.py
// describes the interface.

const CELL = 100;
const COLOURS = ["#c85600", "#a47000"]; // Those of seats 0 and 1 on the page; the shapes differ too.

const middle = (square) => ({
  x: (square % 3) * CELL + CELL / 2,
  y: Math.floor(square / 3) * CELL + CELL / 2,
});

function cross(s, { x, y }) {
  return s("path", {
    d: `M${x - 26} ${y - 26}l52 52m0 -52l-52 52`,
    stroke: COLOURS[0], "stroke-width": 12, "stroke-linecap": "round",
  });
}

function nought(s, { x, y }) {
  return s("circle", { cx: x, cy: y, r: 28, fill: "none", stroke: COLOURS[1], "stroke-width": 12 });
}

function square(s, scene, number) {
  const { x, y } = middle(number);
  const marked = scene.squares[number];
  const background = s("rect", {
    x: x - 46, y: y - 46, width: 92, height: 92, rx: 12,
    fill: scene.line.includes(number) ? "#f7e9b0" : "#ffffff",
    stroke: number === scene.last ? "#222222" : "#b9b4a8",
    "stroke-width": number === scene.last ? 4 : 1.5,
  });
  const mark = marked === 0 ? cross(s, { x, y }) : nought(s, { x, y });
  const action = `mark ${Math.floor(number / 3) + 1} ${(number % 3) + 1}`;
  return s("g", { "data-action": action }, background, ...(marked === null ? [] : [mark]));
}

function winningLine(s, line) {
  const [from, to] = [middle(line[0]), middle(line[2])];
  return s("line", {
    x1: from.x, y1: from.y, x2: to.x, y2: to.y,
    stroke: "#222222", "stroke-width": 6, "stroke-linecap": "round", opacity: 0.75,
  });
}

// The position as text, row by row, for readers who cannot see the figure.
function inWords({ squares, last, line }) {
  const words = squares.map((player) => (player === null ? "empty" : "XO"[player]));
  const rows = [0, 3, 6].map((first) => words.slice(first, first + 3).join(", "));
  const place = last === null ? "" :
    ` Last marked: row ${Math.floor(last / 3) + 1}, column ${(last % 3) + 1}.`;
  const won = line.length ? ` ${words[line[0]]} has three in a row.` : "";
  return `Tic-tac-toe, row by row: ${rows.join("; ")}.${place}${won}`;
}

export function draw(scene, { s }) {
  const label = { role: "img", "aria-label": inWords(scene) };
  return s("svg", { viewBox: "-10 -10 320 320", width: 360, height: 360, ...label },
    s("rect", { x: -10, y: -10, width: 320, height: 320, rx: 20, fill: "#e8e3d6" }),
    ...scene.squares.map((_, number) => square(s, scene, number)),
    ...(scene.line.length ? [winningLine(s, scene.line)] : []),
  );
}
