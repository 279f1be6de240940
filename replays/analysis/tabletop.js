// Draws the description of a table (`Tabletop` in tabletop.py): its typed pieces, see pieces.py. A
// piece with `data-picks` can be clicked where people play.

const PIPS = {
  1: [[1, 1]],
  2: [[0, 0], [2, 2]],
  3: [[0, 0], [1, 1], [2, 2]],
  4: [[0, 0], [0, 2], [2, 0], [2, 2]],
  5: [[0, 0], [0, 2], [1, 1], [2, 0], [2, 2]],
  6: [[0, 0], [0, 2], [1, 0], [1, 2], [2, 0], [2, 2]],
};

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
  const tone = `tone-${piece.tone ?? "plain"}`;
  if (piece.kind === "card") return card(context, piece, tone);
  if (piece.kind === "die") return die(context, piece, tone);
  // A dot is an empty square in a text.
  const label = piece.label === "." ? [] : owner(context, { ...piece, name: piece.face ?? piece.label });
  const look = piece.seat === undefined ? "tile" : "tile of-seat";
  return h("span", { class: `${look} ${tone}`, ...marks(piece) }, ...label);
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

function grid(context, panel) {
  const { h } = context;
  const head = ["", ...panel.columns].map((name) => h("th", { scope: "col" }, name));
  const body = list(panel.rows).map((row) =>
    h("tr", {},
      h("th", { scope: "row" }, ...owner(context, row)),
      ...list(row.tiles).map((each) => h("td", {}, tile(context, each))),
      ...(row.note ? [h("td", { class: "tile-note" }, row.note)] : []),
    ));
  return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body));
}

function row(context, each) {
  const { h } = context;
  const name = owner(context, each);
  return h("div", { class: "tile-row" },
    ...(name.length ? [h("span", { class: "tile-name" }, ...name)] : []),
    h("span", { class: "tiles" }, ...list(each.tiles).map((piece) => tile(context, piece))),
    ...(each.note ? [h("span", { class: "tile-note" }, each.note)] : []),
  );
}

function drawPanel(context, panel) {
  const { h } = context;
  const rows = list(panel.rows);
  const lines = list(panel.lines);
  return [
    ...(panel.columns ? [grid(context, panel)] : rows.map((each) => row(context, each))),
    ...(panel.fixed_width
      ? [h("pre", {}, lines.join("\n"))]
      : lines.map((line) => h("p", {}, line))),
  ];
}

// Coordinates are at the top and at both sides.
function drawSquares(context, { rows, columns, legend, shape }) {
  const { h } = context;
  const side = (name) => h("span", { class: "square-name", "aria-hidden": "true" }, name ?? "");
  const names = [side(""), ...columns.map(side), side("")];
  const cells = rows.flatMap((each) => [
    side(each.name),
    ...each.tiles.map((piece) => {
      const cell = tile(context, piece);
      cell.classList.add("square");
      return cell;
    }),
    side(each.name),
  ]);
  const style = { "--columns": columns.length, "--rows": rows.length };
  const meaning = list(legend).map(([mark, text]) =>
    h("span", { class: "legend-mark" }, tile(context, mark), ` ${text}`));
  return [
    h("div", { class: `squares shape-${shape ?? "square"}`, style }, ...names, ...cells),
    ...(meaning.length ? [h("p", { class: "squares-legend" }, ...meaning)] : []),
  ];
}

function drawPlayers(context, { players, columns }) {
  const { h } = context;
  const seats = players.map((player) => {
    const tiles = list(player.tiles).map((each, at) =>
      each.label
        ? h("span", { class: "player-tile" },
            h("span", { class: "sr" }, `${list(columns)[at] ?? ""}: `), tile(context, each))
        : "");
    const look = `player${player.is_out ? " out" : ""}`;
    return h("div", { class: look, ...marks({ ...player, label: context.seats?.[player.seat] ?? player.name }) },
      h("span", { class: "player-name" }, ...owner(context, player)),
      h("span", { class: "player-tiles" }, ...tiles),
      ...(player.bubble ? [h("q", { class: "bubble" }, player.bubble)] : []),
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

const DRAW = { panel: drawPanel, squares: drawSquares, players: drawPlayers, tracks: drawTracks };

function drawPart(context, part) {
  const { h } = context;
  const title = part.title ? [h("h3", {}, part.title)] : [];
  return h("section", { class: `part part-${part.kind}` }, ...title, ...DRAW[part.kind](context, part));
}

export function draw(scene, context) {
  const { h } = context;
  // An offer is a control, which belongs to the actions.
  const parts = scene.parts.filter((part) => part.kind in DRAW);
  return h("div", { class: scene.side_by_side ? "tabletop beside" : "tabletop" },
    ...parts.map((part) => drawPart(context, part)),
    ...(scene.caption ? [h("p", { class: "table-caption" }, scene.caption)] : []),
  );
}
