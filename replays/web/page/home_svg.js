// Charts that the server has drawn. Their elements are built again from a list of what a chart
// needs, so text of a file can never become another element.

import { s } from "./dom.js";

const TAGS = ["svg", "path", "text"];
const ATTRIBUTES = [
  ...["viewBox", "role", "aria-label", "class", "d", "x", "y", "font-size", "text-anchor"],
  ...["transform", "fill", "fill-opacity"],
];

export function drawSvg(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return copy(root);
}

function copy(element) {
  if (!TAGS.includes(element.localName)) return null;
  const named = ATTRIBUTES.filter((name) => element.hasAttribute(name));
  const attributes = Object.fromEntries(named.map((name) => [name, element.getAttribute(name)]));
  const children = [...element.children].map(copy);
  const words = element.localName === "text" ? element.textContent : null;
  return s(element.localName, attributes, words, children);
}
