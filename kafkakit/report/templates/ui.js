"use strict";
// New readings are announced by events; the page that is shown is fetched again, and only what changed is replaced.
(() => {
  const pause = document.getElementById("pause");
  if (!pause) return;
  const gone = document.getElementById("gone");
  const silent = 35000;
  let paused = false, source = null, last = Date.now(), busy = false, failed = false;
  // The number of the readings that the page was made of, and of the newest ones, as an event tells it.
  let shown = versionOf(document), newest = shown;

  function versionOf(page) { return page.getElementById("reading").dataset.version; }

  function replaceChanged(fresh) {
    const focused = document.activeElement && document.activeElement.id;
    if (document.title !== fresh.title) document.title = fresh.title;
    const heading = document.querySelector("h1"), other = fresh.querySelector("h1");
    if (heading && other && heading.textContent !== other.textContent) heading.textContent = other.textContent;
    const ids = new Set(), chosen = keyOf(document.querySelector("tr.chosen"));
    let above = null;
    for (const part of fresh.querySelectorAll("[data-live]")) {
      ids.add(part.id);
      const here = document.getElementById(part.id), last = above;
      above = part.id;
      if (here && here.contains(document.activeElement) && document.activeElement.matches("input")) continue;
      if (here && selected(here)) continue;
      if (!here) {
        document.getElementById(last).after(document.importNode(part, true));
      } else if (here.outerHTML !== part.outerHTML) {
        const node = document.importNode(part, true);
        const button = here.querySelector("#pause");
        if (button) node.querySelector("#pause").replaceWith(button);
        here.replaceWith(node);
      }
    }
    for (const part of document.querySelectorAll("section[data-live]")) if (!ids.has(part.id)) part.remove();
    const rows = chosen === null || document.querySelector("tr.chosen") ? [] : document.querySelectorAll("tbody tr");
    for (const row of rows) if (keyOf(row) === chosen) { row.classList.add("chosen"); break; }
    if (focused) {
      const again = document.getElementById(focused);
      if (again && again !== document.activeElement) again.focus({preventScroll: true});
    }
  }

  // By its first link a row is known again in the next reading.
  function keyOf(row) {
    const link = row && row.querySelector("a");
    return link ? link.getAttribute("href") : row && row.textContent;
  }

  function selected(part) {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  async function refresh() {
    if (busy || paused) return;
    busy = true;
    try {
      const answer = await fetch(location.href, {headers: {Accept: "text/html"}, cache: "no-store"});
      if (answer.status === 401) { location.href = "/login"; return; }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      // A refusal, or a page of a proxy: what is shown stays, as old.
      failed = !answer.ok || !fresh.querySelector("[data-live]");
      if (!failed) { replaceChanged(fresh); shown = versionOf(fresh); last = Date.now(); }
      gone.hidden = !failed;
    } catch (error) {
      failed = true;
      gone.hidden = false;
    } finally {
      busy = false;
    }
    if (!failed && Number(newest) > Number(shown)) refresh();
  }

  function listen() {
    if (source || document.hidden || paused) return;
    source = new EventSource("/events");
    source.addEventListener("reading", (event) => {
      last = Date.now();
      gone.hidden = !failed;
      newest = event.data;
      if (newest !== shown || failed) refresh();
    });
    source.addEventListener("heartbeat", () => {
      last = Date.now();
      gone.hidden = !failed;
      if (failed) refresh();
    });
  }

  function stop() {
    if (source) source.close();
    source = null;
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue" : "Pause";
    if (paused) stop(); else { listen(); refresh(); }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stop(); } else { last = Date.now(); listen(); refresh(); }
  });
  setInterval(() => { if (!document.hidden && !paused && Date.now() - last > silent) gone.hidden = false; }, 1000);

  const isTyping = (event) => event.target.matches("input, textarea, select");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
    const rows = [...document.querySelectorAll("tbody tr")];
    const at = rows.findIndex((row) => row.classList.contains("chosen"));
    const go = (selector) => { const link = document.querySelector(selector); if (link) link.click(); };
    if (event.key >= "1" && event.key <= "9") {
      const link = document.querySelectorAll("nav[aria-label=Pages] a[accesskey]")[Number(event.key) - 1];
      if (link) link.click();
    } else if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (field) { event.preventDefault(); field.focus(); }
    } else if (event.key === "j" || event.key === "k") {
      const next = Math.min(rows.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)));
      if (at >= 0) rows[at].classList.remove("chosen");
      if (rows[next]) { rows[next].classList.add("chosen"); rows[next].scrollIntoView({block: "nearest"}); }
    } else if (event.key === "Enter" && at >= 0) {
      const link = rows[at].querySelector("a");
      if (link) link.click();
    } else if (event.key === "[") { go(".pager a[rel=prev]");
    } else if (event.key === "]") { go(".pager a[rel=next]");
    } else if (event.key === "r") { refresh(); }
  });
  listen();
})();
