// A round distance between ticks, for about six of them.
function step(range) {
  const rough = range / 6, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

// Two distributions over one axis; returns a function that moves the threshold line.
function histogram(place, values, axis) {
  const width = 900, height = place.clientWidth && place.clientWidth < 500 ? 460 : 300, left = 8, right = 8, bottom = 44, top = 12;
  const size = place.clientWidth && place.clientWidth < 500 ? 26 : 14;
  const inner = width - left - right, tall = height - top - bottom;
  const x = (score) => left + (inner * (score - values.low)) / (values.high - values.low);
  const highest = Math.max(...values.shares.flat(), 1e-9);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `histogram of ${values.names.join(" and ")}` });
  values.shares.forEach((shares, series) => {
    const bar = inner / shares.length;
    let path = `M${left},${top + tall}`;
    shares.forEach((share, bin) => {
      const y = (top + tall * (1 - share / highest)).toFixed(1);
      path += `L${(left + bin * bar).toFixed(1)},${y}L${(left + (bin + 1) * bar).toFixed(1)},${y}`;
    });
    put(svg, draw("path", { d: path + `L${left + inner},${top + tall}Z`, class: `area${series}` }));
  });
  put(svg, draw("line", { x1: left, x2: left + inner, y1: top + tall, y2: top + tall, class: "axis" }));
  const gap = step(values.high - values.low);
  for (let score = Math.ceil(values.low / gap) * gap; score <= values.high; score += gap) {
    const anchor = x(score) < 30 ? "start" : x(score) > width - 30 ? "end" : "middle";
    const label = Number(score.toFixed(6)).toString();
    put(svg, draw("text", { x: x(score), y: top + tall + size + 8, "text-anchor": anchor, "font-size": size }, label));
  }
  const line = draw("line", { y1: top - 6, y2: top + tall, class: "cutline", visibility: "hidden" });
  put(svg, line);
  const legend = make("div", "legend");
  values.names.forEach((name, series) => {
    const entry = make("span", "", name);
    entry.style.setProperty("--mark", series ? "var(--others)" : "var(--pairs)");
    put(legend, entry);
  });
  put(legend, make("em", "", `horizontal: ${axis}`));
  put(place, svg, legend);
  return (score) => {
    line.setAttribute("visibility", score === null ? "hidden" : "visible");
    if (score === null) return;
    const at = Math.min(left + inner, Math.max(left, x(score)));
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
  };
}
