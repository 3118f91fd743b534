// The page: the list of streams, the connection, the server's token. One stream is open at a time.

import { request, streamPath, token } from "/page/api.js";
import { createStreamDialog } from "/page/create_stream.js";
import { tokenForm } from "/page/dialogs.js";
import { button, h, replaceContent } from "/page/dom.js";
import { notify } from "/page/notifications.js";
import { StreamList } from "/page/stream_list.js";
import { StreamView } from "/page/stream_view.js";
import { clearThumbnails } from "/page/thumbnails.js";

const LIST_INTERVAL = 4000; // ms between two refreshes of the list
const MAX_CLASS_NAMES = 3000;
const MAX_TRIED = 12; // streams that are tried at start, to find one that opens without its own token

// The name in the address; empty if there is none, or if it cannot be decoded.
function nameInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

class App {
  constructor() {
    this.listElement = document.getElementById("streams");
    this.main = document.getElementById("main");
    this.list = new StreamList(this.listElement, () => this.refreshList());
    this.server = { streams: [], damaged: [], methods: [], encoders: [], plotly: true };
    this.view = null;
    this.connected = null;
    this.readOutText = "";
    this.classNamesOf = null; // the stream whose class names are offered
    this.locked = false; // the server asks for its token
    this.isRefreshing = false;
    this.refreshAgain = false; // a refresh was asked for meanwhile, perhaps with another token
  }

  start() {
    window.addEventListener("hashchange", () => {
      if (nameInAddress()) this.open(nameInAddress());
    });
    const darkScheme = matchMedia("(prefers-color-scheme: dark)");
    darkScheme.addEventListener("change", () => this.view?.redrawCharts());
    document.getElementById("new").addEventListener("click", () => this.createStream());
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault(); // its address names no stream
      this.main.focus();
    });
    setInterval(() => {
      if ((this.connected || !this.view) && !this.locked && !document.hidden) this.refreshList();
    }, LIST_INTERVAL);
    this.refreshList();
  }

  // What a stream's view uses.

  hasPlotly() {
    return this.server.plotly;
  }

  isLocked() {
    return this.locked;
  }

  setConnected(connected) {
    if (this.connected === connected) return;
    this.connected = connected;
    const pill = document.getElementById("connection");
    pill.textContent = connected ? "live" : "reconnecting…";
    pill.className = `pill ${connected ? "good" : "wait"}`;
    if (connected) this.refreshList();
  }

  // Alarms are read out by screen readers when they change.
  readOut(text) {
    if (text === this.readOutText) return;
    this.readOutText = text;
    document.getElementById("alarms").textContent = text;
  }

  onStreamGone(name, error) {
    if (this.view?.name !== name) return;
    token.set("", name);
    const text = error.status === 404 ? `${name} no longer exists.` : error.message;
    notify(text, error.status ? "bad" : "good");
    this.close();
    location.hash = "";
    this.refreshList();
  }

  reopen(name) {
    this.close();
    this.open(name);
    this.main.focus();
  }

  forgetClassNames() {
    this.classNamesOf = null;
  }

  // The class names to choose from when labelling, fetched when they are first needed.
  async loadClassNames(stream) {
    if (this.classNamesOf === stream) return;
    this.classNamesOf = stream;
    try {
      const { classes } = await request(streamPath(stream));
      const options = classes.slice(0, MAX_CLASS_NAMES).map((name) => h("option", { value: name }));
      replaceContent(document.getElementById("class-names"), options);
    } catch {
      this.classNamesOf = null;
    }
  }

  // The open stream.

  open(name) {
    if (this.view?.name === name) return;
    this.close();
    this.view = new StreamView(this.main, name, this);
    this.drawList();
  }

  close() {
    this.view?.end();
    this.view = null;
    this.forgetClassNames();
    this.readOut("");
    clearThumbnails();
  }

  createStream() {
    createStreamDialog(this.server, (name) => {
      location.hash = encodeURIComponent(name);
      this.refreshList();
    });
  }

  welcome() {
    const streams = String(this.server.streams.length);
    if (this.main.querySelector(".welcome") && this.main.dataset.streams === streams) return;
    this.main.dataset.streams = streams;
    const text =
      "A stream classifies images and adapts to them, without labels. Create one, drop images on it, " +
      "and see what it has learned and why it answers as it does.";
    replaceContent(
      this.main,
      h(
        "section",
        { class: "welcome" },
        h("h1", {}, this.server.streams.length ? "Choose a stream" : "No stream yet"),
        h("p", {}, text),
        button("New stream", { class: "primary" }, () => this.createStream()),
      ),
    );
  }

  // The first stream that answers without a token of its own; else the first.
  async firstOpenStream() {
    for (const { name } of this.server.streams.slice(0, MAX_TRIED)) {
      try {
        await request(streamPath(name, "/last-prediction"));
        return name;
      } catch (error) {
        if (error.status !== 401) return name;
      }
    }
    return this.server.streams[0]?.name;
  }

  // The server's token.

  serverTokenForm(wrong) {
    const onToken = (value) => {
      token.set(value);
      const name = this.view?.name;
      this.close();
      this.unlock();
      this.refreshList(name);
    };
    const title = "This server asks for its token";
    return tokenForm({ id: "token", title, text: "Ask the person who runs the server.", wrong, onToken });
  }

  // A stream that the address names may still open with its own token.
  lock() {
    const wrong = token.get() !== "";
    token.set("");
    this.setConnected(true);
    if (this.locked && !wrong && (this.view || this.main.querySelector("form.token"))) return;
    this.locked = true;
    this.server = { ...this.server, streams: [], damaged: [] };
    const name = nameInAddress() || this.view?.name;
    if (name) this.open(name);
    else {
      this.close();
      replaceContent(this.main, this.serverTokenForm(wrong));
    }
    this.drawLock(wrong);
  }

  unlock() {
    this.locked = false;
    this.list.invalidate();
  }

  // Beside an open stream, the form stands where the list would.
  drawLock(wrong) {
    if (!this.view) replaceContent(this.listElement);
    else if (wrong || !this.listElement.querySelector("form.token")) {
      replaceContent(this.listElement, this.serverTokenForm(wrong));
    }
  }

  // The list.

  drawList() {
    if (this.locked) this.drawLock(false);
    else this.list.draw(this.server, this.view?.name);
  }

  async refreshList(preferred = "") {
    if (this.isRefreshing) {
      this.refreshAgain = true;
      return;
    }
    this.isRefreshing = true;
    this.refreshAgain = false;
    const sentToken = token.get();
    try {
      this.server = await request("/v1/dashboard");
      if (this.locked) this.unlock();
      if (!this.view) this.setConnected(true);
      this.drawList();
      if (!this.view) await this.openFirst(preferred);
    } catch (error) {
      this.onListError(error, sentToken);
    } finally {
      this.isRefreshing = false;
      if (this.refreshAgain) this.refreshList(preferred);
    }
  }

  async openFirst(preferred) {
    const first = nameInAddress() || preferred || (await this.firstOpenStream());
    if (this.view) return; // the user opened one meanwhile
    if (first && this.server.streams.some((stream) => stream.name === first)) this.open(first);
    else this.welcome();
  }

  onListError(error, sentToken) {
    if (error.status === 401) {
      if (token.get() === sentToken) this.lock();
      else this.refreshAgain = true;
    } else if (!error.status || error.status === 503) this.setConnected(false);
    else notify(error.message, "bad", error.hint);
  }
}

new App().start();
