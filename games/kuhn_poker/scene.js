// The table of Kuhn poker: two cards, the chips of each player in the pot, the moves so far.

const INK = "#ffffff";

const words = (scene, seats) => scene.moves.map((move, number) => {
  const facing = scene.moves[number - 1] === "bet";
  const verb = move === "bet" ? (facing ? "calls" : "bets") : (facing ? "folds" : "passes");
  return `${seats[number % 2]} ${verb}`;
});

function text(s, x, y, size, content, more = {}) {
  return s("text", {
    x, y, "font-size": size, fill: INK, "text-anchor": "middle",
    "font-family": "system-ui, sans-serif", ...more,
  }, content);
}

function faceUp(s, card, winner) {
  return s("g", {},
    s("rect", {
      width: 90, height: 126, rx: 9, fill: "#fffdf6",
      stroke: winner ? "#f0e442" : "#20352c", "stroke-width": winner ? 6 : 1.5,
    }),
    text(s, 45, 74, 52, card[0], { fill: "#22201d", "font-family": "Georgia, serif" }),
    text(s, 45, 108, 17, card, { fill: "#22201d" }),
  );
}

function faceDown(s, winner) {
  return s("g", {},
    s("rect", {
      width: 90, height: 126, rx: 9, fill: "#24507a",
      stroke: winner ? "#f0e442" : "#fffdf6", "stroke-width": winner ? 6 : 3,
    }),
    s("path", {
      d: "M45 18L78 63L45 108L12 63ZM45 38L63 63L45 88L27 63Z", fill: "none", stroke: "#a9c4dd",
      "stroke-width": 3,
    }),
  );
}

function chip(s, x, y) {
  const shape = { cx: x, rx: 20, ry: 9 };
  return s("g", {},
    s("ellipse", { ...shape, cy: y + 6, fill: "#8a3700" }),
    s("ellipse", { ...shape, cy: y, fill: "#e69f00", stroke: "#fffdf6", "stroke-width": 2 }),
  );
}

function place(s, scene, seats, player) {
  const [left, pile] = player === 0 ? [40, 122] : [310, -32];
  const winner = scene.winner === player;
  const count = scene.chips[player];
  const card = scene.cards[player] ? faceUp(s, scene.cards[player], winner) : faceDown(s, winner);
  return s("g", { transform: `translate(${left} 58)` },
    text(s, 45, -20, 18, seats[player] + (winner ? " wins" : ""), { "font-weight": 600 }),
    ...(scene.dealt ? [card] : []),
    ...Array.from({ length: count }, (_, number) => chip(s, pile, 96 - 14 * number)),
    text(s, pile, 130, 15, `${count} in`),
  );
}

// The table as text, for readers who cannot see the figure.
function inWords(scene, seats) {
  const cards = scene.cards.map((card, player) => `${seats[player]}: ${card ?? "a card not seen"}`);
  const dealt = scene.dealt ? cards.join(", ") : "no cards dealt yet";
  const moves = words(scene, seats).join(", ") || "no move yet";
  const won = scene.winner === null ? "" : ` ${seats[scene.winner]} wins the pot.`;
  return `Kuhn poker. ${dealt}. Chips in the pot: ${scene.chips.join(" and ")}. ${moves}.${won}`;
}

export function draw(scene, { s, seats }) {
  return s("svg", {
      viewBox: "0 0 440 260", width: 560, height: 331, role: "img",
      "aria-label": inWords(scene, seats),
    },
    s("rect", { width: 440, height: 260, rx: 26, fill: "#20352c" }),
    s("rect", { x: 8, y: 8, width: 424, height: 244, rx: 20, fill: "#2d6350" }),
    place(s, scene, seats, 0),
    place(s, scene, seats, 1),
    text(s, 220, 82, 15, `pot: ${scene.chips[0] + scene.chips[1]}`),
    text(s, 220, 228, 17, words(scene, seats).join(" · ") || "no move yet"),
  );
}
