// What a page does: draw, sort, copy. Reads its data from the page; asks nothing of the network.
(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figures").textContent);
  // Plotly would offer to upload a chart, by a window of its own that no content policy forbids.
  var apart = { showSendToCloud: false, plotlyServerURL: "" };
  var config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  function options(id) {  // tools only where there is room for them
    var room = id === "readings" && window.innerWidth > 700;
    return Object.assign({}, config, apart, { displayModeBar: room });
  }
  function draw(id) {
    var figure = figures[id], at = document.getElementById(id);
    if (figure && at) Plotly.newPlot(at, figure.data, figure.layout, options(id));
  }
  draw("readings");
  var rest = Object.keys(figures).filter(function (id) { return id !== "readings" });
  function next() {  // one at a time, so that the page answers between them
    var id = rest.shift();
    if (id === undefined) { document.body.dataset.ready = "all"; return }
    draw(id);
    setTimeout(next, 0);
  }
  setTimeout(function () { performance.mark("interactive"); next() }, 0);
  function scale(range, whole) {
    var change = { "yaxis.range": range.slice(), "yaxis.autorange": false };
    if (whole) change["xaxis.autorange"] = true;
    Plotly.relayout("readings", change);
  }
  function on(id, action) { var at = document.getElementById(id); if (at) at.addEventListener("click", action) }
  on("all", function () { scale(figures.readings.all, true) });
  on("curve", function () { scale(figures.readings.curve, false) });

  var table = document.getElementById("flagged");
  if (!table) return;
  var body = table.tBodies[0], heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
  function key(row, column) {
    var cell = row.cells[column], number = cell.dataset.value;
    return number === undefined ? cell.textContent : number === "" ? -Infinity : Number(number);
  }
  heads.forEach(function (head, column) {
    head.querySelector("button").addEventListener("click", function () {
      var down = head.getAttribute("aria-sort") === "ascending", rows = Array.prototype.slice.call(body.rows);
      rows.sort(function (a, b) {
        var u = key(a, column), v = key(b, column);
        return (u < v ? -1 : u > v ? 1 : 0) * (down ? -1 : 1);
      });
      heads.forEach(function (other) { other.removeAttribute("aria-sort") });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.forEach(function (row) { body.appendChild(row) });
    });
  });
  function text() {
    return Array.prototype.map.call(table.rows, function (row) {
      return Array.prototype.map.call(row.cells, function (cell) {
        var value = cell.textContent.trim();
        // A cell that a spreadsheet would take for a formula is marked as text.
        return /^[=+\-@\t\r]/.test(value) && isNaN(Number(value.replace("+", ""))) ? "'" + value : value;
      }).join("\t");
    }).join("\n");
  }
  function said(words) { document.getElementById("copied").textContent = words }
  function byHand(words) {
    var area = document.createElement("textarea");
    area.value = words; document.body.appendChild(area); area.select();
    var done = document.execCommand("copy");
    area.remove();
    said(done ? "Copied." : "Select the table and copy it by hand.");
  }
  on("copy", function () {
    var words = text();
    if (navigator.clipboard && window.isSecureContext)
      navigator.clipboard.writeText(words).then(function () { said("Copied.") }, function () { byHand(words) });
    else byHand(words);
  });
})();
