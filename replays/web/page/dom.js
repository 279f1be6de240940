// Makes elements. Strings become text, never markup: what is shown was written by models and by
// strangers. Styles go through the CSSOM, because the page's policy refuses style attributes.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) set(element, name, value);
  }
  element.append(...nodes(children));
  return element;
}

function set(element, name, value) {
  if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
  else if (/^on/i.test(name)) throw new Error(`${name}: a listener is a function`);
  else if (/href$/i.test(name) && !String(value).startsWith("#")) {
    throw new Error(`${name}: nothing leads out of this page`);
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

// Text for those who hear the page only.
export function spoken(text) {
  return h("span", { class: "sr" }, text);
}

// A part that opens; what is in it is made when it is opened for the first time.
export function fold(attributes, summary, make) {
  const element = h("details", attributes, h("summary", null, summary));
  const open = () => {
    if (element.open && element.childElementCount === 1) element.append(...nodes([make()]));
  };
  element.addEventListener("toggle", open);
  return element;
}
