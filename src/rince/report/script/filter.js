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
    if (MARKS.includes(show)) tests.push((at) => mark(at) === show);
    const found = new Uint32Array(total);
    let count = 0;
    for (let at = 0; at < total; at++) if (tests.every((test) => test(at))) found[count++] = at;
    return orders[sort](found.slice(0, count));
  };
}
