function showAudit(audit) {
  for (const place of document.querySelectorAll("[data-text='title']")) place.textContent = audit.title;
  cards(audit);
  const line = histogram($("histogram"), audit.histogram, audit.score);
  const marks = marksOf(audit), list = pairs(audit, marks);
  groups(audit, (name) => list.group(name));
  review(audit, marks, () => list.refresh());
  slider(audit, (stop) => { line(stop.score); list.flag(stop.count); });
}

if (data.demo) showDemo(data.demo);
if (data.audit) showAudit(data.audit);
document.documentElement.dataset.ready = "yes";
