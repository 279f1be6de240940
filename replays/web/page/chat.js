// Chat of the people at a table, beside the game. Its texts are shown as they were typed.

import { fill, h, panel } from "./dom.js";
import { seatLabel, seatName } from "./seats.js";

export class Chat {
  constructor(game, seat, say) {
    this.game = game;
    this.list = h("ol", { class: "event-list" });
    this.scroller = h("div", { class: "scroller", tabindex: "0", "aria-label": "Messages" }, this.list);
    this.trouble = h("p", { class: "muted", role: "status" });
    const text = h("input", { type: "text", maxlength: 300, autocomplete: "off", "aria-label": "Message" });
    const onsubmit = (event) => {
      event.preventDefault();
      fill(this.trouble);
      if (text.value.trim() && say(text.value)) text.value = "";
    };
    const line = h("form", { class: "action-typed", onsubmit }, text, h("button", { type: "submit" }, "Send"));
    this.element = panel("chat", "Chat", null, this.scroller, seat === null ? null : line, this.trouble);
  }

  // Returns the last line in words.
  show(lines) {
    fill(
      this.list,
      lines.map(({ seat, text }) => h("li", { class: "chat-line" }, seatLabel(this.game, seat), " ", h("bdi", null, text))),
    );
    this.scroller.scrollTop = this.scroller.scrollHeight;
    const last = lines.at(-1);
    return last ? `${seatName(this.game, last.seat)}: ${last.text}` : "";
  }

  refuse(reason) {
    fill(this.trouble, reason);
  }
}
