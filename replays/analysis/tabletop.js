// Draws the description of a table (`Tabletop` in tabletop.py): panels with rows of tiles and lines.

const tile = (h, { label, tone, title }) =>
  h("span", { class: `tile tone-${tone}`, "data-value": label, ...(title ? { title } : {}) }, label);

function grid(h, panel) {
  const head = ["", ...panel.columns].map((name) => h("th", { scope: "col" }, name));
  const body = panel.rows.map((row) =>
    h("tr", {},
      h("th", { scope: "row" }, row.name),
      ...row.tiles.map((each) => h("td", {}, tile(h, each))),
      ...(row.note ? [h("td", { class: "tile-note" }, row.note)] : []),
    ));
  return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body));
}

const row = (h, { name, tiles, note }) =>
  h("div", { class: "tile-row" },
    ...(name ? [h("span", { class: "tile-name" }, name)] : []),
    ...tiles.map((each) => tile(h, each)),
    ...(note ? [h("span", { class: "tile-note" }, note)] : []),
  );

const drawPanel = (h, panel) =>
  h("section", { class: "tile-panel" },
    ...(panel.title ? [h("h3", {}, panel.title)] : []),
    ...(panel.columns.length ? [grid(h, panel)] : panel.rows.map((each) => row(h, each))),
    ...(panel.fixed_width
      ? [h("pre", {}, panel.lines.join("\n"))]
      : panel.lines.map((line) => h("p", {}, line))),
  );

export function draw(scene, { h }) {
  return h("div", { class: "tabletop" },
    ...scene.panels.map((panel) => drawPanel(h, panel)),
    ...(scene.caption ? [h("p", { class: "tile-note" }, scene.caption)] : []),
  );
}
