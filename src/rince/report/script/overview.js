// The first screen of an audit: verdict, counts, advice, and a slider over what to flag.
function card(title, big, text, className) {
  return put(make("div", "card " + (className || "")), make("h3", "", title), make("div", "big", big), text ? make("p", "", text) : null);
}

function rateCard(audit) {
  const unknown = audit.useless || audit.verdict.startsWith("cannot tell");
  const big = unknown ? "cannot tell" : audit.found ? percent(audit.rate) : "none found";
  const box = card("Wrong pairs", big);
  const bar = make("div", "interval"), range = make("i"), mark = make("b");
  range.style.left = 100 * audit.low + "%";
  range.style.width = 100 * Math.max(0.005, audit.high - audit.low) + "%";
  mark.style.left = 100 * audit.rate + "%";
  mark.hidden = unknown;
  const scale = put(make("div", "scale"), make("span", "", "0 %"), make("span", "", "100 %"));
  const interval = `${percent(audit.low)} to ${percent(audit.high)}`;
  const text = unknown ? (audit.useless ? "right pairs score like mismatched ones" : audit.verdict.replace(/^cannot tell: /, ""))
    : audit.found ? `95 % interval ${interval}` : `at most ${percent(Math.max(audit.high, 0.001))} (95 % interval)`;
  return put(box, put(bar, range, mark), scale, make("p", "", text));
}

function cards(audit) {
  const told = audit.distinguishable === null ? "" : `; a right pair outscores about ${percent(audit.distinguishable, 0)} of them`;
  put($("cards"), rateCard(audit),
    card("Pairs", whole(audit.pairs), `compared with ${whole(audit.mismatched)} mismatched pairs by ${audit.score}${told}`),
    card("Rule of thumb for training", audit.advice, audit.reason));
  for (const remark of audit.remarks) put($("cards"), put(make("div", "card wide"), make("p", "", remark)));
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
