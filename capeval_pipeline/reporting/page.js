"use strict";
// Unpacks plotly and draws every figure from the JSON beside it. Nothing is fetched.
//
// One rule orders all drawing, at the start and after a change of theme, width or paper: the figure nearest to the view
// comes next, each in a task of its own; those in view without delay, the others while the browser is idle. So the text
// is there first and the page scrolls while figures far below are drawn, and all are drawn soon, for search, paper and
// whoever jumps. <html data-view="drawn"> says that what is in view is drawn, data-figures="drawn" that everything is;
// neither is there while a figure waits. Heights are reserved in the markup, so nothing moves.
(() => {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  const specs = new Map(plots.map((plot) => [plot, document.getElementById(plot.dataset.spec).textContent]));
  const PAPER_WIDTH = 680;

  // "--series-1" in a specification is a CSS variable: one specification serves light, dark and paper
  const coloured = (value, styles) => {
    if (typeof value === "string") return value.startsWith("--") ? styles.getPropertyValue(value).trim() : value;
    if (Array.isArray(value)) return value.map((part) => coloured(part, styles));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, coloured(part, styles)]));
    }
    return value;
  };

  const cut = (text, limit) => {
    const plain = text.replace(/&(amp|lt|gt);/g, (_, name) => ({ amp: "&", lt: "<", gt: ">" })[name]);
    if (plain.length <= limit) return text;
    const head = Math.ceil((limit - 1) * 0.6);
    const short = plain.slice(0, head) + "…" + plain.slice(plain.length - (limit - 1 - head));
    return short.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);
  };

  // a label of two lines keeps both; one line is all others get
  const shortLabel = (text) => {
    const lines = text.split("<br>");
    return lines.map((line) => cut(line, lines.length > 1 ? 21 : 15)).join("<br>");
  };

  // names that stand closer than their letters are high run into each other: every second or third then
  const thinned = (axis, width) => {
    const step = Math.ceil(axis.tickvals.length * 12 / (0.7 * width));
    axis.tickvals = axis.tickvals.filter((_, place) => place % step === 0);
    axis.ticktext = axis.ticktext.filter((_, place) => place % step === 0);
  };

  // on a phone names take at most a third of the width, and a finger that scrolls the page must not zoom a figure
  const forWidth = (spec, width) => {
    const layout = spec.layout;
    for (const name of ["xaxis", "yaxis"]) {
      const axis = layout[name];
      if (width < 560) {
        axis.fixedrange = true;
        if (axis.ticktext && typeof axis.tickvals[0] === "number" && axis.type !== "log") {
          axis.ticktext = axis.ticktext.map(shortLabel);
          if (name === "xaxis") {
            if (axis.tickangle !== -90) axis.tickangle = -60;
            thinned(axis, width);
          }
        }
        if (axis.title && axis.title.text) axis.title.text = axis.title.text.replace(/, /g, ",<br>");
      }
    }
    if (width < 560) {
      layout.dragmode = false;
      layout.font.size = 11;
      for (const trace of spec.data) {
        if (!trace.colorbar) continue;
        trace.colorbar.len = 1;
        if (trace.z[0].length > 16) trace.texttemplate = "";
      }
    }
    return spec;
  };

  const asPrinted = () => root.classList.contains("as-printed");

  const draw = (plot) => {
    waiting.delete(plot);
    const width = asPrinted() ? PAPER_WIDTH : plot.clientWidth;
    const spec = forWidth(coloured(JSON.parse(specs.get(plot)), getComputedStyle(root)), width);
    spec.layout.width = width;
    const drawn = window.Plotly.react(plot, spec.data, spec.layout, { displaylogo: false, displayModeBar: false });
    plot.dataset.drawn = "yes";
    return drawn;
  };

  const waiting = new Set();
  let isAtWork = false;

  // pixels between a figure and what is seen of the page; 0 for a figure in view
  const distance = (plot) => {
    const { top, bottom } = plot.getBoundingClientRect();
    return Math.max(0, top - window.innerHeight, -bottom);
  };

  const nearest = () => {
    let found = null;
    for (const plot of waiting) {
      const away = distance(plot);
      if (!found || away < found.away) found = { plot, away };
    }
    return found;
  };

  const soon = () => new Promise((go) => setTimeout(go));
  // a reader who scrolls all the time leaves no idle time
  const idle = () => (window.requestIdleCallback ? new Promise((go) => requestIdleCallback(go, { timeout: 300 })) : soon());

  const CANNOT = "This browser cannot draw the figure; the table below holds the same numbers.";

  const drawWaiting = async () => {
    if (isAtWork) return;
    isAtWork = true;
    let state = "drawn";
    while (waiting.size) {
      await soon();
      let next = nearest();
      if (next && next.away > 0 && !asPrinted()) {
        root.dataset.view = "drawn";
        await idle();
        next = nearest();
      }
      if (!next) continue;
      try {
        await draw(next.plot);
      } catch (error) {
        next.plot.textContent = CANNOT;
        state = "failed";
        console.error(error);
      }
    }
    isAtWork = false;
    root.dataset.view = "drawn";
    root.dataset.figures = state;
  };

  const drawAgain = () => {
    for (const plot of plots) waiting.add(plot);
    delete root.dataset.view;
    delete root.dataset.figures;
    drawWaiting();
  };

  // a page that is not shown gets no frames
  const painted = () =>
    new Promise((go) => {
      requestAnimationFrame(() => setTimeout(go));
      setTimeout(go, 200);
    });

  const unpack = async () => {
    const packed = document.getElementById("plotly-packed");
    const signs = atob(packed.textContent);
    const bytes = new Uint8Array(signs.length);
    for (let place = 0; place < signs.length; place += 1) bytes[place] = signs.charCodeAt(place);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const text = await new Response(stream).text();
    await soon();
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
    packed.remove();
    if (!window.Plotly) throw new Error("plotly did not load");
  };

  // plotly's kinds of traces in its own order, until those that are drawn here are known
  const loadKinds = () => {
    const missing = new Set([...specs.values()].flatMap((spec) => JSON.parse(spec).data.map((trace) => trace.type)));
    missing.delete("scatter"); // part of plotly's core
    for (const load of window.Plotly.later || []) {
      if (!missing.size) break;
      const kind = load();
      window.Plotly.register(kind);
      missing.delete(kind.name);
    }
  };

  const follow = () => {
    let width = window.innerWidth;
    let pause = 0;
    addEventListener("resize", () => {
      if (window.innerWidth === width || asPrinted()) return;
      width = window.innerWidth;
      clearTimeout(pause);
      pause = setTimeout(drawAgain, 150);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
    addEventListener("beforeprint", () => {
      root.classList.add("as-printed");
      // the paper shows what is there when this function returns
      for (const plot of plots) draw(plot);
    });
    addEventListener("afterprint", () => {
      root.classList.remove("as-printed");
      drawAgain();
    });
  };

  const start = async () => {
    if (!plots.length) {
      root.dataset.view = "drawn";
      root.dataset.figures = "drawn";
      return;
    }
    try {
      await painted();
      await unpack();
      await soon();
      loadKinds();
    } catch (error) {
      for (const plot of plots) plot.textContent = CANNOT;
      root.dataset.figures = "failed";
      console.error(error);
      return;
    }
    follow();
    drawAgain();
  };

  start();
})();
