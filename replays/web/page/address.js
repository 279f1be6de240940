// The fragment of the address contains the view, so that a position can be linked:
// #path=FILE&at=12&seat=1&focus=2
//
// File names contain the seed, which determines the deal. In a seat's perspective, the address
// therefore names the file by its key: #game=KEY&at=12&seat=1

const INVALID_SEAT = -1;

export function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return {
    path: fields.get("path"),
    game: fields.get("game"),
    at: parseNumber(fields.get("at")),
    // An invalid seat must not be treated like a missing one, which means "everything open".
    seat: fields.has("seat") ? (parseNumber(fields.get("seat")) ?? INVALID_SEAT) : null,
    focus: parseNumber(fields.get("focus")),
    // After a game in the browser: step through the mistakes of this seat.
    review: fields.has("review"),
  };
}

function parseNumber(text) {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

export function addressOf(place) {
  const fields = new URLSearchParams();
  for (const name of ["path", "game", "at", "seat", "focus"]) {
    if (place[name] !== null && place[name] !== undefined) fields.set(name, place[name]);
  }
  return `#${fields}`;
}

let lastWrite = 0;
let timer = null;

// Browsers allow about a hundred changes in 30 seconds, so quick steps are combined.
export function writeAddress(place) {
  clearTimeout(timer);
  const wait = Math.max(0, 350 - (performance.now() - lastWrite));
  const write = () => {
    lastWrite = performance.now();
    history.replaceState(history.state, "", addressOf(place));
  };
  if (wait === 0) write();
  else timer = setTimeout(write, wait);
}

export function cancelAddressWrite() {
  clearTimeout(timer);
}
