// Entry point: shows the home page, the list of games or one game, by the address.

import { fill, h } from "./dom.js";
import { cancelAddressWrite, readAddress } from "./address.js";
import { openSource } from "./source.js";
import { prepareTopBar } from "./top_bar.js";
import { GameList } from "./list.js";
import { HomePage } from "./home.js";
import { readHomeAddress } from "./home_address.js";
import { GamePage } from "./game.js";
import { prepareKeys } from "./keys.js";
import { drawErrorPage } from "./error_page.js";

const main = document.getElementById("main");
const home = document.getElementById("home");
const newGame = document.getElementById("new-game");
const ENTRIES_INTERVAL = 5000;
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
  const { list, part } = readHomeAddress();
  const games = await source.games();
  if (request !== requests) return null; // The address has changed in the meantime.
  newGame.hidden = !games.can_play;
  if (games.single) {
    singlePath = games.games[0].path;
    return followAddress(source);
  }
  const home = await source.view("home", {});
  if (request !== requests) return null;
  return showFolder(source, games, home, list === "games", part);
}

// A folder with games only has no home page but their list.
function showFolder(source, games, home, isList, part) {
  const hasMore = home.document.entries.length > 0;
  document.title = isList || !hasMore ? "Games · arena" : `${home.document.root} · arena`;
  if (hasMore && !isList) return show(new HomePage(source, main, home, games));
  show(new GameList(source, main, games, part, hasMore));
  if (!hasMore && !isList) watchForEntries(source, view);
  return null;
}

// Shows the home page once there is something else than games.
function watchForEntries(source, shown) {
  const timer = setInterval(async () => {
    if (view !== shown) return clearInterval(timer);
    const home = await source.view("home", {}).catch(() => null);
    if (view !== shown || !home?.document.entries.length) return null;
    clearInterval(timer);
    return followAddress(source).catch(showError);
  }, ENTRIES_INTERVAL);
}

function showError(error) {
  if (error.name === "AbortError") return;
  const page = view instanceof GamePage ? view : null;
  show(null);
  fill(main, drawErrorPage(error, page));
}

async function start() {
  newGame.addEventListener("click", () => location.assign("/play"));
  prepareTopBar();
  prepareKeys(document.getElementById("keys"), () => view);
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
