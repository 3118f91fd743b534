// Requests to the service. The token is sent as a header, never in a URL. Events are read with fetch,
// because EventSource cannot send headers.

const TOKEN_KEY = "cosmic-token";
const SILENCE_LIMIT = 25000; // ms; the server sends a heartbeat every ten seconds
const FIRST_RETRY = 400; // ms
const LAST_RETRY = 5000; // ms

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `the server answered ${status}.`);
    this.status = status;
    this.hint = problem.hint ?? "";
  }
}

// The server sent no answer. There is no status, and nothing is known about what it did.
export class NoAnswerError extends Error {}

// One token for the server, and one for each stream that has its own. An empty value removes the token.
const tokenKey = (stream) => (stream ? `${TOKEN_KEY}:${stream}` : TOKEN_KEY);
export const token = {
  get: (stream = "") => sessionStorage.getItem(tokenKey(stream)) ?? "",
  set: (value, stream = "") => {
    if (value) sessionStorage.setItem(tokenKey(stream), value);
    else sessionStorage.removeItem(tokenKey(stream));
  },
};

function headers(path, more = {}) {
  const stream = /^\/v1\/streams\/([^/?]+)/.exec(path)?.[1];
  const value = (stream && token.get(decodeURIComponent(stream))) || token.get();
  return value ? { Authorization: `Bearer ${value}`, ...more } : more;
}

// Whether the event stream is connected. If it is, a failed request may still have reached the server.
const connection = { live: false };

function noAnswer(method, live) {
  if (method === "GET") return new NoAnswerError("The server does not answer.");
  if (live && navigator.onLine) {
    return new NoAnswerError(
      "The server went away before it answered. The page shows what was done when the server is back.",
    );
  }
  return new NoAnswerError("The server does not answer; nothing was changed.");
}

async function apiError(response) {
  return new ApiError(response.status, await response.json().catch(() => ({})));
}

export async function request(path, { method = "GET", json, form, signal } = {}) {
  const type = json === undefined ? {} : { "Content-Type": "application/json" };
  const options = { method, signal, headers: headers(path, type) };
  if (json !== undefined) options.body = JSON.stringify(json);
  if (form !== undefined) options.body = form;
  const { live } = connection;
  const response = await fetch(path, options).catch((error) => {
    throw error.name === "AbortError" ? error : noAnswer(method, live);
  });
  if (!response.ok) throw await apiError(response);
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  return isJson ? response.json() : response.blob();
}

export const streamPath = (name, rest = "") => `/v1/streams/${encodeURIComponent(name)}${rest}`;

// A server-sent event: its fields by name. Lines that begin with a colon are heartbeats.
function parseEvent(block) {
  const lines = block.split("\n").filter((line) => !line.startsWith(":"));
  return Object.fromEntries(
    lines.map((line) => {
      const cut = line.indexOf(": ");
      return [line.slice(0, cut), line.slice(cut + 2)];
    }),
  );
}

async function* readEvents(body, onData) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onData();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event.event) yield event;
    }
  }
}

// Subscribe to the events of a stream, and reconnect until the returned function is called.
export function subscribe(stream, { onOpen, onEvent, onLost }) {
  let ended = false;
  let wait = FIRST_RETRY;
  let controller;

  const connect = async () => {
    controller = new AbortController();
    let timer;
    const restartTimer = () => {
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), SILENCE_LIMIT);
    };
    try {
      restartTimer();
      const path = streamPath(stream, "/events");
      const response = await fetch(path, { headers: headers(path), signal: controller.signal });
      if (!response.ok) throw await apiError(response);
      for await (const event of readEvents(response.body, restartTimer)) {
        if (event.event === "hello") {
          wait = FIRST_RETRY;
          connection.live = true;
          onOpen();
        } else onEvent(event.event, JSON.parse(event.data));
      }
      return null;
    } catch (error) {
      return error;
    } finally {
      clearTimeout(timer);
    }
  };

  (async () => {
    while (!ended) {
      const error = await connect();
      if (ended) return;
      connection.live = false;
      onLost(error);
      if (error instanceof ApiError && (error.status === 404 || error.status === 401)) return;
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(LAST_RETRY, wait * 1.6);
    }
  })();
  return () => {
    ended = true;
    controller?.abort();
  };
}
