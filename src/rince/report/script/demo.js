function showDemo(demo) {
  for (const row of demo.rows) {
    const line = make("tr", row.best ? "best" : "");
    row.cells.forEach((entry) => {
      const td = make("td", "", entry.value);
      if (entry.spread) put(td, make("span", "pm", " ± " + entry.spread));
      put(line, td);
    });
    put($("rows"), line);
  }
  demo.bars.forEach((bar) => {
    const fill = make("i");
    fill.style.width = 100 * bar.value + "%";
    put($("bars"), put(make("div", "bar" + (bar.second ? " second" : "")), make("span", "", bar.name), put(make("div"), fill), make("b", "", percent(bar.value))));
  });
  demo.histograms.forEach((one) => {
    const place = make("div", "histogram");
    put($("losses"), put(make("div"), make("h3", "", one.name), place));
    histogram(place, one.values, "cosine of a training pair");
  });
  $("cost").textContent = demo.cost;
  $("lead").textContent = demo.lead;
  $("audited").textContent = demo.audited;
}
