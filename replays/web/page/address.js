// The address carries what is looked at, so that a position can be linked:
// #path=FILE&at=12&seat=1&of=2
//
// Names of files hold seeds, which give the deal away: through one seat's eyes, a file is named by
// its key: #game=KEY&at=12&seat=1

export const NOBODY = -1;

export function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return {
    path: fields.get("path"),
    game: fields.get("game"),
    at: whole(fields.get("at")),
    // What is no seat must not be taken for "everything open".
    seat: fields.has("seat") ? (whole(fields.get("seat")) ?? NOBODY) : null,
    of: whole(fields.get("of")),
  };
}

function whole(text) {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

export function addressOf(place) {
  const fields = new URLSearchParams();
  for (const name of ["path", "game", "at", "seat", "of"]) {
    if (place[name] !== null && place[name] !== undefined) fields.set(name, place[name]);
  }
  return `#${fields}`;
}

let written = 0;
let waiting = null;

// Browsers allow some hundred changes in half a minute, so quick steps are gathered.
export function writeAddress(place) {
  clearTimeout(waiting);
  const wait = Math.max(0, 350 - (performance.now() - written));
  const write = () => {
    written = performance.now();
    history.replaceState(history.state, "", addressOf(place));
  };
  if (wait === 0) write();
  else waiting = setTimeout(write, wait);
}

export function keepAddress() {
  clearTimeout(waiting);
}
