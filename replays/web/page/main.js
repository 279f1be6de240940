// The page begins here: it shows the list or a game, as the address says.

import { fill, h } from "./dom.js";
import { keepAddress, readAddress } from "./address.js";
import { openSource } from "./source.js";
import { prepareTheme } from "./theme.js";
import { GameList } from "./list.js";
import { GamePage } from "./game.js";
import { prepareKeys } from "./keys.js";

const main = document.getElementById("main");
const home = document.getElementById("home");
let view = null;
let only = null;
let asked = 0;

function show(next) {
  view?.close();
  keepAddress();
  view = next;
}

async function follow(source) {
  const place = readAddress();
  const path = only ?? place.path;
  const turn = (asked += 1);
  if (view instanceof GamePage && view.path === path) return view.follow(place);
  show(null);
  fill(main, h("p", { class: "wait" }, "Loading…"));
  if (path !== null) {
    show(new GamePage(source, main, { ...place, path }));
    return view.opened;
  }
  const list = await source.games();
  if (turn !== asked) return null;
  if (list.single) only = list.games[0].path;
  if (list.single) return follow(source);
  document.title = "Replays · arena";
  show(new GameList(source, main, list));
}

function complain(error) {
  if (error.name === "AbortError") return;
  show(null);
  fill(
    main,
    h(
      "div",
      { class: "empty", role: "alert" },
      h("h1", null, "Nothing to show"),
      h("p", null, error.message),
      only === null ? h("a", { href: "#" }, "All games") : null,
    ),
  );
}

async function start() {
  prepareTheme(document.getElementById("theme"));
  prepareKeys(document.getElementById("keys"), () => view);
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  const source = openSource();
  const go = () => follow(source).catch(complain);
  addEventListener("hashchange", go);
  home.addEventListener("click", (event) => {
    event.preventDefault();
    if (only !== null || location.hash === "") return;
    history.pushState(null, "", location.pathname);
    go();
  });
  await go();
}

start();
