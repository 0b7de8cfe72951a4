// Liveness, countdowns and shortcuts. Everything that changes state is a form, and works without this file.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const UNITS = [[86400, "days"], [3600, "h"], [60, "min"]];
  let skew = 0; // how far this machine's clock is ahead of the server's

  const rough = (seconds) => {
    for (const [size, unit] of UNITS) if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
    return `${Math.max(0, Math.floor(seconds))} s`;
  };
  const tell = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const tick = () => {
    const now = Date.now() - skew;
    for (const time of document.querySelectorAll("time[data-until]")) {
      const left = (Date.parse(time.dateTime) - now) / 1000;
      tell(time, left > 0 ? `in ${rough(left)}` : "expired");
      time.classList.toggle("soon", left < 3600);
    }
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const past = (now - Date.parse(time.dateTime)) / 1000;
      tell(time, past < 2 ? "just now" : `${rough(past)} ago`);
    }
  };

  // Replaces every element with data-live by the one of the same id in a fresh copy of this page.
  const shown = new Map();
  const live = () => document.querySelectorAll("[data-live][id]");
  let version = ""; // what the last copy showed: the server leaves out the body of one that shows the same
  const refresh = async () => {
    const headers = { accept: "text/html", ...(version && { "if-none-match": version }) };
    const response = await fetch(location.href, { headers, redirect: "manual", cache: "no-store" });
    if (response.type === "opaqueredirect") { location.reload(); return; } // the login has ended
    if (!response.ok && response.status !== 304) throw new Error(response.statusText);
    const date = Date.parse(response.headers.get("date") || "");
    if (date) skew = Math.round((Date.now() - date) / 1000) * 1000;
    if (response.status === 304) { tick(); return; }
    version = response.headers.get("etag") || "";
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const element of document.querySelectorAll("[data-live][id], #stops-banner")) {
      const fresh = page.getElementById(element.id);
      if (!fresh) continue;
      const markup = stable(fresh);
      if (!shown.has(element.id)) shown.set(element.id, stable(element));
      if (shown.get(element.id) === markup || element.contains(document.activeElement) && element.dataset.live === "idle") continue;
      const focus = element.contains(document.activeElement) ? document.activeElement : null;
      const place = focus && (focus.id ? `#${CSS.escape(focus.id)}` : focus.getAttribute("href") ? `a[href="${CSS.escape(focus.getAttribute("href"))}"]` : "");
      shown.set(element.id, markup);
      const open = new Set([...element.querySelectorAll("details[open][id]")].map((each) => each.id));
      for (const each of fresh.querySelectorAll("details[id]")) if (open.has(each.id)) each.open = true;
      element.replaceChildren(...fresh.childNodes);
      for (const name of fresh.getAttributeNames()) if (name !== "id") element.setAttribute(name, fresh.getAttribute(name));
      if (place) element.querySelector(place)?.focus({ preventScroll: true });
    }
    tick();
  };
  // Relative times change all the time, and alone are no reason to replace anything.
  const stable = (element) => {
    const copy = element.cloneNode(true);
    for (const time of copy.querySelectorAll("time")) { time.textContent = ""; time.className = ""; }
    return copy.innerHTML;
  };
  let wait = EVERY_MS;
  const follow = async () => {
    if (!document.hidden && live().length) {
      const offline = document.getElementById("offline");
      const begun = performance.now();
      // A page that takes long to make is asked for less often.
      try { await refresh(); wait = Math.max(EVERY_MS, 10 * (performance.now() - begun)); offline.hidden = true; } catch { wait = Math.min(wait * 2, 30000); offline.hidden = false; }
    }
    setTimeout(follow, wait);
  };

  // A key with data-key moves to its element; nothing is sent without a further key.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target) return;
    event.preventDefault();
    target.closest("details")?.setAttribute("open", "");
    target.focus();
    target.scrollIntoView({ block: "nearest" });
  });

  document.addEventListener("DOMContentLoaded", () => {
    tick();
    setInterval(tick, 1000);
    setTimeout(follow, EVERY_MS);
  });
})();
