// Asking the service: the token goes as a header, never in an address; events are read from a fetch, for the same reason.

const KEY = "cosmic-token";
const SILENCE = 25000; // the server gives a sign of life every ten seconds

export class Refused extends Error {
  constructor(status, told) {
    super(told.detail ?? `the server answered ${status}.`);
    this.status = status;
    this.hint = told.hint ?? "";
  }
}

// No answer at all: no status, and no word of what it did.
export class Unanswered extends Error {}

// One for the server, and one for each stream that has its own; an empty word forgets it.
const place = (stream) => (stream ? `${KEY}:${stream}` : KEY);
export const token = {
  get: (stream = "") => sessionStorage.getItem(place(stream)) ?? "",
  set: (word, stream = "") => (word ? sessionStorage.setItem(place(stream), word) : sessionStorage.removeItem(place(stream))),
};

function headers(path, more = {}) {
  const named = /^\/v1\/streams\/([^/?]+)/.exec(path)?.[1];
  const word = (named && token.get(decodeURIComponent(named))) || token.get();
  return word ? { Authorization: `Bearer ${word}`, ...more } : more;
}

// Whether the server was there a moment ago: then a request may have reached it before the line broke.
const line = { live: false };

function unanswered(method, live) {
  if (method === "GET") return new Unanswered("The server does not answer.");
  if (live && navigator.onLine) return new Unanswered("The server went away before it answered; whether it was done shows when it is back.");
  return new Unanswered("The server does not answer; nothing was changed.");
}

export async function ask(path, { method = "GET", json, form, signal } = {}) {
  const asked = { method, signal, headers: headers(path, json === undefined ? {} : { "Content-Type": "application/json" }) };
  if (json !== undefined) asked.body = JSON.stringify(json);
  if (form !== undefined) asked.body = form;
  const { live } = line;
  const response = await fetch(path, asked).catch((error) => { throw error.name === "AbortError" ? error : unanswered(method, live); });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response.headers.get("content-type")?.startsWith("application/json") ? response.json() : response.blob();
}

export const streamPath = (name, rest = "") => `/v1/streams/${encodeURIComponent(name)}${rest}`;

// Small pictures, fetched once each.
const pictures = new Map();
const MOST = 600;

export async function picture(stream, step) {
  const path = streamPath(stream, `/thumbnails/${step}`);
  if (!pictures.has(path)) {
    if (pictures.size >= MOST) {
      const [oldest, address] = pictures.entries().next().value;
      pictures.delete(oldest);
      address.then((one) => URL.revokeObjectURL(one), () => {});
    }
    const address = ask(path).then((blob) => URL.createObjectURL(blob));
    pictures.set(path, address);
    address.catch(() => pictures.delete(path));
  }
  return pictures.get(path);
}

export function forgetPictures() {
  for (const address of pictures.values()) address.then((one) => URL.revokeObjectURL(one), () => {});
  pictures.clear();
}

// Events of a stream, for ever: told of each, of each (re)connection and of each loss.
export function listen(stream, { onOpen, onEvent, onLost }) {
  let ended = false;
  let wait = 400;
  let control;

  const once = async () => {
    control = new AbortController();
    let clock;
    const alive = () => {
      clearTimeout(clock);
      clock = setTimeout(() => control.abort(), SILENCE);
    };
    try {
      alive();
      const path = streamPath(stream, "/events");
      const response = await fetch(path, { headers: headers(path), signal: control.signal });
      if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return null;
        alive();
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const told = Object.fromEntries(
            block.split("\n").filter((line) => !line.startsWith(":")).map((line) => {
              const cut = line.indexOf(": ");
              return [line.slice(0, cut), line.slice(cut + 2)];
            }),
          );
          if (!told.event) continue;
          if (told.event === "hello") {
            wait = 400;
            line.live = true;
            onOpen();
          } else onEvent(told.event, JSON.parse(told.data));
        }
      }
    } catch (error) {
      return error;
    } finally {
      clearTimeout(clock);
    }
  };

  (async () => {
    while (!ended) {
      const error = await once();
      if (ended) return;
      line.live = false;
      onLost(error);
      if (error instanceof Refused && (error.status === 404 || error.status === 401)) return;
      await new Promise((go) => setTimeout(go, wait));
      wait = Math.min(5000, wait * 1.6);
    }
  })();
  return () => {
    ended = true;
    control?.abort();
  };
}
