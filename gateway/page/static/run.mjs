// The screen of one run: what it is doing, its text as it arrives, and a button that ends it.

import { follow, get, hosted, post } from "/api.mjs";
import { ago, el, every, put, span } from "/dom.mjs";

const ended = new Set(["completed", "failed", "cancelled"]);
const phases = {
  queued: "Waiting for a laptop", offered: "Sent to the laptop", accepted: "Accepted", running: "Running",
  asking: "Waits for your answer", disconnected: "The laptop is out of reach", result_pending: "Result on its way",
};

export function runScreen(main, id, signal, link) {
  const path = "/v1/runs/" + encodeURIComponent(id);
  const status = el("span", { class: "tag", id: "status", role: "status" }, "…");
  const phase = el("p", { class: "quiet", id: "phase" }); // not read aloud: it counts seconds
  const prompt = el("p", { class: "card prompt" });
  const output = el("pre", { class: "output live", id: "output", "aria-live": "polite" });
  const problem = el("p", { class: "error", id: "problem", role: "alert" });
  const cancel = el("button", { class: "danger wide", id: "cancel", onclick: stop }, "Cancel");
  const steps = el("div");
  main.replaceChildren(
    el("div", { class: "row" }, el("h1", { class: "grow" }, "Run"), status), phase, prompt,
    el("div", { class: "card" }, output), problem, cancel, steps,
  );
  let texts = new Map(), state = "pending", started = null;

  async function stop() {
    cancel.disabled = true;
    try {
      await post(path + "/cancel", {});
    } catch (error) {
      problem.textContent = error.message;
      cancel.disabled = false;
    }
    await snapshot();
  }

  function show(next) {
    state = next;
    if (status.textContent !== next) status.textContent = next; // setting it has it read aloud again
    status.className = "tag " + next;
    const over = ended.has(next);
    cancel.hidden = over;
    output.classList.toggle("live", !over);
    if (over) phase.textContent = "";
  }

  async function snapshot() {
    try {
      const run = await get(path);
      started = run.startedAt;
      prompt.textContent = run.variables?.prompt ?? run.workflowId;
      if (run.error) problem.textContent = `${run.error.message} (${run.error.code})`;
      show(run.status);
    } catch (error) {
      if (error.status === 404) gone();
      else problem.textContent = error.message;
    }
  }

  function gone() {
    if (signal.aborted) return;
    state = "failed";
    main.replaceChildren(el("h1", {}, "No such run"), el("p", {}, "It is not one of yours, or it is not kept any more."));
  }

  // add puts a piece at the end where that is its place, so that what was read aloud is not read again.
  function add(node, piece) {
    const last = [...texts.keys()].at(-1) === node;
    texts.set(node, (texts.get(node) ?? "") + piece);
    if (last) output.append(piece);
    else draw();
  }

  function draw() {
    const all = [...texts.values()].join("\n\n");
    if (output.textContent !== all) output.textContent = all;
  }

  function onEvent(event) {
    const doc = JSON.parse(event.data);
    switch (event.type) {
      case "ai.message.chunk":
        add(doc.nodeId, doc.chunk);
        break;
      case "node.completed":
        if (typeof doc.payload.outputs?.text === "string") texts.set(doc.nodeId, doc.payload.outputs.text);
        draw();
        break;
      case "run.started":
        show("running");
        break;
      case "run.completed": case "run.failed": case "run.cancelled":
        show(event.type.slice(4));
        snapshot();
        return "end";
    }
  }

  every(2000, signal, async () => {
    if (ended.has(state)) return;
    const { steps: list } = await get(hosted(`runs/${encodeURIComponent(id)}/steps`)).catch(() => ({ steps: [] }));
    const open = list.filter((s) => s.phase in phases);
    if (!ended.has(state)) {
      put(phase, ...open.map((s) => el("span", {},
        `${phases[s.phase]} · ${span(s.elapsedMs)}${s.lastSign ? " · last sign of life " + ago(s.lastSign) : ""} `)));
    }
  });
  snapshot();
  follow(path + "/events?streamMode=updates,messages", signal, onEvent, link).catch((error) => {
    problem.textContent = error.message;
  });
}
