// Creation of elements. Strings become text, never markup, because replays contain text from models
// and other untrusted sources. Styles are set by the CSSOM: the page's policy forbids style
// attributes.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes, ...children) {
  return build(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) set(element, name, value);
  }
  element.append(...nodes(children));
  return element;
}

function set(element, name, value) {
  if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
  else if (/^on/i.test(name)) throw new Error(`${name}: a listener must be a function`);
  else if (/href$/i.test(name) && !String(value).startsWith("#")) {
    throw new Error(`${name}: links to other pages are not allowed`);
  } else if (name === "style") style(element, value);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function style(element, value) {
  if (typeof value === "string") element.style.cssText = value;
  else for (const [name, each] of Object.entries(value)) element.style.setProperty(name, each);
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

// `press` is called on a click; `attributes` add to the usual ones.
export function button(content, press, attributes = {}) {
  return h("button", { type: "button", onclick: press, ...attributes }, content);
}

// What can be chosen from a list: pairs of a value and its text.
export function options(pairs, chosen = null) {
  return pairs.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
}

// A section with a heading, and `head` beside it.
export function panel(name, title, head, ...children) {
  const id = `${name}-title`;
  const top = h("div", { class: "panel-head" }, h("h2", { id }, title), head);
  return h("section", { class: `panel ${name}`, "aria-labelledby": id }, top, children);
}

// Rows below column headings; the caption is for screen readers.
export function table(headings, rows, caption = null) {
  const heads = headings.map((heading) => h("th", { scope: "col" }, heading));
  return h(
    "table",
    { class: "plain-table" },
    caption ? h("caption", { class: "sr" }, caption) : null,
    h("thead", null, h("tr", null, heads)),
    h("tbody", null, rows),
  );
}

// A row of a table; the first cell names it.
export function row(name, cells) {
  return h("tr", null, h("th", { scope: "row" }, name), cells.map((cell) => h("td", null, cell)));
}

// A place for an error message, which is hidden while there is none.
export class Trouble {
  constructor() {
    this.element = h("p", { class: "trouble", role: "alert", hidden: true });
  }

  show(text) {
    this.element.hidden = text === "";
    this.element.textContent = text;
  }
}

// Text for screen readers only.
export function spoken(text) {
  return h("span", { class: "sr" }, text);
}

// A section that can be opened; its content is created when it is opened for the first time.
export function fold(attributes, summary, make) {
  const element = h("details", attributes, h("summary", null, summary));
  const open = () => {
    if (element.open && element.childElementCount === 1) element.append(...nodes([make()]));
  };
  element.addEventListener("toggle", open);
  return element;
}
