// How the page talks to its gateway: a bearer that lives in memory only, JSON requests, and event streams read with fetch,
// because a token must not stand in a URL.

const host = "/v1/host/runnerd/";
let bearer = null; // {token, until}

export class ApiError extends Error {
  constructor(status, body) {
    super(body?.message || `the gateway answered ${status}`);
    this.status = status;
    this.code = body?.error || "";
  }
}

async function answer(response) {
  const body = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new ApiError(response.status, body);
  return body;
}

// token trades the session's cookie for a short-lived bearer. When there is no session any more the whole page must know.
async function token() {
  if (!bearer || Date.now() > bearer.until) {
    const response = await fetch(host + "bearer", { method: "POST" });
    if (response.status === 401) dispatchEvent(new Event("signed-out"));
    const got = await answer(response);
    bearer = { token: got.token, until: Date.now() + (got.expiresIn - 60) * 1000 };
  }
  return bearer.token;
}

async function send(path, init = {}) {
  for (let again = true; ; again = false) {
    const headers = { Authorization: "Bearer " + (await token()), ...init.headers };
    const response = await fetch(path, { ...init, headers, cache: "no-store" });
    if (response.status !== 401 || !again) return response;
    bearer = null; // it expired while the phone slept
  }
}

export async function get(path) {
  return answer(await send(path));
}

export async function post(path, body, headers = {}) {
  return answer(await send(path, {
    method: "POST", body: JSON.stringify(body ?? {}), headers: { "Content-Type": "application/json", ...headers },
  }));
}

export async function remove(path) {
  return answer(await send(path, { method: "DELETE" }));
}

export async function signIn(oneTime) {
  return answer(await fetch(host + "sign-in", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token: oneTime }),
  }));
}

export async function signOut() {
  bearer = null;
  return answer(await fetch(host + "sign-out", { method: "POST" }));
}

export const hosted = (path) => host + path;

const nap = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(wake, ms);
  function wake() {
    clearTimeout(timer);
    removeEventListener("online", wake);
    document.removeEventListener("visibilitychange", wake);
    signal.removeEventListener("abort", wake);
    done();
  }
  addEventListener("online", wake);
  document.addEventListener("visibilitychange", wake);
  signal.addEventListener("abort", wake);
});

// follow reads a run's events until its stream ends by itself, resuming after the last one it saw. A stream that is silent
// for 40 s, or that the phone's sleep has cut, is opened again. link(true|false) tells whether it is connected.
export async function follow(path, signal, onEvent, link) {
  let last = null;
  for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 15000)) {
    try {
      const headers = { Accept: "text/event-stream" };
      if (last !== null) headers["Last-Event-ID"] = last;
      const attempt = new AbortController();
      const stop = () => attempt.abort();
      signal.addEventListener("abort", stop);
      let alive = Date.now();
      const watch = setInterval(() => { if (Date.now() - alive > 40000) stop(); }, 1000);
      try {
        const response = await send(path, { headers, signal: attempt.signal });
        if (!response.ok) await answer(response);
        link(true);
        wait = 500;
        for await (const event of frames(response.body, () => { alive = Date.now(); })) {
          if (event.id !== null) last = event.id;
          if (onEvent(event) === "end") return;
        }
      } finally {
        clearInterval(watch);
        signal.removeEventListener("abort", stop);
        attempt.abort();
      }
    } catch (error) {
      if (error instanceof ApiError && error.status < 500 && error.status !== 429) throw error;
    }
    if (signal.aborted) return;
    link(false);
    await nap(wait, signal);
  }
}

// frames parses an event stream. An event is complete at its empty line and not before.
async function* frames(body, onBytes) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", event = { id: null, type: "message", data: [] };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    text += value;
    const lines = text.split("\n");
    text = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (event.data.length) yield { ...event, data: event.data.join("\n") };
        event = { id: null, type: "message", data: [] };
        continue;
      }
      const at = line.indexOf(":");
      if (at === 0) continue;
      const name = at < 0 ? line : line.slice(0, at);
      const rest = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
      if (name === "id") event.id = rest;
      else if (name === "event") event.type = rest;
      else if (name === "data") event.data.push(rest);
    }
  }
}
