/* What this reader has read and which answers of a quiz were opened, kept by the browser; nothing is sent. */
(function () {
  "use strict";
  const KEY = "known-unknowns-progress";
  const CHAPTER = /book\/((?:foundations|posteriors|decisions|synthesis)\/\w+)\.html$/;

  function remembered() {
    try {
      const state = JSON.parse(window.localStorage.getItem(KEY)) || {};
      return { read: Array.isArray(state.read) ? state.read : [], opened: Object(state.opened) };
    } catch (_) {
      return { read: [], opened: {} }; // no storage, or not ours: begin anew
    }
  }

  function remember(state) {
    try { window.localStorage.setItem(KEY, JSON.stringify(state)); } catch (_) { /* private windows may refuse */ }
  }

  function chapterOf(address) {
    const found = CHAPTER.exec(new URL(address, window.location.href).pathname);
    return found && found[1];
  }

  function element(name, className, text) {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text || "";
    return made;
  }

  function words(state, chapter) {
    const answers = (state.opened[chapter] || []).length;
    const parts = state.read.includes(chapter) ? ["read"] : [];
    if (answers) { parts.push(answers + (answers === 1 ? " answer" : " answers") + " of the quiz opened"); }
    return parts.join(", ");
  }

  function markSidebar(state) {
    document.querySelectorAll(".bd-links a[href]").forEach(function (link) {
      link.querySelectorAll(".uq-tick").forEach(function (tick) { tick.remove(); });
      if (state.read.includes(chapterOf(link.href))) {
        const tick = element("span", "uq-tick", " ✓");
        tick.setAttribute("aria-hidden", "true");
        link.append(tick, element("span", "uq-tick visually-hidden", " (read)"));
      }
    });
  }

  function markCards(state) {
    document.querySelectorAll(".uq-cards .sd-card").forEach(function (card) {
      const link = card.querySelector("a[href]");
      card.querySelectorAll(".uq-state").forEach(function (old) { old.remove(); });
      const said = link && words(state, chapterOf(link.href));
      if (said) { card.querySelector(".sd-card-body").append(element("p", "uq-state", "✓ " + said)); }
    });
    const box = document.querySelector(".uq-progress");
    if (!box) { return; }
    const cards = document.querySelectorAll(".uq-cards .sd-card").length;
    box.hidden = !(state.read.length || Object.keys(state.opened).length);
    box.replaceChildren();
    box.append(element("span", "", "On this machine you have read " + state.read.length + " of " + cards + " chapters. "));
    const forget = element("button", "uq-forget", "Forget it");
    forget.type = "button";
    forget.addEventListener("click", function () {
      window.localStorage.removeItem(KEY);
      show();
    });
    box.append(forget);
  }

  function markChapter(state, chapter) {
    const article = document.querySelector("article.bd-article");
    if (!chapter || !article) { return; }
    let button = article.querySelector(".uq-read");
    if (!button) {
      button = element("button", "uq-read");
      button.type = "button";
      button.addEventListener("click", function () {
        const now = remembered();
        now.read = now.read.includes(chapter) ? now.read.filter(function (c) { return c !== chapter; }) : now.read.concat(chapter);
        remember(now);
        show();
      });
      article.querySelector(".uq-foot").before(button);
    }
    const read = state.read.includes(chapter);
    button.textContent = read ? "✓ Read" : "Mark as read";
    button.setAttribute("aria-pressed", String(read));
    document.querySelectorAll("#quiz details.sd-dropdown").forEach(function (details, number) {
      details.classList.toggle("uq-seen", (state.opened[chapter] || []).includes(number));
    });
  }

  function show() {
    const state = remembered();
    markSidebar(state);
    markCards(state);
    markChapter(state, chapterOf(window.location.href));
  }

  document.addEventListener("DOMContentLoaded", function () {
    const chapter = chapterOf(window.location.href);
    document.querySelectorAll("#quiz details.sd-dropdown").forEach(function (details, number) {
      details.addEventListener("toggle", function () {
        if (!details.open || !chapter) { return; }
        const state = remembered();
        state.opened[chapter] = Array.from(new Set((state.opened[chapter] || []).concat(number)));
        remember(state);
        show();
      });
    });
    show();
  });
})();
