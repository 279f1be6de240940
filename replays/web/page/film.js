// Entry point of the page that is filmed: one game in one perspective, without controls. It has only
// the documents of that perspective. `replays.film` opens it in a browser, calls `film.show` for each
// position and takes a picture; `film.opened` resolves when that may begin.

import { openSource } from "./source.js";
import { Stage } from "./stage.js";
import { Timeline } from "./timeline.js";

async function open() {
  const source = openSource();
  const [timeline] = Object.values(source.data.timelines);
  const film = new Stage(new Timeline(timeline));
  await film.open(source, document.getElementById("main"));
  return film;
}

globalThis.film = open();
