// The frame: the list of streams, the connection, the token; one stream is open at a time.

import { ask, forgetPictures, streamPath } from "/page/asking.js";
import { confirm, count, h, note, put, share } from "/page/building.js";
import { askToken, createStream } from "/page/creating.js";
import { StreamView } from "/page/stream.js";

const EVERY = 4000; // ms between two looks at the list
const MOST_NAMES = 3000;
const list = document.getElementById("streams");
const main = document.getElementById("main");
const pill = document.getElementById("connection");
let told = { streams: [], damaged: [], methods: [], encoders: [], plotly: true };
let view = null;
let online = null;
let drawn = "";
let spoken = "";

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
  connected,
  refreshList: () => refreshList(),
  alarm(text) {
    if (text === spoken) return;
    spoken = text;
    document.getElementById("alarms").textContent = text;
  },
  gone(name, error) {
    if (view?.name !== name) return;
    if (error.status === 401) { opened(true); return; }
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

const wanted = () => decodeURIComponent(location.hash.slice(1));

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

function drawList() {
  const key = JSON.stringify([told, view?.name]);
  if (key === drawn) return;
  drawn = key;
  const streams = told.streams.map((one) => {
    const state = one.alarms.length ? ["bad", `alarm: ${one.alarms.join(", ")}`] : one.problem ? ["bad", "takes no pictures"] : one.paused ? ["wait", "paused"] : ["good", "learning"];
    const gain = one.accuracy === null ? "" : ` · ${share(one.accuracy, 0)} (zero-shot ${share(one.zero_shot_accuracy, 0)})`;
    return h("li", {}, h("a", { href: `#${encodeURIComponent(one.name)}`, "data-key": one.name, "aria-current": view?.name === one.name ? "page" : null },
      h("b", {}, one.name), h("span", { class: `state ${state[0]}` }, state[1]), h("small", {}, `${one.method} · ${count(one.classes)} classes · ${count(one.seen)} seen${gain}`)));
  });
  const damaged = told.damaged.map((one) => h("li", { class: "damaged" }, h("b", {}, one.id.slice(0, 8)), h("span", { class: "state bad" }, "damaged"), h("small", {}, one.reason),
    h("div", { class: "row" }, one.recoverable === null ? null : h("button", { type: "button", onclick: () => recover(one) }, `Recover to ${count(one.recoverable)}`),
      h("button", { type: "button", class: "danger", onclick: () => bury(one) }, "Delete"))));
  put(list, h("ul", {}, streams, damaged));
}

async function recover(one) {
  if (!(await confirm("Recover this stream?", `Events up to ${count(one.recoverable)} are kept; what comes after the damage is laid aside, not removed.`, "Recover"))) return;
  try {
    const found = await ask(streamPath(one.id, "/recover"), { method: "POST" });
    note(`${found.name} is open again.`);
  } catch (error) { note(`Recover: ${error.message}`, "bad", error.hint); }
  refreshList();
}

async function bury(one) {
  if (!(await confirm("Delete this damaged stream?", "Its files are removed for good.", "Delete", true))) return;
  try { await ask(streamPath(one.id), { method: "DELETE" }); } catch (error) { note(`Delete: ${error.message}`, "bad", error.hint); }
  refreshList();
}

function create() {
  createStream(told, (name) => { location.hash = encodeURIComponent(name); refreshList(); });
}

let asking = false;
async function refreshList() {
  if (asking) return;
  asking = true;
  try {
    told = await ask("/v1/watch");
    if (!view) connected(true);
    drawList();
    const name = wanted();
    if (!view) {
      const first = name || told.streams[0]?.name;
      if (first && told.streams.some((one) => one.name === first)) open(first);
      else if (!main.querySelector(".welcome") || main.dataset.none !== String(told.streams.length)) { main.dataset.none = String(told.streams.length); welcome(); }
    }
  } catch (error) {
    if (error.status === 401) { asking = false; await opened(error.message.includes("not the right")); return; }
    if (!error.status || error.status === 503) connected(false);
    else note(error.message, "bad", error.hint);
  } finally {
    asking = false;
  }
}

let dialog = null;
async function opened(wrong) {
  if (dialog) return dialog;
  dialog = askToken(wrong);
  await dialog;
  dialog = null;
  close();
  return refreshList();
}

window.addEventListener("hashchange", () => { if (wanted()) open(wanted()); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view?.redraw());
document.getElementById("new").addEventListener("click", create);
setInterval(() => { if ((online || !view) && !dialog && !document.hidden) refreshList(); }, EVERY);
refreshList();
