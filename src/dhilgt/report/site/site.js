"use strict";
// Makes tables sortable: a button in the head of each column, the state in aria-sort.
(() => {
  const number = (text) => {
    const match = text.replace(/,/g, "").match(/^<?\s*(-?\d+(\.\d+)?(e[-+]?\d+)?)/i);
    return match ? Number(match[1]) : null;
  };
  const compare = (a, b, sign) => {
    const [x, y] = [number(a), number(b)];
    if (x !== null && y !== null) return sign * (x - y);
    if (x === null && y === null) return sign * a.localeCompare(b);
    return x === null ? 1 : -1; // what is not a number is last in both orders
  };
  for (const box of document.querySelectorAll(".comparison > div")) {
    box.tabIndex = 0; // what scrolls must be reachable with the keyboard
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "table");
  }
  // Marks the first column of each group, which only the widths of the groups reveal.
  for (const table of document.querySelectorAll(".comparison table")) {
    let at = 1;
    for (const group of table.tHead.rows[0].cells) {
      if (group.tagName !== "TH") continue;
      for (const row of table.rows) {
        if (row !== table.tHead.rows[0]) row.cells[at].classList.add("first");
      }
      at += group.colSpan;
    }
  }
  for (const table of document.querySelectorAll("main table")) {
    const body = table.tBodies[0];
    const head = table.tHead && table.tHead.rows[table.tHead.rows.length - 1];
    if (!body || !head || body.rows.length < 2) continue;
    [...head.cells].forEach((cell, at) => {
      if (cell.tagName !== "TH") return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", () => {
        const up = cell.getAttribute("aria-sort") !== "ascending";
        for (const other of head.cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", up ? "ascending" : "descending");
        const word = (row) => row.cells[at].textContent.trim();
        const rows = [...body.rows].sort((a, b) => compare(word(a), word(b), up ? 1 : -1));
        body.append(...rows);
      });
    });
  }
})();
