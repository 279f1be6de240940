// Error page in place of a game, with links to continue.

import { h } from "./dom.js";
import { addressOf } from "./address.js";

export function drawErrorPage(error, page) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    h("h1", null, "This page cannot be shown"),
    h("p", null, error.message),
    page ? drawPerspectives(error, page) : null,
    page?.single ? null : h("p", null, h("a", { href: "#" }, "All games")),
  );
}

// Links to the other perspectives; none of them is opened automatically.
function drawPerspectives(error, page) {
  const seats = [...Array(Math.min(error.seats ?? 0, 64)).keys()];
  const others = [null, ...seats].filter((seat) => seat !== page.requestedSeat);
  const offered = others.filter((seat) => page.source.offers(seat));
  const links = offered.map((seat) => {
    const name = seat === null ? "Everything open" : `Seat ${seat + 1}`;
    const href = addressOf({ ...page.fileAddress(seat), at: 0, seat });
    return h("li", null, h("a", { href }, name));
  });
  if (!links.length) return null;
  return h("ul", { class: "offers", "aria-label": "Perspectives" }, links);
}
