// Numbers and dates as text.

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export function number(value, digits = 2) {
  if (!Number.isFinite(value)) return String(value);
  const whole = Number.isInteger(value);
  const text = value.toLocaleString("en", {
    minimumFractionDigits: whole ? 0 : Math.min(digits, 1),
    maximumFractionDigits: digits,
  });
  return text.replace("-", "−");
}

// Bits always have two decimals, so that columns of them line up.
export function bits(value) {
  const text = value.toFixed(2);
  return text === "-0.00" ? "0.00" : text.replace("-", "−");
}

// A value in the unit of a measure or fact. Shares and probabilities become percentages.
export function quantity(value, unit) {
  if (/^(share|probability|%)$/.test(unit)) return `${percent(value)} %`;
  return unit.startsWith("bits") ? bits(value) : number(value, 2);
}

export function signed(value, digits = 2) {
  return (value > 0 ? "+" : "") + number(value, digits);
}

export function percent(share) {
  if (share < 0) return `−${percent(-share)}`;
  if (share > 0 && share < 0.01) return "<1";
  if (share < 1 && share > 0.99) return ">99";
  return String(Math.round(share * 100));
}

// Formats a decimal number that may be too large for a float.
export function large(digits) {
  if (!/^\d+$/.test(digits)) return digits;
  if (digits.length <= 7) return Number(digits).toLocaleString("en");
  const power = [...String(digits.length - 1)].map((digit) => SUPERSCRIPTS[digit]).join("");
  return `${digits[0]}.${digits.slice(1, 3)} × 10${power}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.0995) return `${Number((seconds * 1000).toPrecision(2))} ms`;
  if (seconds < 60) return `${number(seconds, seconds < 10 ? 2 : 1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function money(cost) {
  if (cost === null || cost === undefined) return "unknown";
  return cost === 0 ? "free" : `$${cost < 0.01 ? cost.toPrecision(2) : cost.toFixed(2)}`;
}

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${number(count / 1e3, 1)} kB` : `${number(count / 1e6, 1)} MB`;
}

export function date(iso) {
  const when = new Date(iso);
  if (!iso || Number.isNaN(when.getTime())) return "";
  const two = (value) => String(value).padStart(2, "0");
  const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  return `${day} ${two(when.getHours())}:${two(when.getMinutes())}`;
}

// "entropy_before" as "entropy before".
export function words(key) {
  return key.replace(/_/g, " ");
}

// A text as a sentence: with a capital letter and an end; an empty one stays empty.
export function sentence(text) {
  if (!text) return "";
  const capital = text[0].toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

// "136th".
export function ordinal(count) {
  const tens = count % 100;
  const end = tens > 10 && tens < 14 ? "th" : (["th", "st", "nd", "rd"][count % 10] ?? "th");
  return `${count.toLocaleString("en")}${end}`;
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
