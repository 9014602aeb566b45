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

function needsLink(title, why) {
  screen.abort();
  link(true);
  leave.hidden = true;
  main.replaceChildren(el("h1", {}, title), el("p", { id: "problem" }, why), el("p", { class: "card" }, "gateway user link NAME"));
}

function signedOut() {
  const then = location.pathname === "/pair" ? " Then open the link for pairing once more." : "";
  needsLink("Sign in", "Open the one-time sign-in link that the gateway printed. Its administrator makes a new one with the command below." + then);
}

// enter trades the one-time token of the address, which is then taken out of the history.
async function enter() {
  const token = location.hash.slice(1);
  history.replaceState(null, "", "/");
  try {
    await signIn(token);
  } catch (error) {
    const used = error instanceof ApiError && error.status === 401;
    return needsLink("That link did not work", used
      ? "It was used before, or is older than an hour. The gateway's administrator makes a new one with the command below."
      : `${error.message}. Open the link once more, or have a new one made with the command below.`);
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
      problem.textContent = error.status === 404 ? "No laptop waits under this code. Codes last ten minutes." : error.message;
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
  const mine = screen = new AbortController();
  link(true);
  if (location.pathname === "/sign-in" && location.hash.length > 1) return enter();
  try {
    await get(hosted("me"));
  } catch (error) {
    if (mine.signal.aborted) return; // another screen was asked for meanwhile, or nobody is signed in
    link(false);
    setTimeout(() => mine.signal.aborted || show(), 2000);
    return;
  }
  if (mine.signal.aborted) return;
  leave.hidden = false;
  const run = location.hash.match(/^#\/runs\/([\w-]+)$/);
  if (location.pathname === "/pair") return pair();
  if (run) return runScreen(main, run[1], screen.signal, link);
  homeScreen(main, screen.signal, link);
}

addEventListener("hashchange", show);
addEventListener("signed-out", signedOut);
show();
