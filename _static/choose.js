/* The guide: shows the methods that fit what is ticked, and keeps the answers in the address. Nothing is sent. */
(function () {
  "use strict";

  function start() {
    const form = document.querySelector("form.uq-choose");
    if (!form) { return; }
    const found = form.querySelector(".uq-found");
    const leaves = Array.from(document.querySelectorAll(".uq-leaf")).map(function (box) {
      const kinds = Array.from(box.classList);
      function of(kind) {
        return kinds.filter(function (k) { return k.startsWith(kind); }).map(function (k) { return k.slice(kind.length); });
      }
      return { section: box.closest("section"), need: of("need-")[0], asks: of("have-").map(function (a) { return a.replace(/-/g, "_"); }), costs: of("cost-") };
    });
    const rows = Array.from(document.querySelectorAll(".uq-overview tbody tr"));

    function ticked(name) {
      return Array.from(form.elements[name]).filter(function (e) { return e.checked && e.value; });
    }

    function brings(inputs) {
      return inputs.flatMap(function (e) { return (e.dataset.brings || "").split(" ").filter(Boolean); });
    }

    function answers() {
      const have = ticked("have"), need = ticked("need")[0], cost = ticked("cost")[0];
      return {
        have: have.map(function (e) { return e.value; }),
        there: new Set(have.map(function (e) { return e.value; }).concat(brings(have))),
        need: need ? need.value : null,
        cost: cost ? cost.value : null,
        allowed: new Set(cost ? brings([cost]) : []),
      };
    }

    function fits(leaf, asked) {
      return (!asked.have.length || leaf.asks.every(function (a) { return asked.there.has(a); }))
        && (!asked.need || leaf.need === asked.need)
        && (!asked.cost || leaf.costs.every(function (c) { return asked.allowed.has(c); }));
    }

    function address(asked) {
      const parts = [];
      if (asked.have.length) { parts.push("have=" + asked.have.join(",")); }
      if (asked.need) { parts.push("need=" + asked.need); }
      if (asked.cost) { parts.push("cost=" + asked.cost); }
      return parts.length ? "#" + parts.join("&") : window.location.pathname + window.location.search;
    }

    function say(count, asked) {
      found.replaceChildren();
      if (count) {
        found.textContent = count === leaves.length ? "All " + count + " fit." : count + " of " + leaves.length + (count === 1 ? " fits." : " fit.");
        return;
      }
      const without = document.querySelector(".uq-without");
      const words = asked.have.length && !asked.there.has("network") ? without
        : document.querySelector(".uq-nothing.need-" + asked.need);
      found.textContent = "Nothing fits. " + (words || without).textContent.replace("If nothing fits:", "").trim();
    }

    function list(shown) {
      const links = shown.map(function (leaf) {
        const item = document.createElement("li"), link = document.createElement("a");
        link.href = "#" + leaf.section.querySelector("span[id^='choose-']").id;
        link.textContent = leaf.section.querySelector("h3").firstChild.textContent.trim();
        item.append(link);
        return item;
      });
      const place = form.querySelector(".uq-list");
      place.replaceChildren(...links);
      place.hidden = !links.length || links.length === leaves.length;
    }

    function show(remember) {
      const asked = answers();
      let count = 0;
      leaves.forEach(function (leaf, number) {
        const shown = fits(leaf, asked);
        leaf.section.hidden = !shown;
        if (rows[number]) { rows[number].hidden = !shown; }
        count += shown ? 1 : 0;
      });
      document.querySelectorAll(".uq-nothing").forEach(function (words) {
        const section = words.closest("section");
        section.hidden = Array.from(section.querySelectorAll("section")).every(function (e) { return e.hidden; });
      });
      let before = null;  // the first row of a need that is shown says which need it is
      rows.forEach(function (row, number) {
        const cell = row.cells[0];
        if (!cell.dataset.words) { cell.dataset.words = cell.textContent.trim() || (number ? rows[number - 1].cells[0].dataset.words : ""); }
        if (!row.hidden) {
          cell.textContent = leaves[number].need === before ? "" : cell.dataset.words;
          before = leaves[number].need;
        }
      });
      document.querySelectorAll(".uq-nothing, .uq-without").forEach(function (e) { e.hidden = true; });
      say(count, asked);
      list(leaves.filter(function (leaf) { return !leaf.section.hidden; }));
      if (remember) { window.history.replaceState(null, "", address(asked)); }
    }

    function read() {
      const state = new URLSearchParams(window.location.hash.slice(1));
      if (!["have", "need", "cost"].some(function (name) { return state.has(name); })) { return; }
      const have = (state.get("have") || "").split(",");
      Array.from(form.elements.have).forEach(function (e) { e.checked = have.includes(e.value); });
      ["need", "cost"].forEach(function (name) {
        Array.from(form.elements[name]).forEach(function (e) { e.checked = e.value === (state.get(name) || ""); });
      });
      show(false);
    }

    form.hidden = false;
    form.addEventListener("change", function () { show(true); });
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    form.addEventListener("reset", function () { setTimeout(function () { show(true); }, 0); });
    window.addEventListener("hashchange", read);
    // A link to a method that is not shown shows everything first.
    document.addEventListener("click", function (event) {
      const link = event.target.closest("a[href^='#']");
      const target = link && document.getElementById(decodeURIComponent(link.getAttribute("href").slice(1)));
      if (target && target.closest("section[hidden]")) { form.reset(); show(false); }
    });
    show(false);
    read();
  }

  if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", start); } else { start(); }
})();
