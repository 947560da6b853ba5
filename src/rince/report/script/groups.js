// The noise rate by group: a table with bars, suspicious groups first; a click shows the pairs of a group.
function groupRow(group, widest, choose) {
  const line = make("tr", group.unusual ? "unusual" : "");
  const name = make("button", "link", group.name);
  name.type = "button";
  name.addEventListener("click", () => choose(group.name));
  const bar = make("div", "interval"), range = make("i"), mark = make("b");
  range.style.left = (100 * group.low) / widest + "%";
  range.style.width = (100 * Math.max(0.004, group.high - group.low)) / widest + "%";
  mark.style.left = (100 * (group.rate || 0)) / widest + "%";
  mark.hidden = group.rate === null;
  const rate = make("td", "", group.rate === null ? `at most ${percent(group.high)}` : percent(group.rate));
  if (group.rate !== null) put(rate, make("span", "pm", ` ${percent(group.low)} to ${percent(group.high)}`));
  return put(line, put(make("td"), name, group.unusual ? make("span", "tag bad", "unusual") : null),
    make("td", "", whole(group.pairs)), make("td", "", whole(group.flagged)), rate, put(make("td", "bars"), put(bar, range, mark)));
}

function groups(audit, choose) {
  const place = $("groups");
  place.hidden = !audit.groups.length;
  if (place.hidden) return;
  const widest = Math.max(0.01, ...audit.groups.map((group) => group.high));
  for (const group of audit.groups) put($("group-rows"), groupRow(group, widest, choose));
  const cut = audit.group_count > audit.groups.length ? ` The first ${whole(audit.groups.length)} of ${whole(audit.group_count)} are listed.` : "";
  $("groups-hint").textContent = `Wrong pairs by group with 95 % intervals, suspicious groups first; bars end at ${percent(widest, 0)}. Unusual: its pairs score clearly worse than the others.${cut}`;
}
