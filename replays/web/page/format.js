// Numbers and dates as text.

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export function number(value, digits = 2) {
  if (!Number.isFinite(value)) return String(value);
  const whole = Number.isInteger(value);
  return value.toLocaleString("en", {
    minimumFractionDigits: whole ? 0 : Math.min(digits, 1),
    maximumFractionDigits: digits,
  });
}

export function signed(value, digits = 2) {
  return (value > 0 ? "+" : "") + number(value, digits).replace("-", "−");
}

export function percent(share) {
  if (share > 0 && share < 0.01) return "<1";
  if (share < 1 && share > 0.99) return ">99";
  return String(Math.round(share * 100));
}

// Formats a decimal number that may be too large for a float.
export function large(digits) {
  if (!/^\d+$/.test(digits)) return digits;
  if (digits.length <= 9) return Number(digits).toLocaleString("en");
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

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
