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
  put(facts, make("span", "", `${percent(rows.p[at], 0)} likely wrong`), make("span", "", `score ${rows.score[at].toFixed(3)}`));
  if (audit.rows_group.length) put(facts, make("span", "", audit.group_names[audit.rows_group[at]]));
  const best = partnersAt(audit, at)[0];
  if (best) put(facts, make("span", "", `perhaps ${best.id} (${percent(best.p, 0)})`));
  const tags = make("div", "tags");
  if (isFlagged) put(tags, make("span", "tag warn", "flagged"));
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
    view.style.height = Math.min(listed.length * height, Math.round(window.innerHeight * 0.8)) + 2 + "px";
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
  for (const option of [...$("sort").options]) if (option.value === "group" && !audit.group_names.length) option.remove();
  $("pairs-hint").textContent = (audit.found ? "Most suspicious first; pale ones are not flagged at the chosen threshold." : "Nothing is flagged. The lowest scores come first.")
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
  };
}
