"use strict";
const content = document.getElementById("content");

function pairs(table) {
  return [...table.querySelectorAll("tr.task")].map((row) => [row, row.nextElementSibling]);
}

function search(section) {
  const words = section.querySelector(".search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const [row, more] of pairs(section)) {
    const text = (row.textContent + " " + more.textContent).toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    if (row.hidden) more.hidden = true;
    found += !row.hidden;
  }
  section.querySelector(".found").textContent = words.length ? `${found} found` : "";
}

function sort(table, column, descending) {
  const value = (row) => {
    const text = row.cells[column].textContent;
    return text !== "" && !isNaN(text) ? Number(text) : text;
  };
  const order = (a, b) => {
    const [x, y] = [value(a[0]), value(b[0])];
    if (typeof x === typeof y) return x < y ? -1 : x > y ? 1 : 0;
    return typeof x === "number" ? -1 : 1;
  };
  const rows = pairs(table).sort((a, b) => (descending ? order(b, a) : order(a, b)));
  for (const pair of rows) table.tBodies[0].append(...pair);
  Object.assign(table.dataset, { column, descending: descending ? 1 : "" });
}

function toggle(row) {
  row.nextElementSibling.hidden = !row.nextElementSibling.hidden;
}

content.addEventListener("input", (event) => {
  if (event.target.matches(".search")) search(event.target.closest("section"));
});
content.addEventListener("click", (event) => {
  const button = event.target.closest("th button");
  if (button) {
    const table = button.closest("table"), column = button.parentNode.cellIndex;
    sort(table, column, table.dataset.column === String(column) && !table.dataset.descending);
  } else if (event.target.closest("tr.task") && !String(getSelection())) {
    toggle(event.target.closest("tr.task"));
  }
});
content.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("tr.task")) toggle(event.target);
});

// While the run goes on: take the new page, and leave what was opened, sorted and searched for as it was.
function take(fresh) {
  const open = new Set([...content.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  const shown = new Set(pairs(content).filter(([, more]) => !more.hidden).map(([row]) => row.dataset.key));
  const before = [...content.querySelectorAll("section.run")].map((section) => ({
    words: section.querySelector(".search")?.value ?? "",
    order: { ...section.querySelector("table.tasks")?.dataset },
  }));
  const typing = [...content.querySelectorAll(".search")].indexOf(document.activeElement);
  const [x, y] = [scrollX, scrollY];
  content.replaceChildren(...fresh.childNodes);
  for (const one of content.querySelectorAll("details")) one.open = open.has(one.dataset.key);
  for (const [row, more] of pairs(content)) more.hidden = !shown.has(row.dataset.key);
  content.querySelectorAll("section.run").forEach((section, n) => {
    const { words, order } = before[n] ?? { words: "", order: {} };
    if (order.column) sort(section.querySelector("table.tasks"), Number(order.column), Boolean(order.descending));
    if (words) {
      section.querySelector(".search").value = words;
      search(section);
    }
  });
  if (typing >= 0) content.querySelectorAll(".search")[typing]?.focus();
  scrollTo(x, y);
}

const live = document.querySelector("meta[name=live]");
if (live) {
  setInterval(async () => {
    try {
      if ((await (await fetch("version")).text()) === live.dataset.version) return;
      const page = new DOMParser().parseFromString(await (await fetch(".")).text(), "text/html");
      live.dataset.version = page.querySelector("meta[name=live]").dataset.version;
      take(page.getElementById("content"));
    } catch {
      // the server is gone; what was shown stays
    }
  }, Number(live.content) * 1000);
}
