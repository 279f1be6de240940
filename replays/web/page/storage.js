// What this browser keeps between visits. A page that was opened from disk may have no storage: then
// a choice lasts as long as the page.

export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function remember(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // Nothing is kept.
  }
}
