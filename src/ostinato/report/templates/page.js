// Two comforts and nothing that the page needs: headings that sort their table, and closed details that open for print.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows];
  if (rows.length < 3) continue;
  const order = new Map(rows.map((row, index) => [row, index]));
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    button.type = "button";
    head.replaceChildren(button);
    const value = row => { const v = row.cells[column].dataset.v; return v === undefined ? null : isNaN(v) ? v : Number(v); };
    button.addEventListener("click", () => {
      const next = { none: head.classList.contains("num") ? "descending" : "ascending", descending: "ascending", ascending: "descending" };
      const way = next[head.getAttribute("aria-sort") || "none"];
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      body.append(...[...rows].sort((a, b) => {
        const fixed = row => row.className === "floor" || value(row) === null;
        if (fixed(a) || fixed(b)) return fixed(a) - fixed(b) || order.get(a) - order.get(b);
        const x = value(a), y = value(b);
        return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))) || order.get(a) - order.get(b);
      }));
    });
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.long)").forEach(one => { one.open = true; }));
