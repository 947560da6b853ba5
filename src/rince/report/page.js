const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const percent = (x, digits = 1) => (100 * x).toFixed(digits) + "%";
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

const plural = (n, one) => `${whole(n)} ${one}${n === 1 ? "" : "s"}`;
const percentOrNone = (x) => (x === null ? "cannot tell" : percent(x));

// A spreadsheet would run a cell that starts like a formula: it gets a quote in front, as in rince/_support/csv_cells.py.
function isFormula(text) {
  const start = text.replace(/^'+/, "");
  if (/^[\t\r\n]/.test(start)) return true;
  const first = start.trimStart().charAt(0).normalize("NFKC").charAt(0);
  return first !== "" && "=+-@".includes(first);
}
const cell = (text) => (/[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
const safe = (text) => cell(isFormula(text) && !/^-?[\d.]+$/.test(text) ? "'" + text : text);
const unsafe = (text) => (text.startsWith("'") && isFormula(text) ? text.slice(1) : text);

function saveFile(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = make("a");
  link.href = url;
  link.download = name;
  put(document.body, link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Rows of cells, with quotes as spreadsheets write them.
function parseCsv(text) {
  const rows = [];
  let row = [], value = "", quoted = false;
  for (let at = 0; at < text.length; at++) {
    const c = text[at];
    if (quoted) {
      if (c !== '"') value += c;
      else if (text[at + 1] === '"') { value += '"'; at++; } else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === ",") { row.push(value); value = ""; } else if (c === "\n") {
      row.push(value.replace(/\r$/, ""));
      rows.push(row);
      row = [];
      value = "";
    } else value += c;
  }
  if (value || row.length) rows.push([...row, value.replace(/\r$/, "")]);
  return rows;
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
// The verdict: the share with its interval on the left, what it means and depends on at the right.
function verdict(audit) {
  const unknown = audit.uninformative || audit.verdict === "cannot tell";
  const big = unknown ? "cannot tell" : audit.found ? audit.share : "none found";
  const share = put(make("div", "share"), make("h3", "", "Unrelated pairs"), make("div", "big", big));
  const bar = make("div", "interval"), range = make("i"), mark = make("b");
  range.style.left = 100 * audit.low + "%";
  range.style.width = 100 * Math.max(0.005, audit.high - audit.low) + "%";
  mark.style.left = 100 * audit.rate + "%";
  mark.hidden = !audit.found;
  put(share, put(bar, range, mark), make("p", "", audit.interval));
  const text = make("div", "lines");
  for (const line of audit.assumptions) put(text, make("p", "condition", line));
  const reported = audit.issues.filter((issue) => issue.reported).map((issue) => issue.text);
  const lines = new Set([...audit.lines, ...audit.limits, ...reported]);
  for (const line of lines) put(text, make("p", line === audit.lines[0] ? "main" : "", line));
  put($("verdict"), share, text);
}

function notes(audit) {
  const lines = [
    `${plural(audit.pairs, "pair")} compared with ${whole(audit.mismatched)} mismatched pairs by ${audit.score}.`,
    audit.auroc === null ? "" : `A right pair outscores about ${percent(audit.auroc, 0)} of mismatched pairs on average.`,
    ...audit.remarks,
    audit.advice,
  ];
  for (const line of lines) if (line) put($("note-lines"), make("li", "", line));
}

// One row per issue type; a click on its count lists its pairs, a click on an example opens it.
function issues(audit, list) {
  $("issues").hidden = !audit.issues.length;
  for (const issue of audit.issues) {
    const name = put(make("td"), make("b", "", issue.title)), count = make("td"), examples = make("td", "examples");
    const linked = issue.claimed && (issue.name === "unrelated" || audit.rows_issues.some((found) => found.includes(issue.name)));
    const number = make(linked ? "button" : "span", linked ? "link" : "", issue.claimed ? whole(issue.count) : issue.name === "better_partner" ? "ranking" : "none");
    if (linked) number.addEventListener("click", () => list.issue(issue.name));
    put(count, number);
    for (const example of issue.examples) {
      const link = make("button", "link", example.label);
      link.type = "button";
      link.addEventListener("click", () => list.open(example.row));
      put(examples, link);
    }
    put($("issue-rows"), put(make("tr", issue.claimed ? "" : "soft"), name, count, make("td", "what", issue.text), examples));
  }
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
    $("cut").textContent = now.count > audit.rows.id.length
      ? `The download holds the ${whole(audit.rows.id.length)} most suspicious pairs; the table beside this page has all.` : "";
    moved(now);
  }
  input.addEventListener("input", update);
  $("download").addEventListener("click", () => {
    saveFile("flagged.csv", "id\r\n" + audit.rows.id.slice(0, now.count).map((id) => safe(id) + "\r\n").join(""));
  });
  update();
}
// The noise rate by group: a table with bars, suspicious groups first; a click shows the pairs of a group.
function groupRow(group, widest, choose) {
  const line = make("tr", group.unusual ? "unusual" : "");
  const name = make("button", "link", group.name);
  name.type = "button";
  name.addEventListener("click", () => choose(group.name));
  const bar = make("div", "interval"), range = make("i"), mark = make("b");
  range.style.left = (100 * group.interval[0]) / widest + "%";
  range.style.width = (100 * Math.max(0.004, group.interval[1] - group.interval[0])) / widest + "%";
  mark.style.left = (100 * (group.rate || 0)) / widest + "%";
  mark.hidden = group.rate === null;
  const rate = make("td", "", group.rate === null ? `at most ${percent(group.interval[1])}` : percent(group.rate));
  if (group.rate !== null) put(rate, make("span", "pm", ` ${percent(group.interval[0])} to ${percent(group.interval[1])}`));
  return put(line, put(make("td"), name, group.unusual ? make("span", "tag bad", "unusual") : null),
    make("td", "", whole(group.pairs)), make("td", "", whole(group.flagged)), rate, put(make("td", "bars"), put(bar, range, mark)));
}

function groups(audit, choose) {
  const place = $("groups");
  place.hidden = !audit.groups.length;
  if (place.hidden) return;
  const widest = Math.max(0.01, ...audit.groups.map((group) => group.interval[1]));
  for (const group of audit.groups) put($("group-rows"), groupRow(group, widest, choose));
  const cut = audit.group_count > audit.groups.length ? ` The first ${whole(audit.groups.length)} of ${whole(audit.group_count)} are listed.` : "";
  $("groups-hint").textContent = `Unrelated pairs by group with 95% intervals, suspicious groups first; bars end at ${percent(widest, 0)}. Unusual: its pairs score clearly worse than the others.${cut}`;
}
// Marks made by hand: kept in this browser under the key of the audit, exported as CSV, and read back.
const MARKS = ["keep", "wrong", "unsure"];

function marksOf(audit) {
  const place = `rince-review:${audit.key}`, listeners = [];
  let marks = { ...audit.marks }, stored = true;
  function recall() {
    try {
      const text = localStorage.getItem(place);
      if (text !== null) marks = JSON.parse(text);
    } catch { stored = false; }
  }
  function keep() {
    try { localStorage.setItem(place, JSON.stringify(marks)); } catch { stored = false; }
    for (const listener of listeners) listener();
  }
  recall();
  window.addEventListener("storage", (event) => {  // another tab with the same page
    if (event.key !== place) return;
    recall();
    for (const listener of listeners) listener();
  });
  return {
    of: (row) => marks[row],
    set(row, mark) {
      if (mark === undefined || marks[row] === mark) delete marks[row];
      else marks[row] = mark;
      keep();
    },
    replace(all) { marks = all; keep(); },
    counts() {
      const sum = {};
      for (const mark of Object.values(marks)) sum[mark] = (sum[mark] || 0) + 1;
      return sum;
    },
    all: () => marks,
    stored: () => stored,
    changed: (listener) => listeners.push(listener),
  };
}

function exportMarks(audit, marks) {
  const at = new Map(audit.rows.row.map((row, place) => [row, place]));
  const lines = Object.entries(marks.all()).map(([row, mark]) => {
    const place = at.get(Number(row));
    return [row, safe(audit.rows.id[place]), mark, audit.rows.score[place], audit.rows.p[place]].join(",") + "\r\n";
  });
  saveFile("review.csv", "row,id,mark,score,p_wrong\r\n" + lines.join(""));
}

// The marks of a CSV, or why they do not belong to this audit.
function importMarks(audit, text) {
  const [head, ...lines] = parseCsv(text.replace(/^\ufeff/, ""));
  const [row, id, mark] = ["row", "id", "mark"].map((name) => (head || []).indexOf(name));
  if (Math.min(row, id, mark) < 0) return "This is not a review: it must have the columns row, id and mark.";
  const at = new Map(audit.rows.row.map((number, place) => [number, place])), found = {};
  for (const line of lines) {
    const place = at.get(Number(line[row]));
    if (place === undefined || audit.rows.id[place] !== unsafe(line[id])) return `This review belongs to another audit (row ${line[row]}).`;
    if (!MARKS.includes(line[mark])) return `${line[mark]} is not a mark: marks are keep, wrong and unsure.`;
    found[line[row]] = line[mark];
  }
  return found;
}

function review(audit, marks, refresh) {
  const say = (text) => { $("review-message").textContent = text; };
  function count() {
    const counts = marks.counts();
    const told = MARKS.filter((mark) => counts[mark]).map((mark) => `${whole(counts[mark])} ${mark}`).join(", ");
    $("marked").textContent = told ? `Marked: ${told}` : "Nothing marked yet";
    $("export").disabled = $("forget").disabled = !told;
    if (!marks.stored()) say("This browser keeps no marks for local pages: export them before you close it.");
  }
  marks.changed(() => { count(); refresh(); });
  $("export").addEventListener("click", () => exportMarks(audit, marks));
  $("import").addEventListener("change", async (event) => {
    const file = event.target.files[0];
    event.target.value = "";
    if (!file) return;
    const found = importMarks(audit, await file.text());
    if (typeof found === "string") { say(found); return; }
    marks.replace({ ...marks.all(), ...found });
    say(`${plural(Object.keys(found).length, "mark")} loaded.`);
  });
  $("load").addEventListener("click", () => $("import").click());
  $("forget").addEventListener("click", () => {
    if ($("forget").dataset.sure) { marks.replace({}); say("All marks are cleared."); delete $("forget").dataset.sure; $("forget").textContent = "Clear marks"; return; }
    $("forget").dataset.sure = "yes";
    $("forget").textContent = "Really clear?";
    setTimeout(() => { delete $("forget").dataset.sure; $("forget").textContent = "Clear marks"; }, 4000);
  });
  count();
}
// Which pairs are listed and in which order; indices are places in audit.rows, most suspicious first.
function chooser(audit, marks) {
  const { rows } = audit, total = rows.id.length;
  let haystack = null, shuffled = null;
  const words = (item) => (typeof item === "string" ? item : item ? item.text || item.name || "" : "");

  function searched(query) {
    haystack = haystack || rows.id.map((id, at) => `${id}\n${words(rows.a[at])}\n${words(rows.b[at])}`.toLowerCase());
    const needles = query.toLowerCase().split(/\s+/).filter(Boolean);
    return (at) => needles.every((needle) => haystack[at].includes(needle));
  }

  // A fixed order that looks random, so that a review of its beginning is a fair sample, also tomorrow.
  function random() {
    if (shuffled) return shuffled;
    shuffled = Uint32Array.from({ length: total }, (_, at) => at);
    let state = 0x9e3779b9 ^ total;
    for (let at = total - 1; at > 0; at--) {
      state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0;
      const other = (state >>> 0) % (at + 1);
      [shuffled[at], shuffled[other]] = [shuffled[other], shuffled[at]];
    }
    return shuffled;
  }

  let ranks = null;
  function idRanks() {  // item2 before item10: numbers are padded once, since comparing by locale is ten times slower
    if (ranks) return ranks;
    const keys = rows.id.map((id) => id.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0")));
    ranks = new Uint32Array(total);
    Array.from(keys.keys()).sort((x, y) => (keys[x] < keys[y] ? -1 : keys[x] > keys[y] ? 1 : x - y)).forEach((at, rank) => { ranks[at] = rank; });
    return ranks;
  }
  const orders = {
    suspicious: (list) => list,
    right: (list) => list.reverse(),
    random: (list) => { const there = new Uint8Array(total); for (const at of list) there[at] = 1; return random().filter((at) => there[at]); },
    id: (list) => { const rank = idRanks(); return list.sort((x, y) => rank[x] - rank[y]); },
    group: (list) => list.sort((x, y) => audit.rows_group[x] - audit.rows_group[y] || x - y),
    input: (list) => list.sort((x, y) => rows.row[x] - rows.row[y]),
  };

  return ({ query, show, group, sort, flagged }) => {
    const tests = [];
    if (query) tests.push(searched(query));
    if (group !== "") tests.push((at) => audit.rows_group[at] === Number(group));
    const mark = (at) => marks.of(rows.row[at]);
    if (show === "flagged") tests.push((at) => at < flagged);
    if (show === "unflagged") tests.push((at) => at >= flagged);
    if (show === "marked") tests.push((at) => mark(at) !== undefined);
    if (show === "unmarked") tests.push((at) => mark(at) === undefined);
    if (show.startsWith("issue:")) tests.push((at) => (audit.rows_issues[at] || []).includes(show.slice(6)));
    if (MARKS.includes(show)) tests.push((at) => mark(at) === show);
    const found = new Uint32Array(total);
    let count = 0;
    for (let at = 0; at < total; at++) if (tests.every((test) => test(at))) found[count++] = at;
    return orders[sort](found.slice(0, count));
  };
}
// The list of pairs: only the rows in sight are in the page, however many there are.
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
  return put(box, make("p", "", typeof item === "string" ? item : item ? item.text : ""));
}

function markButtons(row, marks) {
  const box = make("div", "mark");
  for (const mark of MARKS) {
    const button = make("button", mark, mark);
    button.type = "button";
    button.setAttribute("aria-pressed", marks.of(row) === mark);
    button.addEventListener("click", (event) => { event.stopPropagation(); marks.set(row, mark); });
    put(box, button);
  }
  return box;
}

function factsOf(audit, at, isFlagged) {
  const { rows } = audit, facts = put(make("div", "facts"), make("b", "", rows.id[at]));
  const judged = rows.score[at] !== null;
  put(facts, audit.found && judged ? make("span", "", `${percent(rows.p[at], 0)} likely unrelated`) : null,
    make("span", "", judged ? `score ${rows.score[at].toFixed(3)}` : "not judged"));
  if (audit.rows_group.length) put(facts, make("span", "", audit.group_names[audit.rows_group[at]]));
  const best = partnersAt(audit, at)[0];
  if (best) put(facts, make("span", "", `perhaps ${best.id} (${percent(best.p, 0)})`));
  const tags = make("div", "tags");
  if (isFlagged) put(tags, make("span", "tag warn", "flagged"));
  for (const name of audit.rows_issues[at] || []) put(tags, make("span", "tag bad", name));
  if (audit.truth) put(tags, make("span", rows.wrong[at] ? "tag bad" : "tag", rows.wrong[at] ? "truly wrong" : "truly right"));
  return put(facts, tags);
}

// What a pair may belong to instead, best first, where new partners were sought.
function partnersAt(audit, at) {
  return (audit.partners || {})[audit.rows.row[at]] || [];
}

function partnersOf(audit, at) {
  const news = partnersAt(audit, at);
  if (!news.length) return null;
  const box = make("div", "partners");
  for (const one of news) put(box, put(make("figure"), one.item ? side(one.item) : null, make("figcaption", "", `${one.id}: ${percent(one.p, 0)}`)));
  return put(make("div"), make("p", "hint", "New partners, with the probability to be the right one"), box);
}

function sidesOf(audit, at) {
  const { rows } = audit;
  if (!audit.shows.a && !audit.shows.b) return null;
  return put(make("div", "sides"), audit.shows.a ? side(rows.a[at]) : null, audit.shows.b ? side(rows.b[at]) : null);
}

// One pair, large, with its marks; arrows go to the next and the one before.
function details(audit, marks, listed) {
  const dialog = $("detail"), body = $("detail-body");
  let place = 0;
  function draw() {
    const at = listed()[place], focused = body.contains(document.activeElement) ? document.activeElement.className : "";
    body.replaceChildren();
    put(body, sidesOf(audit, at), partnersOf(audit, at), factsOf(audit, at, listed.flagged(at)), markButtons(audit.rows.row[at], marks));
    $("detail-before").disabled = place === 0;
    $("detail-next").disabled = place >= listed().length - 1;
    const again = MARKS.includes(focused) && body.querySelector(`.mark .${focused}`);
    if (dialog.open && !dialog.contains(document.activeElement)) (again || $("detail-close")).focus();  // or keys go nowhere
  }
  const go = (by) => { if (listed()[place + by] !== undefined) { place += by; draw(); } };
  $("detail-before").addEventListener("click", () => go(-1));
  $("detail-next").addEventListener("click", () => go(1));
  $("detail-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => body.replaceChildren());  // stops what plays
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") go(-1);
    else if (event.key === "ArrowRight") go(1);
    else {
      const at = listed()[place];  // marking may take the pair off the list, and the next one moves up
      markByKey(event, audit.rows.row[at], marks, () => { if (listed()[place] === at) go(1); });
    }
  });
  marks.changed(() => { if (dialog.open && listed()[place] !== undefined) draw(); });
  return (at) => { place = at; draw(); dialog.showModal(); };
}

function markByKey(event, row, marks, after) {
  const mark = { k: "keep", w: "wrong", u: "unsure" }[event.key];
  if (!mark || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  marks.set(row, mark);
  after();
}

function pairs(audit, marks) {
  const view = $("list"), space = $("space"), drawn = new Map();
  const choose = chooser(audit, marks), wish = { query: "", show: "all", group: "", sort: "suspicious", flagged: 0 };
  const media = [audit.rows.a, audit.rows.b].some((items) => items.some((item) => item && typeof item === "object" && !item.text));
  let listed = [], height = 100;
  const current = Object.assign(() => listed, { flagged: (at) => at < wish.flagged });
  const open = details(audit, marks, current);

  function measure() {
    const narrow = view.clientWidth < 620, shown = audit.shows.a || audit.shows.b;
    height = !shown ? (narrow ? 104 : 58) : media ? (narrow ? 262 : 150) : narrow ? 252 : 116;
    view.classList.toggle("text", !media);
    view.classList.toggle("bare", !shown);
    view.style.setProperty("--row", height + "px");
  }
  function row(place) {
    const at = listed[place], element = make("article", "row" + (current.flagged(at) || !audit.found ? "" : " out"));
    element.tabIndex = 0;
    element.setAttribute("role", "listitem");
    element.dataset.place = place;
    element.style.top = place * height + "px";
    const number = audit.rows.row[at];
    element.dataset.mark = marks.of(number) || "";
    return put(element, sidesOf(audit, at), factsOf(audit, at, current.flagged(at)), markButtons(number, marks));
  }
  function draw() {
    const first = Math.max(0, Math.floor(view.scrollTop / height) - 4);
    const last = Math.min(listed.length, Math.ceil((view.scrollTop + view.clientHeight) / height) + 4);
    for (const [place, element] of drawn) if (place < first || place >= last) { element.remove(); drawn.delete(place); }
    for (let place = first; place < last; place++) {
      if (drawn.has(place)) continue;
      drawn.set(place, row(place));
      put(space, drawn.get(place));
    }
  }
  function redraw() {
    const active = document.activeElement && document.activeElement.closest && document.activeElement.closest(".row");
    const focused = active ? Number(active.dataset.place) : -1;
    for (const element of drawn.values()) element.remove();
    drawn.clear();
    space.style.height = listed.length * height + "px";
    view.style.height = Math.min(listed.length * height, Math.round(window.innerHeight * 0.6)) + 2 + "px";
    draw();
    if (drawn.has(focused)) drawn.get(focused).focus({ preventScroll: true });
  }
  function refresh(keep) {
    listed = choose(wish);
    if (!keep) view.scrollTop = 0;
    $("found").textContent = `${whole(listed.length)} of ${plural(audit.rows.id.length, "pair")}`;
    redraw();
  }
  function step(place) {
    view.scrollTop = Math.max(view.scrollTop, (place + 1) * height - view.clientHeight);
    draw();
    if (drawn.has(place)) drawn.get(place).focus({ preventScroll: true });
  }

  let waiting = false;
  view.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  });
  view.addEventListener("click", (event) => {
    const element = event.target.closest(".row");
    if (element && !event.target.closest("button, audio, video")) open(Number(element.dataset.place));
  });
  view.addEventListener("keydown", (event) => {
    const element = event.target.closest(".row");
    if (!element) return;
    const place = Number(element.dataset.place);
    if (event.key === "Enter" && event.target === element) open(place);
    else if (event.key === "ArrowDown") { event.preventDefault(); step(Math.min(place + 1, listed.length - 1)); }
    else if (event.key === "ArrowUp") { event.preventDefault(); view.scrollTop = Math.min(view.scrollTop, Math.max(0, place - 1) * height); step(Math.max(0, place - 1)); }
    else {
      const at = listed[place];
      markByKey(event, audit.rows.row[at], marks, () => step(Math.min(listed[place] === at ? place + 1 : place, listed.length - 1)));
    }
  });
  window.addEventListener("resize", () => { measure(); redraw(); });

  let typing = 0;
  $("search").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => { wish.query = event.target.value.trim(); refresh(); }, 120);
  });
  for (const name of ["show", "group", "sort"]) {
    $(name).addEventListener("change", (event) => { wish[name] = event.target.value; refresh(); });
  }
  $("group").hidden = !audit.group_names.length;
  audit.group_names.forEach((name, code) => { const option = make("option", "", name); option.value = code; put($("group"), option); });
  for (const issue of audit.issues) {
    if (!issue.claimed || issue.name === "unrelated") continue;
    const option = make("option", "", issue.title);
    option.value = `issue:${issue.name}`;
    put($("show"), option);
  }
  for (const option of [...$("sort").options]) if (option.value === "group" && !audit.group_names.length) option.remove();
  $("pairs-hint").textContent = (audit.found ? "Pale pairs are not flagged at the chosen threshold." : "Nothing is flagged. These pairs fit worst; look at them first.")
    + (audit.cut ? ` The page holds the ${whole(audit.rows.id.length)} most suspicious of ${whole(audit.pairs)} pairs; the table beside it has all.` : "")
    + " Click a pair to enlarge it; mark with the buttons or the keys k, w, u.";
  measure();
  refresh();
  return {
    refresh: () => refresh(true),
    flag(count) { wish.flagged = count; if (wish.show === "flagged" || wish.show === "unflagged") refresh(); else redraw(); },
    group(name) {
      wish.group = $("group").value = String(audit.group_names.indexOf(name));
      refresh();
      $("pairs").scrollIntoView();
    },
    issue(name) {
      wish.show = $("show").value = name === "unrelated" ? "flagged" : `issue:${name}`;
      refresh();
      $("pairs").scrollIntoView();
    },
    open(row) {
      const at = audit.rows.row.indexOf(row);
      if (at < 0) return;
      Object.assign(wish, { query: "", show: "all", group: "", sort: "suspicious" });
      for (const [id, value] of [["search", ""], ["show", "all"], ["group", ""], ["sort", "suspicious"]]) $(id).value = value;
      refresh();
      open(listed.indexOf(at));
    },
  };
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
function showAudit(audit) {
  for (const place of document.querySelectorAll("[data-text='title']")) place.textContent = audit.title;
  verdict(audit);
  const line = histogram($("histogram"), audit.histogram, audit.score);
  const marks = marksOf(audit), list = pairs(audit, marks);
  issues(audit, list);
  groups(audit, (name) => list.group(name));
  notes(audit);
  review(audit, marks, () => list.refresh());
  slider(audit, (stop) => { line(stop.score); list.flag(stop.count); });
}

if (data.demo) showDemo(data.demo);
if (data.audit) showAudit(data.audit);
document.documentElement.dataset.ready = "yes";
