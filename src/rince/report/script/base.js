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

const plural = (n, one) => `${whole(n)} ${one}${n === 1 ? "" : "s"}`;
const percentOrNone = (x) => (x === null ? "cannot tell" : percent(x));

// A cell that starts like a formula would be run by a spreadsheet: it gets a quote in front, as in audit.csv.
const FORMULA = /^'*[=+\-@\t\r]/;
const cell = (text) => (/[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
const safe = (text) => cell(FORMULA.test(text) && !/^-?[\d.]+$/.test(text) ? "'" + text : text);
const unsafe = (text) => (text.startsWith("'") && FORMULA.test(text) ? text.slice(1) : text);

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
