// Small helpers. Text from anywhere goes into the page as text nodes only.

export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

// put replaces a container's children only when they changed, so that a refresh does not disturb what is being read.
export function put(container, ...children) {
  const next = document.createElement("div");
  next.append(...children);
  if (next.innerHTML !== container.innerHTML) container.replaceChildren(...next.childNodes);
}

export function ago(time) {
  if (!time) return "never";
  const s = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} d ago`;
}

export function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  return s < 60 ? `${s} s` : `${Math.floor(s / 60)} min ${s % 60} s`;
}

// every runs work now, again after ms, and at once when the phone wakes up; it stops with the signal.
export function every(ms, signal, work) {
  let timer = null;
  const tick = async () => {
    clearTimeout(timer);
    if (!document.hidden) await work();
    if (!signal.aborted) timer = setTimeout(tick, ms);
  };
  const awake = () => { if (!document.hidden) tick(); };
  document.addEventListener("visibilitychange", awake, { signal });
  addEventListener("online", awake, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  tick();
}
