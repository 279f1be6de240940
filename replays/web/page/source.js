// Where the documents come from: a server, or the page itself if it was written to a file.
// Both have the same methods. Nothing of one perspective is kept here for another one.

// What is not told; `seats` says how many there are if the seat asked for is none.
class Refusal extends Error {
  constructor(message, seats = null) {
    super(message);
    this.seats = seats;
  }
}

export function openSource() {
  const element = document.getElementById("data");
  return element ? new FileSource(JSON.parse(element.textContent)) : new ServerSource();
}

class ServerSource {
  live = true;

  games(signal) {
    return ask("/api/games", {}, signal);
  }

  // All perspectives can be had.
  offers() {
    return true;
  }

  // A file is { path } or { key }.
  story(file, seat, first, signal) {
    return ask("/api/story", { ...file, seat, first }, signal);
  }

  knowledge(file, of, seat, signal) {
    return ask("/api/knowledge", { ...file, of, seat }, signal);
  }

  summaries(file, seat, signal) {
    return ask("/api/summaries", { ...file, seat }, signal);
  }

  decision(file, ply, seat, signal) {
    return ask("/api/decision", { ...file, ply, seat }, signal);
  }

  // Calls `each` with every comment as it comes.
  async comments(file, seat, signal, each) {
    const answer = await request("/api/comments", { ...file, seat }, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      const lines = (rest + (value ?? "")).split("\n");
      rest = done ? "" : lines.pop();
      for (const line of lines.filter((text) => text.trim())) tell(JSON.parse(line), each);
      if (done) return;
    }
  }
}

function tell(line, each) {
  if (line.error) throw new Error(line.error);
  if (!line.done) each(line);
}

class FileSource {
  live = false;

  constructor(data) {
    this.data = data;
  }

  async games() {
    return { single: true, root: "", more: 0, games: [{ path: this.data.path }] };
  }

  offers(seat) {
    return Object.hasOwn(this.data.stories, name(seat));
  }

  get seats() {
    return Object.values(this.data.stories)[0].game.seats.length;
  }

  async story(file, seat) {
    const story = this.data.stories[name(seat)];
    if (!story) throw new Refusal("This file does not hold that perspective.", this.seats);
    return story;
  }

  async knowledge(file, of, seat) {
    if (seat !== null && seat !== of) return null;
    return this.data.knowledge?.[String(of)] ?? null;
  }

  async summaries(file, seat) {
    return this.data.summaries?.[name(seat)] ?? [];
  }

  async decision(file, ply, seat) {
    const decision = this.data.decisions?.[String(ply)] ?? null;
    return decision && (seat === null || decision.player === seat) ? decision : null;
  }

  async comments(file, seat, signal, each) {
    (this.data.comments?.[name(seat)] ?? []).forEach(each);
  }
}

function name(seat) {
  return seat === null ? "open" : String(seat);
}

async function ask(address, fields, signal) {
  return (await request(address, fields, signal)).json();
}

async function request(address, fields, signal) {
  const given = Object.entries(fields).filter(([, value]) => value !== null);
  const query = new URLSearchParams(given);
  let answer;
  try {
    answer = await fetch(given.length ? `${address}?${query}` : address, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is `arena replay --web` still running?");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer) {
  const body = await answer.json().catch(() => null);
  return new Refusal(body?.error ?? `${answer.status} ${answer.statusText}`, body?.seats);
}
