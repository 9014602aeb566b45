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
  const status = el("span", { class: "tag", id: "status" }, "…");
  const phase = el("p", { class: "quiet", id: "phase", "aria-live": "polite" });
  const prompt = el("p", { class: "card prompt" });
  const output = el("pre", { class: "output live", id: "output", "aria-live": "polite" });
  const problem = el("p", { class: "error", id: "problem" });
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
    status.textContent = next;
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
      problem.textContent = error.message;
    }
  }

  function draw() {
    output.textContent = [...texts.values()].join("\n\n");
  }

  function onEvent(event) {
    const doc = JSON.parse(event.data);
    switch (event.type) {
      case "ai.message.chunk":
        texts.set(doc.nodeId, (texts.get(doc.nodeId) ?? "") + doc.chunk);
        draw();
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
