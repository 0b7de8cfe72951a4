// The slider of a session's page: shows the state after an event without loading the whole page. Without this file, the form does it.
"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const start = () => {
    const form = get("when"), range = get("at-range"), number = get("at"), told = get("when-event");
    if (!form || !range || !number || !told) return;
    range.hidden = false;
    form.classList.add("scripted");
    let wanted = 0, timer = 0;

    const address = (at) => {
      const url = new URL(location.href);
      url.searchParams.delete("page");
      if (at >= Number(range.max)) url.searchParams.delete("at"); else url.searchParams.set("at", at);
      url.hash = "";
      return url;
    };
    const replace = (element, fresh) => {
      for (const name of element.getAttributeNames()) if (name !== "id" && !fresh.hasAttribute(name)) element.removeAttribute(name);
      for (const name of fresh.getAttributeNames()) if (name !== "id") element.setAttribute(name, fresh.getAttribute(name));
      element.replaceChildren(...fresh.childNodes);
    };
    const show = async (at) => {
      wanted = at;
      const url = address(at);
      const response = await fetch(url, { headers: { accept: "text/html" }, redirect: "manual", cache: "no-store" });
      if (response.type === "opaqueredirect") { location.reload(); return; }
      if (!response.ok || wanted !== at) return; // a later move has overtaken this one
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (wanted !== at) return;
      for (const element of document.querySelectorAll("[data-at][id], #run-controls")) {
        const fresh = page.getElementById(element.id);
        if (fresh) replace(element, fresh);
      }
      const tabs = page.querySelectorAll("a[data-tab]");
      document.querySelectorAll("a[data-tab]").forEach((link, place) => { if (tabs[place]) link.href = tabs[place].getAttribute("href"); });
      for (const id of ["at-prev", "at-next"]) {
        const fresh = page.getElementById(id);
        if (fresh) { get(id).href = fresh.getAttribute("href"); get(id).className = fresh.className; }
      }
      form.parentElement.classList.toggle("past", url.searchParams.has("at"));
      history.replaceState(null, "", url);
    };
    const move = (at) => {
      const to = Math.min(Math.max(1, Math.round(at) || 1), Number(range.max));
      range.value = number.value = String(to);
      clearTimeout(timer);
      timer = setTimeout(() => show(to).catch(() => { location.href = address(to); }), 80);
    };
    range.addEventListener("input", () => move(Number(range.value)));
    number.addEventListener("change", () => move(Number(number.value)));
    form.addEventListener("submit", (event) => { event.preventDefault(); move(Number(number.value)); });
    for (const [id, by] of [["at-prev", -1], ["at-next", 1]]) {
      get(id).addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        move(Number(range.value) + by);
      });
    }
    // While the run is followed live, the slider stays at its end.
    new MutationObserver(() => {
      const last = Number(told.dataset.last);
      if (!last || last <= Number(range.max)) return;
      const follows = !new URL(location.href).searchParams.has("at");
      range.max = number.max = String(last);
      get("at-last").textContent = `of ${last.toLocaleString("en")}`;
      if (follows && document.activeElement !== number) range.value = number.value = String(last);
    }).observe(told, { attributes: true, childList: true });
  };
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    start();
  });
})();
