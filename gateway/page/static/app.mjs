// The page's frame: who is signed in, and which screen the address asks for.

import { ApiError, get, hosted, post, signIn, signOut } from "/api.mjs";
import { el } from "/dom.mjs";
import { homeScreen } from "/home.mjs";
import { runScreen } from "/run.mjs";

const main = document.getElementById("main");
const state = document.getElementById("link");
const leave = document.getElementById("sign-out");
let screen = new AbortController();

const link = (up) => { state.textContent = up ? "" : "reconnecting…"; };

leave.addEventListener("click", async () => {
  await signOut().catch(() => null);
  location.assign("/");
});

function signedOut() {
  leave.hidden = true;
  main.replaceChildren(
    el("h1", {}, "Sign in"),
    el("p", {}, "Open the one-time sign-in link that the gateway printed. Its administrator makes a new one with:"),
    el("p", { class: "card" }, "gateway user link NAME"));
}

// enter trades the one-time token of the address, which is then taken out of the history.
async function enter() {
  const token = location.hash.slice(1);
  history.replaceState(null, "", "/");
  try {
    await signIn(token);
  } catch (error) {
    main.replaceChildren(el("h1", {}, "That link did not work"), el("p", { class: "error", id: "problem" }, error.message));
    return;
  }
  show();
}

async function pair() {
  const code = new URLSearchParams(location.search).get("code") ?? "";
  const input = el("input", { id: "code", value: code, autocapitalize: "characters", autocomplete: "off", maxlength: 9 });
  const facts = el("div"), problem = el("p", { class: "error", id: "problem", role: "alert" });
  const path = () => hosted("pairings/" + encodeURIComponent(input.value.trim()));
  async function look() {
    problem.textContent = "";
    facts.replaceChildren();
    try {
      const p = await get(path());
      facts.replaceChildren(
        el("div", { class: "card" }, el("strong", {}, p.name), el("p", { class: "quiet" }, `${p.platform} · version ${p.version}`)),
        el("p", {}, "It will run steps of your workflows with the logins on that machine. Approve only what you started yourself."),
        el("button", { class: "wide", id: "approve", onclick: () => decide("approve") }, "Approve"),
        el("button", { class: "danger wide", id: "deny", onclick: () => decide("deny") }, "Deny"));
    } catch (error) {
      problem.textContent = error.message;
    }
  }
  async function decide(what) {
    try {
      await post(path() + "/" + what, {});
      history.replaceState(null, "", "/");
      show();
    } catch (error) {
      problem.textContent = error.message;
    }
  }
  main.replaceChildren(el("h1", {}, "Pair a laptop"), el("label", { for: "code" }, "Code shown by runnerd"), input,
    el("button", { class: "wide", id: "look", onclick: look }, "Continue"), facts, problem);
  if (code) await look();
}

async function show() {
  screen.abort();
  screen = new AbortController();
  link(true);
  if (location.pathname === "/sign-in" && location.hash.length > 1) return enter();
  try {
    await get(hosted("me"));
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return signedOut();
    link(false);
    setTimeout(show, 2000);
    return;
  }
  leave.hidden = false;
  const run = location.hash.match(/^#\/runs\/(.+)$/);
  if (location.pathname === "/pair") return pair();
  if (run) return runScreen(main, decodeURIComponent(run[1]), screen.signal, link);
  homeScreen(main, screen.signal, link);
}

addEventListener("hashchange", show);
show();
