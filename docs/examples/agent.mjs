// Plays any game at random: arena play GAME --seat "0=agent:node docs/examples/agent.mjs"
import { createInterface } from "node:readline";

function choose(message) {
  // A better player reads message.text or message.events.
  const actions = message.legal_actions;
  return actions[Math.floor(Math.random() * actions.length)];
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.type === "start") {
    console.error(`I am ${message.names[message.seat]}`);
    console.log(JSON.stringify({ name: "random.mjs" }));
  } else {
    console.log(JSON.stringify({ action: choose(message), comment: "drawn at random" }));
  }
}
