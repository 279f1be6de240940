// The page begins here: it shows the list or a game, as the address says.

import { fill, h } from "./dom.js";
import { keepAddress, readAddress } from "./address.js";
import { openSource } from "./source.js";
import { prepareTheme } from "./theme.js";
import { GameList } from "./list.js";
import { GamePage } from "./game.js";
import { prepareKeys } from "./keys.js";
import { drawFault } from "./fault.js";

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
  const single = only !== null;
  const turn = (asked += 1);
  if (view instanceof GamePage && view.is(place)) return view.follow(place);
  show(null);
  fill(main, h("p", { class: "wait" }, "Loading…"));
  if (single || place.path !== null || place.game !== null) {
    show(new GamePage(source, main, single ? { ...place, path: only, single } : place));
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
  const page = view instanceof GamePage ? view : null;
  show(null);
  fill(main, drawFault(error, page));
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
