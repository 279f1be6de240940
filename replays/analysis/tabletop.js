// Draws the description of a table (`Tabletop` in view.py) with its typed pieces. A piece with
// `data-picks` can be clicked where people play. Pieces that were not there one ply earlier are `fresh`.

const PIPS = {
  1: [[1, 1]],
  2: [[0, 0], [2, 2]],
  3: [[0, 0], [1, 1], [2, 2]],
  4: [[0, 0], [0, 2], [2, 0], [2, 2]],
  5: [[0, 0], [0, 2], [1, 1], [2, 0], [2, 2]],
  6: [[0, 0], [0, 2], [1, 0], [1, 2], [2, 0], [2, 2]],
};

// More new pieces than these are dealt rather than marked.
const MOST_FRESH = 6;

const list = (value) => value ?? [];

// What a click may choose, and the words for those who cannot see the piece.
function marks({ picks, title, label }) {
  const found = {};
  if (picks) found["data-picks"] = picks.join("|");
  if (title) found.title = title;
  if (title || label) found["data-label"] = title || label;
  return found;
}

function tile(context, piece) {
  const { h } = context;
  const tone = `tone-${piece.tone ?? "plain"}${piece.look ? ` look-${piece.look}` : ""}`;
  if (piece.kind === "card") return card(context, piece, tone);
  if (piece.kind === "die") return die(context, piece, tone);
  // A dot is an empty square in a text.
  const label = piece.label === "." ? [] : owner(context, { ...piece, name: piece.face ?? piece.label });
  const look = piece.seat === undefined ? "tile" : "tile of-seat";
  return h("span", { class: `${look} ${tone}`, ...marks(piece) }, ...label);
}

const keyOf = ({ label, tone, seat }) => JSON.stringify([label, tone, seat]);

// The drawn pieces of a row. Cards may have moved up, so a piece is fresh if the row had fewer like it.
function tiles(context, row, before) {
  const old = list(before?.tiles).map(keyOf);
  return list(row.tiles).map((piece) => {
    const drawn = tile(context, piece);
    const at = old.indexOf(keyOf(piece));
    if (at >= 0) old.splice(at, 1);
    else if (before && piece.label) drawn.classList.add("fresh");
    return drawn;
  });
}

function card({ h }, piece, tone) {
  const colour = piece.colour ? ` colour-${piece.colour}` : "";
  const corner = piece.symbol ? [h("span", { class: "card-symbol" }, piece.symbol)] : [];
  return h("span", { class: `card ${tone}${colour}`, ...marks(piece) },
    ...corner,
    h("span", { class: "card-face" }, piece.face ?? piece.label ?? ""),
    ...(piece.note ? [h("span", { class: "card-note" }, piece.note)] : []),
  );
}

function die({ h, s }, piece, tone) {
  const pips = PIPS[parseInt(piece.label, 10)];
  if (!pips) return h("span", { class: `die ${tone}`, ...marks(piece) }, piece.label ?? "");
  const dots = pips.map(([row, column]) => s("circle", { cx: 7 + 8 * column, cy: 7 + 8 * row, r: 2.6 }));
  const face = { viewBox: "0 0 30 30", role: "img", "aria-label": piece.title ?? piece.label };
  return h("span", { class: `die ${tone}`, ...marks(piece) }, s("svg", face, ...dots));
}

// A name of the game's, or that of the seat on this page.
function owner(context, { name, seat }) {
  if (seat === undefined) return name ? [name] : [];
  const mark = context.mark ? [context.mark(seat), " "] : [];
  return [...mark, context.h("bdi", {}, context.seats?.[seat] ?? name)];
}

// Dice that are all hidden are under a cup.
function cup({ h, s }, { tiles: dice }) {
  const words = `${dice.length} hidden ${dice.length === 1 ? "die" : "dice"}`;
  const look = { viewBox: "0 0 60 56", class: "cup", role: "img", "aria-label": words };
  const number = { x: 30, y: 36, "text-anchor": "middle", "font-size": 20, "font-weight": 700, fill: "#fff6dc" };
  return h("span", { title: words }, s("svg", look,
    s("path", { d: "M12 4h36l8 46q-26 8-52 0z", fill: "#6b3f1f", stroke: "#2b170a", "stroke-width": 2 }),
    s("path", { d: "M5.5 42q24 7 49 0M12 4q18 5 36 0", fill: "none", stroke: "#c99a5b", "stroke-width": 2.5 }),
    s("text", number, dice.length)));
}

function grid(context, panel, before) {
  const { h } = context;
  const head = ["", ...panel.columns].map((name) => h("th", { scope: "col" }, name));
  const body = list(panel.rows).map((row, at) =>
    h("tr", {},
      h("th", { scope: "row" }, ...owner(context, row)),
      ...tiles(context, row, before?.rows?.[at]).map((each) => h("td", {}, each)),
      ...(row.note ? [h("td", { class: "tile-note" }, row.note)] : []),
    ));
  return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body));
}

