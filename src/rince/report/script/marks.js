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

// What a CSV of marks says, or the reason why it is none of this audit.
function importMarks(audit, text) {
  const [head, ...lines] = parseCsv(text.replace(/^\ufeff/, ""));
  const [row, id, mark] = ["row", "id", "mark"].map((name) => (head || []).indexOf(name));
  if (Math.min(row, id, mark) < 0) return "This is no review: it has no columns row, id and mark.";
  const at = new Map(audit.rows.row.map((number, place) => [number, place])), found = {};
  for (const line of lines) {
    const place = at.get(Number(line[row]));
    if (place === undefined || audit.rows.id[place] !== unsafe(line[id])) return `This review belongs to another audit (row ${line[row]}).`;
    if (!MARKS.includes(line[mark])) return `There is no mark ${line[mark]}.`;
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
