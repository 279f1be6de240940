// The modules with which games draw their tables. An exported file has its own one of these.

export async function loadScene(name) {
  return import("/scene/" + encodeURIComponent(name) + ".js");
}
