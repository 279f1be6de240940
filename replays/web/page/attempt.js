// One request to a model and its answer.

import { fold, h, s, spoken } from "./dom.js";
import { duration, money, number, plural, words } from "./format.js";
import { icon } from "./icons.js";

// A longer stretch that was sent before is folded.
const MAX_UNFOLDED = 280;

export function drawAttempt(attempt, at, count) {
  const title = count > 1 ? `Attempt ${at + 1} of ${count}` : "Attempt";
  return h(
    "article",
    { class: attempt.failure ? "attempt wrong" : "attempt" },
    h(
      "header",
      { class: "attempt-head" },
      h("h3", null, title),
      attempt.failure
        ? h("span", { class: "chip wrong" }, icon("mistake"), attempt.failure)
        : h("span", { class: "chip good" }, icon("good"), "accepted"),
      attempt.cached ? h("span", { class: "chip" }, "from the cache") : null,
    ),
    drawFigures(attempt),
    attempt.excerpt
      ? h("p", { class: "excerpt" }, "Failed at: ", h("code", null, attempt.excerpt))
      : null,
    attempt.cause ? h("p", { class: "excerpt" }, `Cause: ${attempt.cause}`) : null,
    h("div", { class: "messages" }, drawUnchanged(attempt), drawMessages(attempt.messages)),
    drawMissing(attempt.more_messages, "more message"),
    drawText("Reasoning", attempt.reasoning, "reasoning"),
    drawText("Reply", attempt.reply, "reply") ?? h("p", { class: "none" }, "The reply is empty."),
    drawText("Refusal", attempt.refusal, "refusal"),
    drawTokens(attempt.tokens),
    drawMissing(attempt.more_tokens, "more token"),
  );
}

function drawFigures(attempt) {
  const figures = [
    ["model", attempt.model],
    ["policy version", attempt.policy_version],
    [
      "tokens",
      `${number(attempt.prompt_tokens)} in, ${number(attempt.completion_tokens)} out`,
    ],
    ["cost", money(attempt.cost)],
    ["latency", duration(attempt.seconds)],
    ["first token", duration(attempt.seconds_to_first_token)],
    ["finish", attempt.finish_reason],
    ["sampling", drawSampling(attempt.sampling)],
  ];
  const present = figures.filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return h(
    "dl",
    { class: "figures-line" },
    present.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

function drawSampling(sampling) {
  const present = Object.entries(sampling ?? {}).filter(
    ([, value]) => value !== null && value?.length !== 0,
  );
  return present
    .map(([name, value]) => `${words(name)} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}

function drawUnchanged(attempt) {
  if (!attempt.unchanged) return null;
  const length = plural(attempt.unchanged_characters, "character");
  const text = `${plural(attempt.unchanged, "message")} as in the last request, ${length}`;
  return h("p", { class: "none" }, text);
}

function drawMissing(count, what) {
  return count ? h("p", { class: "none" }, `and ${plural(count, what)}, not shown: too long`) : null;
}

// Messages that were in the last request as well are folded into one line.
function drawMessages(messages) {
  const drawn = [];
  let repeated = [];
  const flush = () => {
    if (repeated.length) drawn.push(drawRepeated(repeated));
    repeated = [];
  };
  for (const message of messages) {
    if (message.sent_before) repeated.push(message);
    else {
      flush();
      drawn.push(drawMessage(message.role, message.parts.map(drawPart)));
    }
  }
  flush();
  return drawn;
}

function drawRepeated(messages) {
  const length = messages
    .flatMap((message) => message.parts)
    .reduce((sum, [, text]) => sum + text.length, 0);
  const count = plural(messages.length, "message");
  const summary = `${count} as in the last request, ${plural(length, "character")}`;
  return fold({ class: "before" }, summary, () =>
    h(
      "div",
      { class: "messages" },
      messages.map(({ role, parts }) => drawMessage(role, parts.map(([, text]) => text))),
    ),
  );
}

function drawMessage(title, text, kind) {
  return drawBox(title, kind, null, h("div", { class: "text" }, text));
}

function drawBox(title, kind, detail, ...content) {
  const head = h("p", { class: "message-head" }, h("span", { class: "role" }, title), detail);
  return h("div", { class: kind ? `message ${kind}` : "message" }, head, content);
}

function drawPart([kind, text]) {
  if (kind === "added") return h("ins", null, spoken("added: "), text);
  if (kind === "removed") return h("del", null, spoken("removed: "), text);
  if (text.length <= MAX_UNFOLDED) return h("span", { class: "same" }, text);
  return fold({ class: "same-long" }, `… ${plural(text.length, "character")} as before`, () =>
    h("span", { class: "same" }, text),
  );
}

function drawText(title, text, kind) {
  return text ? drawMessage(title, text, kind) : null;
}

// The log-probability of each token of the answer as a bar: a longer bar is less likely.
function drawTokens(tokens) {
  if (!tokens.length) return null;
  const lowest = Math.min(...tokens.map((token) => token.logprob));
  const sum = tokens.reduce((total, token) => total + token.logprob, 0);
  const where = tokens.findIndex((token) => token.logprob === lowest);
  const text =
    `${plural(tokens.length, "token")}, mean log-probability ${number(sum / tokens.length, 3)}, ` +
    `least likely: token ${where + 1} with ${number(lowest, 3)}`;
  return drawBox(
    "Tokens",
    "tokens",
    h("span", { class: "detail" }, ` ${text}`),
    drawStrip(tokens, lowest),
    fold({ class: "token-list" }, "Each token's log-probability", () =>
      h(
        "ol",
        null,
        tokens.map((token) =>
          h(
            "li",
            null,
            number(token.logprob, 4),
            token.id === null ? null : h("span", { class: "detail" }, ` id ${token.id}`),
          ),
        ),
      ),
    ),
  );
}

function drawStrip(tokens, lowest) {
  const scale = Math.min(lowest, -1);
  const bars = tokens.map(
    (token, at) => `M${at * 4 + 2} 32V${(32 - 30 * (token.logprob / scale) - 1).toFixed(1)}`,
  );
  return h(
    "div",
    { class: "scroller-x" },
    s(
      "svg",
      { class: "strip", width: tokens.length * 4, height: 32, "aria-hidden": "true" },
      s("path", { d: bars.join("") }),
    ),
  );
}
