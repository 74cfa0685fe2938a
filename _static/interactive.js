/* Draws the interactive figures of a page from the JSON beside them. plotly.js is loaded once, from this site,
   and only when a figure comes near. */
(function () {
  "use strict";
  const here = document.currentScript.src;
  let plotly = null;

  function load() {
    plotly = plotly || new Promise(function (done, failed) {
      const script = document.createElement("script");
      script.src = new URL("plotly/plotly.min.js", here).href;
      script.onload = function () { done(window.Plotly); };
      script.onerror = failed;
      document.head.appendChild(script);
    });
    return plotly;
  }

  function look(layout) {
    const dark = document.documentElement.dataset.theme === "dark";
    const ink = dark ? "#ced6dd" : "#222832", grid = dark ? "#48566b" : "#e3e6ea";
    const changes = { "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font.color": ink };
    Object.keys(layout).filter(function (key) { return /^[xy]axis\d*$/.test(key); }).concat(["xaxis", "yaxis"])
      .forEach(function (axis) {
        changes[axis + ".gridcolor"] = grid;
        changes[axis + ".zerolinecolor"] = grid;
        changes[axis + ".linecolor"] = ink;
        changes[axis + ".tickcolor"] = ink;
      });
    if (window.innerWidth < 600) {
      Object.assign(changes, { "legend.orientation": "h", "legend.x": 0, "legend.y": 1.02, "legend.yanchor": "bottom" });
    }
    return changes;
  }

  // What is drawn in ink (data, a truth) has the page's ink: black would vanish in the dark.
  const INKS = ["#222832", "#333333", "#3f4754", "black"];
  const PLACES = ["marker.color", "line.color", "textfont.color"];

  function inked(spec) {
    const found = [];
    spec.data.forEach(function (trace, number) {
      PLACES.forEach(function (place) {
        const value = place.split(".").reduce(function (part, key) { return part && part[key]; }, trace);
        if (typeof value === "string" && INKS.includes(value.toLowerCase())) { found.push([number, place, value]); }
      });
    });
    return found;
  }

  function ink(plot, places) {
    const dark = document.documentElement.dataset.theme === "dark";
    return Promise.all(places.map(function (one) {
      return window.Plotly.restyle(plot, { [one[1]]: dark ? "#ced6dd" : one[2] }, [one[0]]);
    }));
  }

  function draw(figure) {
    const box = figure.querySelector(".uq-plotly-box");
    const spec = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    const hover = window.matchMedia("(hover: hover)").matches ? "hover" : false;
    return load().then(function (Plotly) {
      const places = inked(spec);
      return Plotly.newPlot(box, spec.data, spec.layout, { displaylogo: false, responsive: true, displayModeBar: hover })
        .then(function () { box.inked = places; return Plotly.relayout(box, look(spec.layout)); })
        .then(function () { return ink(box, box.inked); });
    });
  }

  document.addEventListener("DOMContentLoaded", function () {
    const figures = document.querySelectorAll("figure.uq-plotly");
    if (!figures.length) { return; }
    const near = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) { near.unobserve(entry.target); draw(entry.target); }
      });
    }, { rootMargin: "600px" });
    figures.forEach(function (figure) { near.observe(figure); });
    window.addEventListener("beforeprint", function () {
      figures.forEach(function (figure) { near.unobserve(figure); draw(figure); });
    });
    new MutationObserver(function () {
      document.querySelectorAll(".js-plotly-plot").forEach(function (plot) {
        window.Plotly.relayout(plot, look(plot.layout));
        ink(plot, plot.inked || []);
      });
    }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  });
})();
