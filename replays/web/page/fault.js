// What went wrong, in place of a game, and where one may go from there.

import { h } from "./dom.js";
import { addressOf } from "./address.js";

export function drawFault(error, page) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    h("h1", null, "Nothing to show"),
    h("p", null, error.message),
    page ? drawPerspectives(error, page) : null,
    page?.single ? null : h("p", null, h("a", { href: "#" }, "All games")),
  );
}

// Another perspective is opened only if somebody chooses it.
function drawPerspectives(error, page) {
  const seats = [...Array(Math.min(error.seats ?? 0, 64)).keys()];
  const others = [null, ...seats].filter((seat) => seat !== page.asked);
  const offered = others.filter((seat) => page.source.offers(seat));
  const links = offered.map((seat) => {
    const name = seat === null ? "Everything open" : `Seat ${seat}`;
    return h("li", null, h("a", { href: addressOf({ ...page.named(seat), at: 0, seat }) }, name));
  });
  if (!links.length) return null;
  return h("ul", { class: "offers", "aria-label": "Perspectives" }, links);
}
