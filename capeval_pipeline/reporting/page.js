"use strict";
// Unpacks plotly, draws every figure from the JSON beside it, redraws when theme or paper changes. Nothing is fetched.
(() => {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  const specs = new Map(plots.map((plot) => [plot, document.getElementById(plot.dataset.spec).textContent]));

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

  // on a phone names take at most a third of the width, and a finger that scrolls the page must not zoom a figure
  const forWidth = (spec, width) => {
    const layout = spec.layout;
    for (const name of ["xaxis", "yaxis"]) {
      const axis = layout[name];
      if (width < 560) {
        axis.fixedrange = true;
        if (axis.ticktext && typeof axis.tickvals[0] === "number" && axis.type !== "log") {
          axis.ticktext = axis.ticktext.map(shortLabel);
          if (name === "xaxis") axis.tickangle = -60;
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

  const draw = async (width) => {
    const styles = getComputedStyle(root);
    for (const plot of plots) {
      const spec = forWidth(coloured(JSON.parse(specs.get(plot)), styles), width || plot.clientWidth);
      spec.layout.width = width || plot.clientWidth;
      await window.Plotly.react(plot, spec.data, spec.layout, { displaylogo: false, displayModeBar: false });
      plot.dataset.drawn = "yes";
    }
    root.dataset.figures = "drawn";
  };

  const unpack = async () => {
    const packed = document.getElementById("plotly-packed");
    const signs = atob(packed.textContent);
    const bytes = new Uint8Array(signs.length);
    for (let place = 0; place < signs.length; place += 1) bytes[place] = signs.charCodeAt(place);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    packed.remove();
    if (!window.Plotly) throw new Error("plotly did not load");
  };

  const start = async () => {
    if (!plots.length) {
      root.dataset.figures = "drawn";
      return;
    }
    try {
      await unpack();
      await draw();
    } catch (error) {
      root.dataset.figures = "failed";
      for (const plot of plots) {
        plot.textContent = "This browser cannot draw the figure; the table below holds the same numbers.";
      }
      console.error(error);
      return;
    }
    let width = window.innerWidth;
    let waiting = 0;
    addEventListener("resize", () => {
      if (window.innerWidth === width || root.classList.contains("as-printed")) return;
      width = window.innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => draw(), 150);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
    addEventListener("beforeprint", () => {
      root.classList.add("as-printed");
      draw(680);
    });
    addEventListener("afterprint", () => {
      root.classList.remove("as-printed");
      draw();
    });
  };

  start();
})();
