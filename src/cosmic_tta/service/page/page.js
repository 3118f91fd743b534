// The frame: the list of streams, the connection, the server's token; one stream is open at a time.

import { ask, forgetPictures, streamPath, token } from "/page/asking.js";
import { complain, confirm, count, h, note, put, share, standing } from "/page/building.js";
import { createStream, tokenForm } from "/page/creating.js";
import { StreamView } from "/page/stream.js";

const EVERY = 4000; // ms between two looks at the list
const MOST_NAMES = 3000;
const TRIES = 12; // streams that are asked, on arrival, whether they answer
const list = document.getElementById("streams");
const main = document.getElementById("main");
const pill = document.getElementById("connection");
let told = { streams: [], damaged: [], methods: [], encoders: [], plotly: true };
let view = null;
let online = null;
let drawn = "";
let spoken = "";
let locked = false; // the server asks for its token

function connected(now) {
  if (online === now) return;
  online = now;
  pill.textContent = now ? "live" : "reconnecting…";
  pill.className = `pill ${now ? "good" : "wait"}`;
  if (now) refreshList();
}

const shared = {
  names: null,
  plotly: () => told.plotly,
  locked: () => locked,
  reopen(name) { close(); open(name); main.focus(); },
  connected,
  refreshList: () => refreshList(),
  alarm(text) {
    if (text === spoken) return;
    spoken = text;
    document.getElementById("alarms").textContent = text;
  },
  gone(name, error) {
    if (view?.name !== name) return;
    token.set("", name);
    note(error.status === 404 ? `${name} is no longer there.` : error.message, error.status ? "bad" : "good");
    close();
    location.hash = "";
    refreshList();
  },
  // The classes to choose from when labelling; fetched when somebody first wants to.
  async fillNames(stream) {
    if (shared.names === stream) return;
    shared.names = stream;
    try {
      const { classes } = await ask(streamPath(stream));
      put(document.getElementById("class-names"), classes.slice(0, MOST_NAMES).map((name) => h("option", { value: name })));
    } catch { shared.names = null; }
  },
};

function close() {
  view?.end();
  view = null;
  shared.names = null;
  shared.alarm("");
  forgetPictures();
}

// The stream that the address names; what cannot be read names none.
function wanted() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

function open(name) {
  if (view?.name === name) return;
  close();
  view = new StreamView(main, name, shared);
  drawList();
}

function welcome() {
  put(main, h("section", { class: "welcome" }, h("h1", {}, told.streams.length ? "Choose a stream" : "No stream yet"),
    h("p", {}, "A stream names what is on pictures and learns from them, without labels. Make one, drop pictures on it, and see what it knows and why it answers as it does."),
    h("button", { type: "button", class: "primary", onclick: create }, "New stream")));
}

function serverToken(wrong) {
  return tokenForm({ id: "token", title: "This server asks for its token", words: "Whoever runs it has it.", wrong, given: (word) => {
    token.set(word);
    const name = view?.name;
    close();
    locked = false;
    drawn = "";
    refreshList(name);
  } });
}

// The server asks for its token. A stream that the address names may still open with its own.
function lock() {
  const wrong = token.get() !== "";
  token.set("");
  connected(true);
  if (locked && !wrong && (view || main.querySelector("form.token"))) return;
  locked = true;
  told = { ...told, streams: [], damaged: [] };
  const name = wanted() || view?.name;
  if (name) open(name);
  else { close(); put(main, serverToken(wrong)); }
  drawLock(wrong);
}

// Beside a stream the form stands where the list would.
function drawLock(wrong) {
  if (!view) put(list);
  else if (wrong || !list.querySelector("form.token")) put(list, serverToken(wrong));
}

