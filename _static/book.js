/* Repairs of what the theme writes. Those for accessibility are named by the axe-core rule they answer. */
"use strict";
if (window.location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false; // a page opened from a disk may not fetch others
}

document.addEventListener("DOMContentLoaded", function () {
  function all(selector, act) { document.querySelectorAll(selector).forEach(act); }

  // label-content-name-mismatch
  all("button.search-button-field, details > summary", function (e) {
    if (e.textContent.trim()) { e.removeAttribute("aria-label"); }
  });
  // summary-name (the arrows in the table of contents)
  all("nav li > details > summary", function (e) {
    const link = e.closest("li").querySelector("a");
    if (!e.textContent.trim() && link) { e.setAttribute("aria-label", "Pages of " + link.textContent.trim()); }
  });
  // The same for the theme switch, whose icons are swapped for <svg><title> later: hence the observer.
  all("button.theme-switch-button", function (e) {
    function strip() {
      e.querySelectorAll("title").forEach(function (t) { t.remove(); });
      e.querySelectorAll("[title]").forEach(function (t) { t.removeAttribute("title"); });
      e.querySelectorAll("[aria-labelledby]").forEach(function (t) {
        t.removeAttribute("aria-labelledby");
        t.setAttribute("aria-hidden", "true");
      });
    }
    strip();
    new MutationObserver(strip).observe(e, { childList: true, subtree: true });
  });
  // aria-deprecated-role, aria-required-children (the bibliography)
  all("[role=doc-biblioentry], .citation-list[role=list]", function (e) { e.removeAttribute("role"); });
  // empty-table-header (a heading that is a formula, whose signs are pictures once it is set)
  all("th", function (e) {
    if (!e.querySelector(".math")) { return; }
    const said = document.createElement("span");
    said.className = "visually-hidden";
    said.textContent = e.textContent.replace(/\\[()]/g, "").trim();
    e.append(said);
  });
  // empty-table-header (the corner of a table from pandas)
  all("th", function (e) {
    if (e.textContent.trim() || e.querySelector("img")) { return; }
    const cell = document.createElement("td");
    Array.from(e.attributes).forEach(function (a) { if (a.name !== "scope") { cell.setAttribute(a.name, a.value); } });
    e.replaceWith(cell);
  });
  // region
  all("#pst-primary-sidebar", function (e) { e.setAttribute("role", "region"); e.setAttribute("aria-label", "Book navigation"); });
  // scrollable-region-focusable
  function reach() {
    all("mjx-container[display], div.math, .cell_output pre, div.highlight pre, .pst-scrollable-table-container, .uq-table, .cell_output table", function (e) {
      if (e.scrollWidth > e.clientWidth + 1) { e.tabIndex = 0; } else { e.removeAttribute("tabindex"); }
    });
  }
  const formulas = window.MathJax && window.MathJax.startup ? window.MathJax.startup.promise : Promise.resolve();
  Promise.resolve(formulas).then(reach, reach);
  window.addEventListener("load", function () { setTimeout(reach, 500); });
  // Not the window's size but the page's: side bars come and go after the window has changed.
  const article = document.querySelector(".bd-article");
  if (article) { new ResizeObserver(reach).observe(article); }
});
