// The page: connects a session to the screen, and shows who serves it and when it moved.

import { Farm } from "/player/farm.js";
import { Screen } from "/player/screen.js";
import { Session } from "/player/session.js";
import { closeInWords, errorInWords, gatewayAddress } from "/player/words.js";

const DEFAULT_GATEWAY = "ws://127.0.0.1:8000/v1/stream";
const LOOP_WAITING = 2; // prompts under way in loop mode
const LOOP_AHEAD_SECONDS = 8; // enough in hand: no more is asked for
const MOST_MESSAGES = 60;
const MOST_MOVES = 50;
const STRIP = 24;
const SCENES = [
  "a pier at dawn, long waves rolling in",
  "the same pier in rain, a lamp swings in the wind",
  "a train crosses a valley in the last light",
  "a market at night, steam over the stalls",
  "snow begins to fall on a quiet harbour",
  "a field of barley, a storm far away",
];

const $ = (id) => document.getElementById(id);
const clientId = `player-${crypto.randomUUID()}`;

const now = { session: null, screen: null, serving: "", segment: null, moves: 0, scene: 0 };

const farm = new Farm(clientId, { changed: showReplicas, serving: tookUp });

// Showing

function hueOf(name) {
  const index = [...farm.replicas.keys()].indexOf(name);
  return index < 0 ? 220 : (205 + index * 137.5) % 360;
}