function drawList() {
  if (locked) { drawLock(false); return; }
  if (list.matches(":active")) return; // not under a finger
  const key = JSON.stringify([told, view?.name]);
  if (key === drawn) return;
  drawn = key;
  const streams = told.streams.map((one) => {
    const state = one.alarms.length && !one.fallen_back ? ["bad", `alarm: ${one.alarms.join(", ")}`] : standing(one);
    const gain = one.accuracy === null ? "" : ` · ${share(one.accuracy, 0)} (zero-shot ${share(one.zero_shot_accuracy, 0)})`;
    return h("li", {}, h("a", { href: `#${encodeURIComponent(one.name)}`, "data-key": one.name, "aria-current": view?.name === one.name ? "page" : null },
      h("b", { title: one.name }, one.name), h("span", { class: `state ${state[0]}` }, state[1]), h("small", {}, `${one.method} · ${count(one.classes)} classes · ${count(one.seen)} seen${gain}`)));
  });
  const damaged = told.damaged.map((one) => h("li", { class: "damaged" }, h("b", { title: called(one) }, called(one)), h("span", { class: "state bad" }, "damaged"), h("small", {}, one.reason),
    h("small", {}, one.recoverable === null ? "Nothing can be recovered of it here; a copy or an export brings it back." : `What came up to event ${count(one.recoverable)} can be recovered.`),
    h("div", { class: "row" }, one.recoverable === null ? null : h("button", { type: "button", "data-key": `r-${one.id}`, onclick: () => recover(one) }, `Recover to ${count(one.recoverable)}`),
      h("button", { type: "button", class: "danger", "data-key": `d-${one.id}`, "aria-label": `Delete ${called(one)}, which is damaged`, onclick: () => bury(one) }, "Delete"))));
  put(list, h("ul", {}, damaged, streams));
}

const called = (one) => one.name ?? one.id.slice(0, 8);

async function recover(one) {
  if (!(await confirm(`Recover ${called(one)}?`, `Events up to ${count(one.recoverable)} are kept; what comes after the damage is laid aside, not removed.`, "Recover"))) return;
  try {
    const found = await ask(streamPath(one.id, "/recover"), { method: "POST" });
    note(`${found.name} is open again.`);
  } catch (error) { complain("Recover", error); }
  refreshList();
}

async function bury(one) {
  if (!(await confirm(`Delete ${called(one)}, which is damaged?`, one.recoverable === null ? "Its files are removed for good." : `Its files are removed for good, and what could be recovered, up to event ${count(one.recoverable)}, with them.`, "Delete", true))) return;
  try { await ask(streamPath(one.id), { method: "DELETE" }); } catch (error) { complain("Delete", error); }
  refreshList();
}

function create() {
  createStream(told, (name) => { location.hash = encodeURIComponent(name); refreshList(); });
}

// The first stream that answers without a token of its own; else the first.
async function firstOpen() {
  for (const { name } of told.streams.slice(0, TRIES)) {
    try {
      await ask(streamPath(name, "/last"));
      return name;
    } catch (error) { if (error.status !== 401) return name; }
  }
  return told.streams[0]?.name;
}

let asking = false;
let again = false; // somebody asked meanwhile, perhaps with another token
async function refreshList(preferred = "") {
  if (asking) { again = true; return; }
  asking = true;
  again = false;
  const sent = token.get();
  try {
    const found = await ask("/v1/watch");
    told = found;
    if (locked) { locked = false; drawn = ""; }
    if (!view) connected(true);
    drawList();
    if (!view) {
      const first = wanted() || preferred || (await firstOpen());
      if (view) return; // somebody chose meanwhile
      if (first && told.streams.some((one) => one.name === first)) open(first);
      else if (!main.querySelector(".welcome") || main.dataset.none !== String(told.streams.length)) { main.dataset.none = String(told.streams.length); welcome(); }
    }
  } catch (error) {
    if (error.status === 401) { if (token.get() === sent) lock(); else again = true; }
    else if (!error.status || error.status === 503) connected(false);
    else note(error.message, "bad", error.hint);
  } finally {
    asking = false;
    if (again) refreshList(preferred);
  }
}

window.addEventListener("hashchange", () => { if (wanted()) open(wanted()); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view?.redraw());
document.getElementById("new").addEventListener("click", create);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); }); // its address names no stream
setInterval(() => { if ((online || !view) && !locked && !document.hidden) refreshList(); }, EVERY);
refreshList();
