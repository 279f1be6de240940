// Addresses of the home page: #list=games&within=FOLDER&from=SOURCE

export function readHomeAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return {
    list: fields.get("list"),
    part: { within: fields.get("within") ?? "", from: fields.get("from") ?? "" },
  };
}

// All games, or those of a folder or a source.
export function gamesAddress(within = "", from = "") {
  const part = Object.entries({ within, from }).filter(([, value]) => value);
  return `#${new URLSearchParams({ list: "games", ...Object.fromEntries(part) })}`;
}

// A link to the report of an entry, which is a page of its own: all other links stay on this
// page. Its address is in the folder of the entry.
export function reportLink({ kind, path }, ...children) {
  const link = document.createElement("a");
  const parts = `${path}/report`.split("/").map(encodeURIComponent);
  const route = kind === "train" ? "run" : "experiment";
  link.setAttribute("href", `/report/${route}/${parts.join("/")}`);
  link.className = "name";
  link.append(...children);
  return link;
}
