// Sources of the documents: a server, or the data in an exported file. Both have the same methods.
// Documents of one perspective are not cached for another one.

import { Names } from "./names.js";

// What models were sent and what they wrote stays as it was, and so do addresses.
const AS_RECORDED = new Set(["attempts", "other", "specs", "names", "path", "key"]);

// An error answer; `seats` is the number of seats if the requested seat does not exist.
class SourceError extends Error {
  constructor(message, seats = null) {
    super(message);
    this.seats = seats;
  }
}

export function openSource() {
  const element = document.getElementById("data");
  return named(element ? new FileSource(JSON.parse(element.textContent)) : new ServerSource());
}

// The source with the names of the players in place of their numbers.
function named(source) {
  let names = null;
  const rename = (document) => (names ? names.tree(document, AS_RECORDED) : document);
  const renamed = (method) => async (...parts) => rename(await source[method](...parts));
  const methods = ["posterior", "summaries", "decision", "moves"].map((each) => [each, renamed(each)]);
  return Object.assign(Object.create(source), Object.fromEntries(methods), {
    async timeline(file, seat, first, signal) {
      const timeline = await source.timeline(file, seat, first, signal);
      names = new Names(timeline.game.names);
      return rename(timeline);
    },
    comments: (file, seat, signal, add) => source.comments(file, seat, signal, (each) => add(rename(each))),
  });
}

class ServerSource {
  live = true;

  // A part of the list; `query` has the fields of `queryOf`, `offset` and `limit`.
  games(signal, query = {}) {
    return requestJson("/api/games", query, signal);
  }

  // A document of the home page; null if it is still the one with this tag.
  async view(route, fields, signal, tag = null) {
    const headers = tag === null ? {} : { "If-None-Match": tag };
    const answer = await request(`/api/${route}`, fields, signal, headers);
    if (answer.status === 304) return null;
    return { document: await answer.json(), tag: answer.headers.get("ETag") };
  }

  // Whether a perspective is available.
  offers() {
    return true;
  }

  // A file is { path } or { key }.
  timeline(file, seat, first, signal) {
    return requestJson("/api/timeline", { ...file, seat, first }, signal);
  }

  posterior(file, player, seat, signal) {
    return requestJson("/api/posterior", { ...file, player, seat }, signal);
  }

  summaries(file, seat, signal) {
    return requestJson("/api/summaries", { ...file, seat }, signal);
  }

  decision(file, ply, seat, signal) {
    return requestJson("/api/decision", { ...file, ply, seat }, signal);
  }

  // The values of the moves at a position, or null. `analyses` is false if this source has none.
  analyses = true;

  moves(file, position, seat, signal) {
    return requestJson("/api/moves", { ...file, position, seat }, signal);
  }

  // What may be chosen where people play.
  playForm() {
    return requestJson("/api/play/form", {});
  }

  // Starts a game from a position; returns the tokens of its seats.
  playOn(file, position, seat) {
    return post("/api/play/branches", { ...file, position, seat });
  }

  // Calls `add` with every comment as it arrives.
  async comments(file, seat, signal, add) {
    const answer = await request("/api/comments", { ...file, seat }, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let incomplete = "";
    for (;;) {
      const { value, done } = await reader.read();
      const lines = (incomplete + (value ?? "")).split("\n");
      incomplete = done ? "" : lines.pop();
      for (const line of lines.filter((text) => text.trim())) {
        const comment = JSON.parse(line);
        if (comment.error) throw new Error(comment.error);
        if (!comment.done) add(comment);
      }
      if (done) return;
    }
  }
}

class FileSource {
  live = false;

  constructor(data) {
    this.data = data;
  }

  async games() {
    return { single: true, games: [{ path: this.data.path }] };
  }

  offers(seat) {
    return Object.hasOwn(this.data.timelines, viewKey(seat));
  }

  get seats() {
    return Object.values(this.data.timelines)[0].game.seats.length;
  }

  async timeline(file, seat) {
    const timeline = this.data.timelines[viewKey(seat)];
    if (!timeline) throw new SourceError("This file does not contain this perspective.", this.seats);
    return timeline;
  }

  async posterior(file, player, seat) {
    if (seat !== null && seat !== player) return null;
    return this.data.posteriors?.[String(player)] ?? null;
  }

  async summaries(file, seat) {
    return this.data.summaries?.[viewKey(seat)] ?? [];
  }

  async decision(file, ply, seat) {
    const decision = this.data.decisions?.[String(ply)] ?? null;
    return decision && (seat === null || decision.player === seat) ? decision : null;
  }

  // An exported file of a long game has no values of moves.
  get analyses() {
    return Boolean(this.data.moves);
  }

  async moves(file, position, seat) {
    const moves = this.data.moves?.[String(position)] ?? null;
    return moves && (seat === null || moves.player === seat) ? moves : null;
  }

  async comments(file, seat, signal, add) {
    (this.data.comments?.[viewKey(seat)] ?? []).forEach(add);
  }
}

function viewKey(seat) {
  return seat === null ? "open" : String(seat);
}

async function requestJson(address, fields, signal) {
  return (await request(address, fields, signal)).json();
}

function request(address, fields, signal, headers = {}) {
  const present = Object.entries(fields).filter(([, value]) => value !== null);
  const query = new URLSearchParams(present);
  return answerOf(present.length ? `${address}?${query}` : address, { signal, headers });
}

export async function post(address, body) {
  const headers = { "Content-Type": "application/json" };
  return (await answerOf(address, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

// The answer to a request; an error in words if there is none, or if it is an error.
async function answerOf(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Check that arena is still running.");
  }
  if (answer.ok || answer.status === 304) return answer;
  const body = await answer.json().catch(() => null);
  throw new SourceError(body?.error ?? `${answer.status} ${answer.statusText}`, body?.seats);
}
