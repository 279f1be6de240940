// Loader of the modules that draw the games' tables. An exported file contains a replacement.

export async function loadScene(name) {
  return import("/scene/" + encodeURIComponent(name) + ".js");
}
