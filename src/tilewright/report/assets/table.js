// The instruction table: every event or groups of them, filtered and sorted; only the rows in sight exist.

const ROW = 24;

class InstructionTable {
  constructor(data, state) {
    Object.assign(this, { data, state });
    this.box = document.getElementById("rows");
    this.head = document.querySelector("#instructions thead");
    this.body = document.querySelector("#instructions tbody");
    this.filter = document.getElementById("filter");
    this.grouped = false;
    this.sort = { key: "start", down: false };
    this.columns = { each: eachColumns(data), grouped: groupColumns(data) };
    this.filter.addEventListener("input", () => this.refresh());
    this.box.addEventListener("scroll", () => this.paint());
    for (const button of document.querySelectorAll("[data-group]")) {
      button.addEventListener("click", () => this.setGrouped(button.dataset.group === "yes"));
    }
    this.heading();
    this.refresh();
  }

  setGrouped(grouped) {
    this.grouped = grouped;
    this.sort = grouped ? { key: "total", down: true } : { key: "start", down: false };
    for (const button of document.querySelectorAll("[data-group]")) {
      button.setAttribute("aria-pressed", String((button.dataset.group === "yes") === grouped));
    }
    this.heading();
    this.refresh();
  }

  shown() { return this.columns[this.grouped ? "grouped" : "each"]; }

  heading() {
    const cells = this.shown().map((column) => {
      const button = make("button", { type: "button", onclick: () => this.sortBy(column) }, column.title);
      const order = column.key !== this.sort.key ? "none" : this.sort.down ? "descending" : "ascending";
      return make("th", { scope: "col", class: column.kind, "aria-sort": order, style: column.width ? `width:${column.width}` : null }, button);
    });
    this.head.replaceChildren(make("tr", {}, ...cells));
  }

  sortBy(column) {
    const same = this.sort.key === column.key;
    this.sort = { key: column.key, down: same ? !this.sort.down : column.kind === "number" && column.key !== "start" };
    this.heading();
    this.order();
    this.paint();
  }

  refresh() {
    const keep = matcher(this.data, this.filter.value);
    const kept = [];
    for (let i = 0; i < this.data.events; i++) if (keep(i)) kept.push(i);
    this.rows = this.grouped ? groups(this.data, kept) : kept;
    this.order();
    this.box.scrollTop = 0;
    const what = `${formatCount(kept.length)} of ${formatCount(this.data.events)} instructions`;
    document.getElementById("count").textContent =
      `${what}${this.grouped ? ` in ${formatCount(this.rows.length)} groups` : ""}`;
    this.paint();
  }

  order() {
    const column = this.shown().find((each) => each.key === this.sort.key);
    const value = column.value, sign = this.sort.down ? -1 : 1;
    this.rows.sort((a, b) => {
      const x = value(a), y = value(b);
      return x < y ? -sign : x > y ? sign : 0;
    });
  }

  paint() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 8);
    const last = Math.min(this.rows.length, first + Math.ceil(this.box.clientHeight / ROW) + 24);
    const columns = this.shown();
    const rows = [];
    for (let n = first; n < last; n++) rows.push(this.row(this.rows[n], columns));
    const space = (count) => make("tr", { class: "space", "aria-hidden": "true", style: `height:${count * ROW}px` }, make("td", { colspan: columns.length }));
    this.body.replaceChildren(space(first), ...rows, space(this.rows.length - last));
  }

  row(item, columns) {
    const cells = columns.map((column) => make("td", { class: column.kind, title: column.tip ? column.text(item) : null }, ...[column.node ? column.node(item) : column.text(item)].flat()));
    const chosen = !this.grouped && item === this.state.selected;
    return make("tr", { class: chosen ? "chosen" : null, onclick: () => (this.grouped ? this.state.pick(item.line) : this.state.select(item, true)) }, ...cells);
  }
}

function chipped(engine, text) {
  return [make("i", { class: "chip", style: `background:var(--e-${engine})` }), text];
}