function paint(element, name) {
  if (name) {
    element.dataset.hue = "";
    element.style.setProperty("--hue", hueOf(name));
  } else {
    delete element.dataset.hue;
  }
}

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function state(name, text) {
  $("state").dataset.state = name;
  $("state").textContent = text;
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function showReplicas() {
  const rows = [...farm.replicas].map(([name, its]) => {
    const row = element("li");
    row.dataset.name = name;
    row.dataset.state = its;
    row.dataset.serves = String(name === now.serving && now.session !== null);
    const badge = element("span", name, "name");
    paint(badge, name);
    const what = name === now.serving && now.session && its === "running" ? "serves this session" : its;
    const isDead = its === "killed" || its === "stopped";
    const button = element("button", isDead ? "Bring back" : "Kill", "plain");
    button.type = "button";
    button.setAttribute("aria-label", `${button.textContent} replica ${name}`);
    button.addEventListener("click", () => void (isDead ? farm.restart(name) : farm.kill(name)));
    row.append(badge, element("span", what, "what"), button);
    return row;
  });
  $("replicas").replaceChildren(...rows);
}

function serves(name) {
  now.serving = name;
  $("serving").textContent = name || "nobody yet";
  $("serving").dataset.replica = name;
  paint($("serving"), name);
  const block = $("strip").lastElementChild;
  if (block && block.dataset.part !== "whole") paint(block, name);
  showReplicas();
}

// The emulator says who took the session up. Once it streams, the gateway itself says when it moves, and from then on
// the emulator is believed only where the gateway calls its replicas by other names.
function tookUp(name) {
  if (now.segment === null || !farm.replicas.has(now.serving)) serves(name);
}

function block(number) {
  let found = $("strip").lastElementChild;
  if (!found || found.textContent !== String(number)) {
    found = element("li", String(number));
    found.dataset.part = "begun";
    $("strip").append(found);
    while ($("strip").childElementCount > STRIP) $("strip").firstElementChild.remove();
  }
  return found;
}

function showMove(message) {
  now.moves += 1;
  $("moved").textContent = String(now.moves);
  $("no-moves").hidden = true;
  const from = now.serving;
  const row = element("li");
  row.dataset.replica = message.replica;
  const at = new Date();
  const time = element("time", at.toLocaleTimeString([], { hour12: false }));
  time.dateTime = at.toISOString();
  row.append(time, element("span", `${from ? `${from} to ` : "to "}${message.replica}, in segment ${message.segment_idx}`));
  $("moves").prepend(row);
  while ($("moves").childElementCount > MOST_MOVES) $("moves").lastElementChild.remove();
  const last = block(message.segment_idx);
  last.dataset.part = "moved";
  last.title = `begun by ${from || "another replica"}, made by ${message.replica}`;
  last.style.setProperty("--from", hueOf(from));
  serves(message.replica);
}

function log(text) {
  $("messages").prepend(element("li", text));
  while ($("messages").childElementCount > MOST_MESSAGES) $("messages").lastElementChild.remove();
}

// The session

function heard(message) {
  log(`${message.type} ${JSON.stringify({ ...message, type: undefined })}`);
  switch (message.type) {
    case "queue_status":
      if (message.position > 0) state("connecting", `waiting, place ${message.position}`);
      break;
    case "ltx2_stream_start":
      state("streaming", "connected");
      $("send").disabled = false;
      fill();
      break;
    case "ltx2_segment_start":
      state("streaming", "streaming");
      now.segment = message.segment_idx;
      $("segment").textContent = String(now.segment);
      paint(block(message.segment_idx), now.serving);
      break;
    case "media_init":
      now.screen.begin(message.mime);
      $("curtain").hidden = true;
      break;
    case "media_segment_complete":
      now.screen.finish((message.duration_ms ?? 0) / 1000);
      break;
    case "ltx2_segment_complete": {
      const last = block(message.segment_idx);
      if (last.dataset.part === "begun") last.dataset.part = "whole";
      fill();
      break;
    }
    case "session_resumed":
      state("moving", `moved to ${message.replica}`);
      now.screen.abandon();
      showMove(message);
      break;
    case "going_away":
      notice("The gateway is about to restart.");
      break;
    case "error":
      notice(errorInWords(message));
      break;
  }
}

function ended(code, reason) {
  state("ended", code === 1000 ? "ended" : "connection lost");
  if (code !== 1000) {
    const before = $("notice").hidden ? "" : `${$("notice").textContent}. `;
    notice(`${before}The session ended: ${closeInWords(code, reason)}.`);
  }
  leave();
}

function leave() {
  now.session = null;
  $("send").disabled = true;
  $("connect").textContent = "Connect";
  showReplicas();
}

function enter(address) {
  notice("");
  now.screen?.dispose();
  now.screen = new Screen($("video"), (why) => {
    notice(`The video cannot be played: ${why}. Does the emulator stream filler? Start it with --media mp4.`);
    now.session?.close();
  });
  now.segment = null;
  $("strip").replaceChildren();
  serves("");
  state("connecting", "connecting");
  $("connect").textContent = "Disconnect";
  const session = new Session(address, clientId, {
    heard: (message) => now.session === session && heard(message),
    media: (bytes) => now.session === session && now.screen.append(bytes),
    ended: (code, reason) => now.session === session && ended(code, reason),
  });
  now.session = session;
  void $("video").play().catch(() => {}); // without a gesture a browser may refuse: the controls are there
}

// In loop mode there are always a few prompts under way, until enough is in hand.
function fill() {
  const { session, screen } = now;
  if (!session?.isOpen || !$("loop").checked || screen.failed) return;
  while (session.waiting < LOOP_WAITING && screen.ahead < LOOP_AHEAD_SECONDS) {
    session.ask(SCENES[now.scene % SCENES.length]);
    now.scene += 1;
  }
}

function connect() {
  const address = gatewayAddress($("gateway").value);
  $("gateway").setAttribute("aria-invalid", String(!address));
  if (!address) {
    notice("The gateway's address must begin with ws:// or wss://, as in " + DEFAULT_GATEWAY);
    return;
  }
  enter(address);
}

// Controls

$("connection").addEventListener("submit", (event) => {
  event.preventDefault();
  if (now.session) {
    now.session.close();
    state("ended", "ended");
    leave();
  } else {
    connect();
  }
});

$("prompts").addEventListener("submit", (event) => {
  event.preventDefault();
  const prompt = $("prompt").value.trim() || $("prompt").placeholder;
  if (!now.session?.ask(prompt)) notice("Too many prompts wait already: let some be answered first.");
  else $("prompt").value = "";
});

$("loop").addEventListener("change", fill);

setInterval(() => {
  $("ahead").textContent = `${(now.screen?.ahead ?? 0).toFixed(1)} s`;
  fill();
}, 250);

const asked = new URLSearchParams(location.search);
$("gateway").value = asked.get("gateway") ?? DEFAULT_GATEWAY;
void farm.follow().then(() => {
  if (asked.get("autoplay") === "1") {
    $("loop").checked = true;
    connect();
  }
});
