// One request to a model and its answer.

import { fold, h } from "./dom.js";
import { duration, money, number, plural, words } from "./format.js";
import { icon } from "./icons.js";

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
      drawn.push(drawMessage(message.role, message.text));
    }
  }
  flush();
  return drawn;
}

function drawRepeated(messages) {
  const length = messages.reduce((sum, { text }) => sum + text.length, 0);
  const count = plural(messages.length, "message");
  const summary = `${count} as in the last request, ${plural(length, "character")}`;
  return fold({ class: "before" }, summary, () =>
    h(
      "div",
      { class: "messages" },
      messages.map(({ role, text }) => drawMessage(role, text)),
    ),
  );
}

function drawMessage(title, text, kind) {
  const head = h("p", { class: "message-head" }, h("span", { class: "role" }, title));
  return h("div", { class: kind ? `message ${kind}` : "message" }, head, h("div", { class: "text" }, text));
}

function drawText(title, text, kind) {
  return text ? drawMessage(title, text, kind) : null;
}

