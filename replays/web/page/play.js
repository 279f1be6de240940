// Entry point of the page in which people play: a table, or the form for a new game.
//
// The fragment of the address is the token of a seat. Browsers do not send it to any server.

import { fill, h } from "./dom.js";
import { prepareTopBar } from "./top_bar.js";
import { PlaySocket } from "./play_socket.js";
import { PlayTable } from "./play_table.js";
import { NewGame } from "./new_game.js";

const main = document.getElementById("main");
const rules = document.getElementById("rules");
let socket = null;

function follow() {
  socket?.close();
  socket = null;
  rules.hidden = true;
  const token = location.hash.slice(1);
  if (token) join(token);
  else newGame().catch((error) => refuse(error.message));
}

async function newGame() {
  document.title = "New game · arena";
  const answer = await fetch("/api/play/form");
  const form = await answer.json();
  if (!answer.ok) throw new Error(`${form.error}. Open the link that you were sent.`);
  fill(main, new NewGame(form).element);
}

function join(token) {
  fill(main, h("p", { class: "wait" }, "Taking your seat…"));
  let table = null;
  socket = new PlaySocket(token, {
    update(message) {
      if (table === null) {
        table = new PlayTable(message, (body) => socket.send(body));
        document.title = `${message.table.title} · arena`;
        rules.hidden = false;
        rules.onclick = () => table.showRules();
        fill(main, table.element);
      }
      table.update(message);
    },
    answer: (answer) => table?.answer(answer),
    // After a lost connection everything is sent again; what was typed is kept.
    connection: (isOpen) => table?.setConnection(isOpen),
    refused: (reason) => refuse(`${reason}.`),
  });
}

function refuse(reason) {
  const again = h("p", null, h("a", { href: "#" }, "Start a new game"));
  fill(main, h("div", { class: "empty" }, h("h1", null, "This table is not there"), h("p", null, reason), again));
}

prepareTopBar();
addEventListener("hashchange", follow);
follow();
