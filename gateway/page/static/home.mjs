// The first screen: start a run, see the laptops, see the runs.

import { get, hosted, post } from "/api.mjs";
import { ago, el, every, put } from "/dom.mjs";

// A request that is sent twice makes one run: the key belongs to what is in the form, not to the tap (UD-26).
const newKey = () => crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16)).join("");

export function homeScreen(main, signal, link) {
  const provider = el("select", { id: "provider" });
  const model = el("select", { id: "model" });
  const prompt = el("textarea", { id: "prompt", required: true, placeholder: "What should be done?" });
  const problem = el("p", { class: "error", id: "problem", role: "alert" });
  const start = el("button", { class: "wide", id: "start", type: "submit" }, "Start");
  const note = el("p", { class: "quiet", id: "note" });
  const runners = el("div", { id: "runners" }), runs = el("div", { id: "runs" });
  let key = newKey(), catalogue = new Map();

  for (const field of [prompt, provider, model]) field.addEventListener("input", () => { key = newKey(); });
  provider.addEventListener("change", models);
  main.replaceChildren(
    el("form", { class: "card", onsubmit: submit },
      el("label", { for: "prompt" }, "Prompt"), prompt,
      el("div", { class: "two" },
        el("div", {}, el("label", { for: "provider" }, "Provider"), provider),
        el("div", {}, el("label", { for: "model" }, "Model"), model)),
      note, start, problem),
    el("h2", {}, "Laptops"), runners, el("h2", {}, "Runs"), runs,
  );

  async function submit(event) {
    event.preventDefault();
    if (!prompt.value.trim()) {
      problem.textContent = "Write a prompt first.";
      prompt.focus();
      return;
    }
    start.disabled = true;
    problem.textContent = "";
    const configurable = {};
    if (provider.value) configurable["ai.provider"] = provider.value;
    if (model.value) configurable.model = model.value;
    try {
      const run = await post("/v1/runs", { workflowId: "chat", inputs: { prompt: prompt.value }, configurable },
        { "Idempotency-Key": key });
      location.hash = "#/runs/" + encodeURIComponent(run.runId);
    } catch (error) {
      problem.textContent = error.message;
      start.disabled = false;
    }
  }

  function options(select, values, any) {
    const chosen = select.value;
    put(select, ...(any ? [el("option", { value: "" }, any)] : []), ...values.map((v) => el("option", { value: v }, v)));
    if (values.includes(chosen)) select.value = chosen;
  }

  function models() {
    options(model, [...(catalogue.get(provider.value)?.models ?? [])].sort(), "Any");
    const backend = catalogue.get(provider.value)?.backend;
    note.textContent = backend === "echo" ? "echo only repeats your prompt: enable a provider on the laptop for real answers." : "";
  }

  function draw(list) {
    catalogue = new Map();
    for (const r of list.filter((r) => r.presence === "online")) {
      for (const [name, p] of Object.entries(r.providers ?? {})) {
        const known = catalogue.get(name) ?? { models: new Set(), backend: p.backend };
        for (const m of p.models ?? []) known.models.add(m);
        catalogue.set(name, known);
      }
    }
    options(provider, [...catalogue.keys()].sort(), catalogue.size === 1 ? "" : "Any");
    models();
    put(runners, ...(list.length ? list.map(runner) : [el("p", { class: "quiet" },
      "No laptop yet. Run “runnerd pair” with this page's address on the machine that should do the work.")]));
  }

  every(3000, signal, async () => {
    try {
      const [r, l] = await Promise.all([get(hosted("runners")), get("/v1/runs?limit=50")]);
      draw(r.runners);
      put(runs, ...(l.runs.length ? l.runs.map(run) : [el("p", { class: "quiet" }, "Nothing yet.")]));
      link(true);
    } catch {
      if (!signal.aborted) link(false);
    }
  });
}

function runner(r) {
  const busy = r.capacity?.max ? `${r.capacity.max - r.capacity.free} of ${r.capacity.max} busy` : "";
  const work = Object.entries(r.providers ?? {}).map(([name, p]) => p.state && p.state !== "ready" ? `${name} (${p.state})` : name);
  return el("div", { class: "card runner" },
    el("div", { class: "row" },
      el("span", { class: "dot " + r.presence, "aria-hidden": "true" }),
      el("strong", { class: "grow" }, r.name),
      el("span", { class: "tag" }, r.presence === "online" && r.state && r.state !== "ready" ? r.state : r.presence)),
    el("p", { class: "quiet" }, [`last heard ${ago(r.lastSeen)}`, busy].filter(Boolean).join(" · ")),
    work.length ? el("p", { class: "quiet" }, work.join(", ")) : "");
}

function run(r) {
  return el("a", { class: "card run", href: "#/runs/" + encodeURIComponent(r.runId) },
    el("div", { class: "row" },
      el("span", { class: "grow" }, r.title || r.workflowId),
      el("span", { class: "tag " + r.status }, r.status)),
    el("p", { class: "quiet" }, ago(r.createdAt)));
}
