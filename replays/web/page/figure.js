// Panels of the page as one SVG: backgrounds, borders, lines of text and pictures at their places on
// the screen. It has no style sheet and no foreign objects, so that every program can read it.

import { s } from "./dom.js";

const MARGIN = 12;
const CAPTION = 26;
const SCALE = 2; // Pixels of the PNG per unit.
const SKIPPED = "button, input, summary, .sr, [hidden], .pin";
const TEXT_STYLE = ["font-family", "font-size", "font-weight", "font-style"];
const SHAPE_STYLE = [
  "fill", "fill-rule", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "text-anchor", ...TEXT_STYLE,
];

// Draws visible elements with a caption; returns an <svg> element.
export function drawFigure(elements, caption) {
  const shown = elements.filter((element) => element.getClientRects().length);
  const boxes = shown.map((element) => element.getBoundingClientRect());
  const left = Math.min(...boxes.map((box) => box.left)) - MARGIN;
  const top = Math.min(...boxes.map((box) => box.top)) - MARGIN;
  const width = Math.max(...boxes.map((box) => box.right)) - left + MARGIN;
  const height = Math.max(...boxes.map((box) => box.bottom)) - top + MARGIN + CAPTION;
  const body = getComputedStyle(document.body);
  const canvas = new Canvas(left, top);
  for (const element of shown) canvas.element(element);
  const text = s(
    "text",
    {
      x: MARGIN, y: round(height - MARGIN - 2), fill: plainColor(body.color), "font-size": 13,
      "font-family": body.fontFamily,
    },
    caption,
  );
  return s(
    "svg",
    {
      viewBox: `0 0 ${round(width)} ${round(height)}`, width: round(width),
      height: round(height),
    },
    s("rect", { width: "100%", height: "100%", fill: plainColor(body.backgroundColor) }),
    canvas.parts,
    text,
  );
}

class Canvas {
  constructor(left, top) {
    this.left = left;
    this.top = top;
    this.parts = [];
  }

  element(element) {
    if (element.matches(SKIPPED)) return;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (style.visibility === "hidden" || !box.width || !box.height) return;
    if (element instanceof SVGSVGElement) {
      this.parts.push(copyPicture(element, box, this.left, this.top));
      return;
    }
    if (element instanceof HTMLSelectElement) {
      this.line(box, element.selectedOptions[0]?.textContent ?? "", style);
      return;
    }
    this.box(box, style);
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) this.text(child, style);
      else if (child.nodeType === Node.ELEMENT_NODE) this.element(child);
    }
  }

  box(box, style) {
    const fill = plainColor(style.backgroundColor);
    const frame = frameOf(style);
    if (fill === "none" && !frame) return;
    const inset = frame ? frame.width / 2 : 0;
    this.parts.push(
      s("rect", {
        x: round(box.left - this.left + inset),
        y: round(box.top - this.top + inset),
        width: round(Math.max(0, box.width - 2 * inset)),
        height: round(Math.max(0, box.height - 2 * inset)),
        rx: round(Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2)),
        fill,
        stroke: frame?.color ?? null,
        "stroke-width": frame?.width ?? null,
      }),
    );
  }

  // One <text> for each line: words whose boxes are at the same height.
  text(node, style) {
    const range = document.createRange();
    const lines = [];
    for (const match of node.data.matchAll(/\S+/g)) {
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const box = range.getClientRects()[0];
      if (!box?.width) continue;
      const line = lines.at(-1);
      if (line && Math.abs(line.box.top - box.top) < 3) line.words.push(match[0]);
      else lines.push({ box, words: [match[0]] });
    }
    const cut = style.textOverflow === "ellipsis" ? node.parentElement : null;
    for (const { box, words } of lines) this.line(box, shorten(words.join(" "), cut), style);
  }

  line(box, words, style) {
    const size = parseFloat(style.fontSize);
    const attributes = Object.fromEntries(TEXT_STYLE.map((name) => [name, style.getPropertyValue(name)]));
    this.parts.push(
      s(
        "text",
        {
          x: round(box.left - this.left),
          // The baseline: the box of a line is about a quarter higher than its letters.
          y: round((box.top + box.bottom) / 2 - this.top + size * 0.35),
          fill: plainColor(style.color),
          ...attributes,
        },
        words,
      ),
    );
  }
}

// As many letters as an element with an ellipsis shows, about.
function shorten(text, element) {
  if (!element || element.scrollWidth <= element.clientWidth) return text;
  const count = Math.floor((text.length * element.clientWidth) / element.scrollWidth) - 1;
  return `${text.slice(0, Math.max(0, count)).trimEnd()}…`;
}

// The border, the outline or an inner shadow that serves as one.
function frameOf(style) {
  const width = parseFloat(style.borderTopWidth);
  const isEven = width > 0 && style.borderTopWidth === style.borderLeftWidth;
  if (isEven && style.borderTopStyle !== "none")
    return { width, color: plainColor(style.borderTopColor) };
  if (style.outlineStyle === "solid")
    return { width: parseFloat(style.outlineWidth), color: plainColor(style.outlineColor) };
  const inner = style.boxShadow.match(/^(.+\)) 0px 0px 0px ([\d.]+)px inset$/);
  return inner ? { width: Number(inner[2]), color: plainColor(inner[1]) } : null;
}

// A copy whose style is in attributes, because the figure has no style sheet.
function copyPicture(picture, box, left, top) {
  const copy = picture.cloneNode(true);
  const originals = picture.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, at) => {
    const style = getComputedStyle(originals[at]);
    for (const name of SHAPE_STYLE) {
      const value = style.getPropertyValue(name);
      element.setAttribute(name, /^(fill|stroke)$/.test(name) ? plainColor(value) : value);
    }
    for (const name of ["class", "style", "id"]) element.removeAttribute(name);
  });
  for (const name of ["class", "style", "id"]) copy.removeAttribute(name);
  const place = { x: box.left - left, y: box.top - top, width: box.width, height: box.height };
  for (const [name, value] of Object.entries(place)) copy.setAttribute(name, round(value));
  return copy;
}

const colors = new Map();
let pixel = null;

// A colour of any CSS form as #rrggbb; programs that read SVG know no oklab().
function plainColor(color) {
  if (color === "none") return "none";
  if (!colors.has(color)) {
    pixel ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = color;
    pixel.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
    const hex = [red, green, blue].map((part) => part.toString(16).padStart(2, "0")).join("");
    colors.set(color, alpha < 8 ? "none" : `#${hex}`);
  }
  return colors.get(color);
}

function round(value) {
  return Math.round(value * 10) / 10;
}

export function toText(figure) {
  return new XMLSerializer().serializeToString(figure);
}

// Returns a promise of a PNG blob.
export async function toPng(figure) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(toText(figure))}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = figure.getAttribute("width") * SCALE;
  canvas.height = figure.getAttribute("height") * SCALE;
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"),
  );
}
