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

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (word) => sessionStorage.setItem(KEY, word),
};

const headers = (more = {}) => (token.get() ? { Authorization: `Bearer ${token.get()}`, ...more } : more);

export async function ask(path, { method = "GET", json, form, signal } = {}) {
  const asked = { method, signal, headers: headers(json === undefined ? {} : { "Content-Type": "application/json" }) };
  if (json !== undefined) asked.body = JSON.stringify(json);
  if (form !== undefined) asked.body = form;
  const response = await fetch(path, asked);
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
      const response = await fetch(streamPath(stream, "/events"), { headers: headers(), signal: control.signal });
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