function eachColumns(data) {
  const engine = (i) => data.tracks[data.track[i]].engine;
  const line = (i) => (data.line[i] < 0 ? "" : data.lineTexts[data.line[i]]);
  const wait = (i) => WAIT_NAMES[data.waits[data.wait[i]]] || data.waits[data.wait[i]];
  return [
    { key: "index", title: "#", kind: "number", width: "64px", value: (i) => i, text: (i) => String(i) },
    { key: "start", title: "start", kind: "number", width: "92px", value: (i) => data.start[i], text: (i) => formatTime(data.start[i]) },
    { key: "name", title: "instruction", kind: "text", width: "150px", value: (i) => data.names[data.name[i]],
      text: (i) => data.names[data.name[i]], node: (i) => (data.critical[i] ? [data.names[data.name[i]], make("b", { class: "dot", title: "on the critical path" })] : data.names[data.name[i]]) },
    { key: "engine", title: "engine", kind: "text", width: "88px", value: engine, text: engine, node: (i) => chipped(engine(i), engine(i)) },
    { key: "line", title: "source", kind: "text", width: "112px", tip: true, value: (i) => data.line[i], text: line, node: (i) => data.places[data.line[i]] || "" },
    { key: "busy", title: "busy", kind: "number", width: "84px", value: (i) => data.work[i], text: (i) => formatTime(data.work[i]) },
    { key: "total", title: "result after", kind: "number", width: "96px", value: (i) => data.total[i], text: (i) => formatTime(data.total[i]) },
    { key: "wait", title: "waited for", kind: "text", width: "110px", value: wait,
      text: (i) => `${wait(i)}${wait(i) && data.cause[i] >= 0 ? ` #${data.cause[i]}` : ""}` },
    { key: "bytes", title: "bytes", kind: "number", width: "84px", value: (i) => data.bytes[i], text: (i) => (data.bytes[i] ? formatBytes(data.bytes[i]) : "") },
    { key: "operands", title: "operands", kind: "text", tip: true, value: (i) => data.operands[data.operand[i]], text: (i) => data.operands[data.operand[i]] },
  ];
}

function groupColumns(data) {
  const line = (group) => (group.line < 0 ? "" : data.lineTexts[group.line]);
  const time = (key, title, value) => ({ key, title, kind: "number", width: "100px", value, text: (group) => formatTime(value(group)) });
  return [
    { key: "name", title: "instruction", kind: "text", width: "170px", value: (g) => data.names[g.name], text: (g) => data.names[g.name] },
    { key: "engine", title: "engine", kind: "text", width: "88px", value: (g) => g.engine, text: (g) => g.engine, node: (g) => chipped(g.engine, g.engine) },
    { key: "line", title: "source", kind: "text", width: "112px", tip: true, value: (g) => g.line, text: line, node: (g) => data.places[g.line] || "" },
    { key: "count", title: "executed", kind: "number", width: "84px", value: (g) => g.count, text: (g) => formatCount(g.count) },
    time("total", "busy in all", (g) => g.busy),
    { key: "share", title: "of the kernel", kind: "number", width: "96px", value: (g) => g.busy, text: (g) => `${((100 * g.busy) / data.endNs).toFixed(1)}%` },
    time("mean", "mean", (g) => g.busy / g.count),
    time("most", "longest", (g) => g.most),
    { key: "critical", title: "on critical path", kind: "number", width: "116px", value: (g) => g.critical, text: (g) => (g.critical ? formatCount(g.critical) : "") },
    { key: "bytes", title: "bytes", kind: "number", width: "92px", value: (g) => g.bytes, text: (g) => (g.bytes ? formatBytes(g.bytes) : "") },
    { key: "text", title: "code", kind: "text", tip: true, value: (g) => g.line, text: (g) => (g.line < 0 ? "" : data.lines[g.line].text.trim()), node: (g) => make("code", {}, g.line < 0 ? "" : data.lines[g.line].text.trim()) },
  ];
}

function groups(data, kept) {
  const found = new Map();
  for (const i of kept) {
    const engine = data.tracks[data.track[i]].engine;
    const key = `${data.name[i]} ${data.line[i]} ${engine}`;
    let group = found.get(key);
    if (!group) found.set(key, (group = { name: data.name[i], line: data.line[i], engine, count: 0, busy: 0, most: 0, critical: 0, bytes: 0 }));
    group.count++;
    group.busy += data.work[i];
    group.most = Math.max(group.most, data.work[i]);
    group.critical += data.critical[i];
    group.bytes += data.bytes[i];
  }
  return [...found.values()];
}

// Words of a filter must all hold: engine:vector, line:36, wait:data, name:copy, critical, busy>1us, else any text.
function matcher(data, text) {
  const tests = text.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => test(data, word));
  return (i) => tests.every((holds) => holds(i));
}

function test(data, word) {
  const has = (table, part) => table.map((entry) => entry.toLowerCase().includes(part));
  const longer = /^(busy)?>([\d.]+)(ns|us|µs|ms)?$/.exec(word);
  if (longer) {
    const least = Number(longer[2]) * { ns: 1, us: 1e3, µs: 1e3, ms: 1e6 }[longer[3] || "ns"];
    return (i) => data.work[i] > least;
  }
  if (word === "critical") return (i) => data.critical[i] === 1;
  const [field, part] = word.split(/:(.*)/s);
  if (field === "line" && /^\d+$/.test(part)) {
    const lines = data.lines.map((line) => line.line === Number(part));
    return (i) => data.line[i] >= 0 && lines[data.line[i]];
  }
  if (field === "engine" && part !== undefined) {
    const tracks = data.tracks.map((track) => track.engine.startsWith(part));
    return (i) => tracks[data.track[i]];
  }
  if (field === "wait" && part !== undefined) {
    const waits = has(data.waits.map((wait) => `${wait} ${WAIT_NAMES[wait] || ""}`), part);
    return (i) => waits[data.wait[i]];
  }
  if (field === "name" && part !== undefined) {
    const names = has(data.names, part);
    return (i) => names[data.name[i]];
  }
  const names = has(data.names, word), operands = has(data.operands, word), lines = has(data.lineTexts, word);
  const tracks = data.tracks.map((track) => track.label.toLowerCase().includes(word));
  return (i) => names[data.name[i]] || operands[data.operand[i]] || tracks[data.track[i]] || (data.line[i] >= 0 && lines[data.line[i]]);
}
