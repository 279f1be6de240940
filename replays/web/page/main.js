// Entry point: shows the list of games or one game, depending on the address.

import { fill, h } from "./dom.js";
import { cancelAddressWrite, readAddress } from "./address.js";
import { openSource } from "./source.js";
import { prepareTheme } from "./theme.js";
import { GameList } from "./list.js";
import { GamePage } from "./game.js";
import { prepareKeys } from "./keys.js";
import { drawErrorPage } from "./error_page.js";

const main = document.getElementById("main");
const home = document.getElementById("home");
let view = null;
let singlePath = null;
let requests = 0;

function show(next) {
  view?.close();
  cancelAddressWrite();
  view = next;
}

async function followAddress(source) {
  const place = readAddress();
  const single = singlePath !== null;
  const request = (requests += 1);
  if (view instanceof GamePage && view.matches(place)) return view.navigate(place);
  show(null);
  fill(main, h("p", { class: "wait" }, "Loading…"));
  if (single || place.path !== null || place.game !== null) {
    show(new GamePage(source, main, single ? { ...place, path: singlePath, single } : place));
    return view.opened;
  }
  const list = await source.games();
  if (request !== requests) return null; // The address has changed in the meantime.
  if (list.single) {
    singlePath = list.games[0].path;
    return followAddress(source);
  }
  document.title = "Replays · arena";
  show(new GameList(source, main, list));
}

function showError(error) {
  if (error.name === "AbortError") return;
  const page = view instanceof GamePage ? view : null;
  show(null);
  fill(main, drawErrorPage(error, page));
}

async function start() {
  prepareTheme(document.getElementById("theme"));
  prepareKeys(document.getElementById("keys"), () => view);
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  const source = openSource();
  const follow = () => followAddress(source).catch(showError);
  addEventListener("hashchange", follow);
  home.addEventListener("click", (event) => {
    event.preventDefault();
    if (singlePath !== null || location.hash === "") return;
    history.pushState(null, "", location.pathname);
    follow();
  });
  await follow();
}

start();
