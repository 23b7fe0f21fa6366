// What moves on the page: live numbers, and a filter that need not be sent. Everything works without it.
"use strict";

const pollEvery = 2000; // ms; the server makes at most one sample a second

function show(v) {
  for (const el of document.querySelectorAll("[data-value]")) {
    const text = v.values[el.dataset.value];
    if (text === undefined || el.textContent === text) continue;
    el.textContent = text;
    if ("badge" in el.dataset) el.className = "badge " + text.replaceAll(" ", "-");
  }
  for (const el of document.querySelectorAll("[data-chart]")) {
    el.setAttribute("points", v.charts[el.dataset.chart] || "");
  }
}

function live(root) {
  const link = document.getElementById("link");
  const say = (text, kind) => {
    if (link.textContent !== text) link.textContent = text;
    link.className = "badge " + kind;
  };
  const poll = async () => {
    try {
      if (!document.hidden) {
        const r = await fetch(root.dataset.live);
        if (!r.ok) throw new Error(r.status);
        const v = await r.json();
        if (v.shape !== root.dataset.shape) return location.reload(); // there are other rows
        show(v);
        say("live", "ready");
      }
    } catch {
      say("no connection", "down");
    }
    setTimeout(poll, pollEvery);
  };
  setTimeout(poll, 500);
}

function filter(form) {
  let timer, pending;
  const update = async () => {
    if (pending) pending.abort();
    pending = new AbortController();
    const url = form.getAttribute("action") + "?" + new URLSearchParams(new FormData(form));
    try {
      const r = await fetch(url, { signal: pending.signal });
      const page = new DOMParser().parseFromString(await r.text(), "text/html");
      document.getElementById(form.dataset.filter).replaceWith(page.getElementById(form.dataset.filter));
      history.replaceState(null, "", url);
    } catch {
      // Superseded by the next letter, or no connection: the button says so.
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, 150);
  });
}

// slow says that an answer takes a while. The button stays as it is for whoever comes back to the page.
function slow(form) {
  const button = form.querySelector("button");
  const text = button.textContent;
  form.addEventListener("submit", () => {
    button.textContent = form.dataset.slow;
    button.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => {
    button.textContent = text;
    button.removeAttribute("aria-busy");
  });
}

for (const el of document.querySelectorAll("[data-live]")) live(el);
for (const el of document.querySelectorAll("[data-filter]")) filter(el);
for (const el of document.querySelectorAll("[data-slow]")) slow(el);
