// Addresses of the home page and its views:
// #list=games&within=FOLDER&from=SOURCE, #experiment=FOLDER, #run=FOLDER

const VIEWS = ["experiment", "run"];

export function readHomeAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const view = VIEWS.find((name) => fields.has(name)) ?? null;
  return {
    list: fields.get("list"),
    part: { within: fields.get("within") ?? "", from: fields.get("from") ?? "" },
    view,
    request: view && { route: view, fields: { path: fields.get(view) } },
  };
}

export function entryAddress(entry) {
  return `#${new URLSearchParams({ [viewOf(entry.kind)]: entry.path })}`;
}

function viewOf(kind) {
  return kind === "train" ? "run" : "experiment";
}

// All games, or those of a folder or a source.
export function gamesAddress(within = "", from = "") {
  const part = Object.entries({ within, from }).filter(([, value]) => value);
  return `#${new URLSearchParams({ list: "games", ...Object.fromEntries(part) })}`;
}

// A link to a report, which is a page of its own; all other links stay on this page. It is
// in the folder, so that links of the report to replays beside it work.
export function reportLink(kind, path, ...children) {
  const link = document.createElement("a");
  const parts = `${path}/report`.split("/").map(encodeURIComponent);
  link.setAttribute("href", `/report/${kind}/${parts.join("/")}`);
  link.append(...children);
  return link;
}