function row(context, each, before) {
  const { h } = context;
  const name = owner(context, each);
  const covered = each.tiles?.length && each.tiles.every(({ kind, tone }) => kind === "die" && tone === "hidden");
  const pieces = covered ? [cup(context, each)] : tiles(context, each, before);
  return h("div", { class: "tile-row" },
    ...(name.length ? [h("span", { class: "tile-name" }, ...name)] : []),
    h("span", { class: "tiles" }, ...pieces),
    ...(each.note ? [h("span", { class: "tile-note" }, each.note)] : []),
  );
}

function drawPanel(context, panel, before) {
  const { h } = context;
  const rows = list(panel.rows);
  const lines = list(panel.lines);
  return [
    ...(panel.columns ? [grid(context, panel, before)] : rows.map((each, at) => row(context, each, before?.rows?.[at]))),
    ...(panel.fixed_width
      ? [h("pre", {}, lines.join("\n"))]
      : lines.map((line) => h("p", {}, line))),
  ];
}

// Coordinates are at the top and at both sides.
function drawSquares(context, { rows, columns, legend, shape = "square" }, before) {
  const { h } = context;
  const side = (name) => h("span", { class: "square-name", "aria-hidden": "true" }, name ?? "");
  const names = [side(""), ...columns.map(side), side("")];
  const cells = rows.flatMap((each, row) => [
    side(each.name),
    ...each.tiles.map((piece, column) => {
      const cell = tile(context, piece);
      const old = before?.rows?.[row]?.tiles[column];
      cell.classList.add("square");
      cell.classList.toggle("odd", (row + column) % 2 === 1);
      cell.classList.toggle("of-own", String(piece.tone).startsWith("seat"));
      cell.classList.toggle("fresh", Boolean(old) && keyOf(piece) + piece.look !== keyOf(old) + old.look);
      return cell;
    }),
    side(each.name),
  ]);
  const style = { "--columns": columns.length, "--rows": rows.length };
  const meaning = list(legend).map(([mark, text]) => {
    const sample = tile(context, mark);
    sample.classList.add("square");
    return h("span", { class: "legend-mark" }, sample, ` ${text}`);
  });
  return [
    h("div", { class: `squares shape-${shape}${shape === "square" ? " paper" : ""}`, style }, ...names, ...cells),
    ...(meaning.length ? [h("p", { class: `squares-legend shape-${shape}` }, ...meaning)] : []),
  ];
}

function drawPlayers(context, { players, columns }, before) {
  const { h } = context;
  const seats = players.map((player, number) => {
    const old = before?.players[number];
    const drawn = tiles(context, player, old).map((each, at) => {
      const column = list(columns)[at] ?? "";
      return player.tiles[at].label
        ? h("span", { class: "player-tile" }, h("span", { class: "sr" }, `${column}: `), each)
        : "";
    });
    const isNew = old && player.bubble !== old.bubble;
    const look = `player seat-${player.seat % 7}${player.is_out ? " out" : ""}`;
    return h("div", { class: look, ...marks({ ...player, label: context.seats?.[player.seat] ?? player.name }) },
      h("span", { class: "player-name" }, ...owner(context, player)),
      h("span", { class: "player-tiles" }, ...drawn),
      ...(player.bubble ? [h("q", { class: isNew ? "bubble fresh" : "bubble" }, player.bubble)] : []),
    );
  });
  return [h("div", { class: "players" }, ...seats)];
}

function drawTracks(context, { tracks }) {
  const { h } = context;
  const drawn = tracks.map((track) => {
    const { value = 0, most, symbol, unit } = track;
    const end = most === undefined ? "" : ` of ${most}`;
    const number = `${value}${end}${unit ? ` ${unit}` : ""}`;
    const shown = symbol
      ? [
          h("span", { class: "track-symbols", "aria-hidden": "true" },
            symbol.repeat(value),
            h("span", { class: "spent" }, symbol.repeat(Math.max(0, (most ?? value) - value)))),
          h("span", { class: "sr" }, number),
        ]
      : [h("strong", {}, number)];
    return h("span", { class: "number-track", title: `${track.name}: ${number}` },
      h("span", { class: "track-name" }, ...owner(context, track)), ...shown);
  });
  return [h("div", { class: "tracks" }, ...drawn)];
}

const DRAW = { panel: drawPanel, display: drawPanel, squares: drawSquares, players: drawPlayers, tracks: drawTracks };

function drawPart(context, part) {
  const { h } = context;
  const title = part.title ? [h("h3", {}, part.title)] : [];
  const before = context.before?.parts.find(({ kind, title }) => kind === part.kind && title === part.title);
  return h("section", { class: `part part-${part.kind}` }, ...title, ...DRAW[part.kind](context, part, before));
}

export function draw(scene, context) {
  const { h } = context;
  // An offer is a control, which belongs to the actions.
  const parts = scene.parts.filter((part) => part.kind in DRAW);
  const drawn = h("div", { class: scene.side_by_side ? "tabletop beside" : "tabletop" },
    ...parts.map((part) => drawPart(context, part)),
    ...(scene.caption ? [h("p", { class: "table-caption" }, scene.caption)] : []),
  );
  // A deal changes everything, so that nothing is marked.
  const fresh = drawn.querySelectorAll(".fresh");
  if (fresh.length > MOST_FRESH) fresh.forEach((piece) => piece.classList.replace("fresh", "dealt"));
  return drawn;
}
