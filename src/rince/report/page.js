"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const percent = (x, digits = 1) => (100 * x).toFixed(digits) + " %";
  const whole = (x) => Math.round(x).toLocaleString("en-GB");

  // Text from the data reaches the page through textContent only.
  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  }
  function put(parent, ...children) {
    for (const child of children) if (child) parent.appendChild(child);
    return parent;
  }
  function draw(tag, attributes, text) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

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
      entry.style.setProperty("--mark", series ? "var(--strangers)" : "var(--pairs)");
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

  function card(title, big, text, className) {
    return put(make("div", "card " + (className || "")), make("h3", "", title), make("div", "big", big), text ? make("p", "", text) : null);
  }

  function rateCard(audit) {
    if (audit.useless) return card("Wrong pairs", "unknown", "pairs score like strangers", "");
    const box = card("Wrong pairs", audit.found ? percent(audit.rate) : "no noise found");
    const bar = make("div", "interval"), range = make("i"), mark = make("b");
    range.style.left = 100 * audit.low + "%";
    range.style.width = 100 * Math.max(0.005, audit.high - audit.low) + "%";
    mark.style.left = 100 * audit.rate + "%";
    const scale = put(make("div", "scale"), make("span", "", "0 %"), make("span", "", "100 %"));
    const interval = `95 % interval ${percent(audit.low)} to ${percent(audit.high)}`;
    const text = audit.found ? interval : `at most ${percent(Math.max(audit.high, 0.001))} (95 % interval)`;
    return put(box, put(bar, range, mark), scale, make("p", "", text));
  }

  function cards(audit) {
    put($("cards"), rateCard(audit),
      card("Pairs", whole(audit.pairs), `compared with ${whole(audit.strangers)} strangers by ${audit.score}`),
      card("Rule of thumb for training", `q ${audit.q}`, audit.reason));
    for (const remark of audit.remarks) put($("cards"), put(make("div", "card wide"), make("p", "", remark)));
  }

  function side(item) {
    const box = make("div", "side");
    if (item && item.image) {
      const image = make("img", item.image.startsWith("data:image/png") ? "pixels" : "");
      image.src = item.image;
      image.alt = "";
      return put(box, image);
    }
    if (item && (item.audio || item.video)) {
      const player = make(item.audio ? "audio" : "video");
      player.controls = true;
      player.preload = "metadata";
      player.src = item.audio || item.video;
      player.title = item.name;
      return put(box, player);
    }
    return put(box, make("p", "", item ? item.text : ""));
  }

  // Texts, sounds and videos need the whole width of a card.
  const isWide = (pair) => [pair.a, pair.b].some((item) => item && !item.image);

  function pairCard(pair) {
    const figure = make("figure", "pair");
    if (pair.a || pair.b) {
      put(figure, put(make("div", "sides" + (isWide(pair) ? " texts" : "")), side(pair.a), side(pair.b)));
    }
    const facts = put(make("div", "facts"), make("b", "", pair.id));
    put(facts, make("span", "", `${percent(pair.p, 0)} likely wrong`), make("span", "", `score ${pair.score.toFixed(3)}`));
    if (pair.wrong !== null) put(facts, make("span", pair.wrong ? "tag bad" : "tag", pair.wrong ? "truly wrong" : "truly right"));
    return put(figure, facts);
  }

  function gallery(audit) {
    const place = $("gallery"), more = $("more"), cards = [];
    if (audit.gallery.some(isWide)) { place.style.setProperty("--tile", "260px"); place.style.setProperty("--tile-small", "240px"); }
    function show(number) {
      for (const pair of audit.gallery.slice(cards.length, cards.length + number)) {
        cards.push(pairCard(pair));
        put(place, cards[cards.length - 1]);
      }
      more.hidden = cards.length >= audit.gallery.length;
    }
    let count = 0;
    const fade = () => cards.forEach((one, at) => one.classList.toggle("out", audit.found && at >= count));
    show(24);
    more.addEventListener("click", () => { show(24); fade(); });
    $("gallery-hint").textContent = audit.found
      ? `The ${whole(audit.gallery.length)} lowest scores, most suspicious first. Pale ones are not flagged at the chosen threshold.`
      : `Nothing is flagged. These are the ${whole(audit.gallery.length)} lowest scores.`;
    return (flagged) => { count = flagged; fade(); };
  }

  const cell = (text) => (/[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
  // A cell that starts like a formula would be run by a spreadsheet.
  const safe = (text) => cell(/^[=+\-@\t\r]/.test(text) && !/^-?[\d.]+$/.test(text) ? "'" + text : text);

  function download(ids) {
    const url = URL.createObjectURL(new Blob(["id\r\n" + ids.map((id) => safe(id) + "\r\n").join("")], { type: "text/csv" }));
    const link = make("a");
    link.href = url;
    link.download = "flagged.csv";
    put(document.body, link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  function slider(audit, moved) {
    const input = $("slider"), last = audit.stops.length - 1;
    input.min = 0;
    input.max = Math.max(last, 0);
    input.value = audit.start;
    input.disabled = last < 1;
    let now = audit.stops[audit.start];
    function update() {
      now = audit.stops[Number(input.value)];
      $("count").textContent = whole(now.count);
      $("alarms").textContent = now.count ? percent(now.alarms) : "none";
      $("threshold").textContent = now.score === null ? "none" : now.score.toFixed(3);
      $("download").disabled = !now.count;
      $("cut").textContent = now.count > audit.ids.length
        ? `The download holds the ${whole(audit.ids.length)} most suspicious pairs; the table beside this page has all.` : "";
      moved(now);
    }
    input.addEventListener("input", update);
    $("download").addEventListener("click", () => download(audit.ids.slice(0, now.count)));
    update();
  }

  function showAudit(audit) {
    for (const place of document.querySelectorAll("[data-text='title']")) place.textContent = audit.title;
    cards(audit);
    const line = histogram($("histogram"), audit.histogram, audit.score);
    const fade = gallery(audit);
    slider(audit, (stop) => { line(stop.score); fade(stop.count); });
  }

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

  if (data.demo) showDemo(data.demo);
  showAudit(data.audit);
  document.documentElement.dataset.ready = "yes";
})();
