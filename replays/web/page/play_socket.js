// The connection of a page with its table. It is opened again after every loss, and the server then
// sends everything anew.

import { rememberedName } from "./names.js";

const FIRST_WAIT = 250;
const LONGEST_WAIT = 8000;
const UNKNOWN_LINK = 4404;

export class PlaySocket {
  constructor(token, handlers) {
    const query = new URLSearchParams({ name: rememberedName() });
    this.address = `/api/play/seat/${encodeURIComponent(token)}?${query}`;
    this.handlers = handlers;
    this.wait = FIRST_WAIT;
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}${this.address}`);
    this.socket.addEventListener("message", (event) => this.receive(JSON.parse(event.data)));
    this.socket.addEventListener("close", (event) => this.lost(event));
  }

  receive(message) {
    this.wait = FIRST_WAIT;
    if (message.answer) this.handlers.answer(message.answer);
    else {
      if (message.table) this.handlers.connection(true);
      this.handlers.update(message);
    }
  }

  lost(event) {
    if (this.closed) return;
    if (event.code === UNKNOWN_LINK) {
      this.handlers.refused(event.reason || "there is no such game");
      return;
    }
    this.handlers.connection(false);
    this.timer = setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(LONGEST_WAIT, 2 * this.wait);
  }

  // Returns false while there is no connection.
  send(body) {
    if (this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(body));
    return true;
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
}
