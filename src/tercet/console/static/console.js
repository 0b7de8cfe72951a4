// Liveness, countdowns and shortcuts. Everything that changes state is a form, and works without this file.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const OFFLINE = "The service does not answer, so this page is not up to date.";
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

  // Replaces every element with data-live by the one of the same id in a fresh copy of this page. A page without such
  // elements asks for the banner of emergency stops alone.
  const shown = new Map(); // by element: what its last copy showed
  const versions = new Map(); // by address: the server leaves out the body of a page that shows the same as the last one
  const live = () => document.querySelectorAll("[data-live][id]");
  const banner = () => document.querySelector("#stops-banner[data-from]");
  const refresh = async (address) => {
    const version = versions.get(address);
    const headers = { accept: "text/html", ...(version && { "if-none-match": version }) };
    const response = await fetch(address, { headers, redirect: "manual", cache: "no-store" });
    if (response.type === "opaqueredirect") { // the login has ended
      if (live().length) { location.reload(); return; }
      throw new Error("Your login has ended: log in again before you go on.");
    }
    if (!response.ok && response.status !== 304) throw new Error(OFFLINE);
    const date = Date.parse(response.headers.get("date") || "");
    if (date) skew = Math.round((Date.now() - date) / 1000) * 1000;
    if (response.status !== 304) {
      versions.set(address, response.headers.get("etag"));
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const element of [...live(), banner()]) {
        const fresh = element && page.getElementById(element.id);
        if (!fresh) continue;
        if (element.dataset.live === "rows" && element.querySelector("tbody") && fresh.querySelector("tbody")) update(element, fresh);
        else replace(element, fresh);
      }
    }
    tick();
    fit();
  };
  // A column that is higher than the window scrolls with the page.
  const fit = () => document.querySelector(".decision")?.classList.toggle("tall", document.querySelector(".decision").scrollHeight > innerHeight - 32);
  const replace = (element, fresh) => {
    const markup = stable(fresh);
    if (!shown.has(element)) shown.set(element, stable(element));
    const focus = element.contains(document.activeElement) ? document.activeElement : null;
    if (shown.get(element) === markup || focus && element.dataset.live === "idle") return;
    // A form that is bound to what its page shows does not become one for something else.
    const bound = [element, fresh].map((each) => each.querySelector("input[name=digest]")?.value);
    if (bound[0] && bound[1] && bound[0] !== bound[1]) return;
    const place = focus && (focus.id ? `#${CSS.escape(focus.id)}` : focus.getAttribute("href") ? `a[href="${CSS.escape(focus.getAttribute("href"))}"]` : "");
    shown.set(element, markup);
    const open = new Set([...element.querySelectorAll("details[open][id]")].map((each) => each.id));
    for (const each of fresh.querySelectorAll("details[id]")) if (open.has(each.id)) each.open = true;
    for (const each of element.querySelectorAll(":is(input, textarea, select)[id]")) {
      const next = fresh.querySelector(`#${CSS.escape(each.id)}`);
      if (next) [next.value, next.checked] = [each.value, each.checked]; // what was typed
    }
    element.replaceChildren(...fresh.childNodes);
    for (const name of fresh.getAttributeNames()) if (name !== "id") element.setAttribute(name, fresh.getAttribute(name));
    if (!fresh.hasAttribute("data-live")) delete element.dataset.live;
    if (place) element.querySelector(place)?.focus({ preventScroll: true });
  };
  // Rows of a list stay where they are: known ones are updated in place, and new ones only counted.
  const update = (element, fresh) => {
    const rows = [...element.querySelectorAll("tbody tr[id]")];
    const found = new Map([...fresh.querySelectorAll("tbody tr[id]")].map((row) => [row.id, row]));
    const last = rows.findLastIndex((row) => found.has(row.id)); // rows behind it are on the next page by now
    const place = [...found.keys()].indexOf(rows[last]?.id);
    rows.forEach((row, number) => {
      row.classList.toggle("gone", number < last && !found.has(row.id));
      if (found.has(row.id)) replace(row, found.get(row.id));
    });
    const known = new Set(rows.map((row) => row.id));
    const count = [...found.keys()].filter((id, number) => !known.has(id) && (last < 0 || number < place)).length;
    const link = document.getElementById("new-rows");
    link.hidden = !count;
    tell(link, `${count === found.size ? `${count} or more` : count} new session${count === 1 ? "" : "s"}`);
  };
  // Relative times change all the time, and alone are no reason to replace anything.
  const stable = (element) => {
    const copy = element.cloneNode(true);
    for (const time of copy.querySelectorAll("time")) { time.textContent = ""; time.className = ""; }
    return copy.innerHTML;
  };
  let wait = EVERY_MS;
  const follow = async () => {
    const address = live().length ? location.href : banner()?.dataset.from;
    if (!document.hidden && address) {
      const offline = document.getElementById("offline");
      const begun = performance.now();
      // A page that takes long to make is asked for less often.
      try { await refresh(address); wait = Math.max(EVERY_MS, 10 * (performance.now() - begun)); offline.hidden = true; }
      catch (error) { wait = Math.min(wait * 2, 30000); tell(offline, error instanceof TypeError ? OFFLINE : error.message); offline.hidden = false; }
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
    fit();
    addEventListener("resize", fit);
    setInterval(tick, 1000);
    setTimeout(follow, EVERY_MS);
  });
})();
