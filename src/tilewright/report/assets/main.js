// What is chosen, and how the parts of the page follow it: selection, source lines, theme, keys.

class State {
  constructor(data) {
    this.data = data;
    this.selected = this.hover = -1;
    this.line = -1;
    this.critical = false;
    this.colour = "engine";
    this.marked = null; // 1 for events that stand out, or null when all do
    this.links = null; // waits that are drawn as arrows
  }

  select(index, reveal = false) {
    this.selected = index;
    this.line = -1;
    const links = index < 0 ? null : [...chainOf(this.data, index), ...linksAfter(this.data, index)];
    this.mark(links && links.map((link) => link.event));
    this.links = links || this.criticalLinks();
    showDetail(this, index);
    markLine(this, index < 0 ? -1 : this.data.line[index], true);
    if (reveal && index >= 0) this.timeline.show(index); else this.timeline.draw();
    this.table.paint();
  }

  // All events of a source line; choosing it again, or -1, lets go.
  pick(line) {
    const off = line < 0 || (line === this.line && this.selected < 0);
    this.line = off ? -1 : line;
    this.selected = -1;
    const members = [];
    if (!off) for (let i = 0; i < this.data.events; i++) if (this.data.line[i] === line) members.push(i);
    this.mark(off ? null : members);
    this.links = off ? this.criticalLinks() : null;
    showDetail(this, -1);
    markLine(this, this.line, false);
    this.timeline.draw();
  }

  mark(members) {
    this.marked = members && new Uint8Array(this.data.events);
    for (const i of members || []) this.marked[i] = 1;
  }

  setCritical(on) {
    this.critical = on;
    if (this.selected < 0) this.links = this.criticalLinks();
    document.getElementById("critical").setAttribute("aria-pressed", String(on));
    this.timeline.draw();
  }

  criticalLinks() {
    return this.critical ? chainOf(this.data, this.data.last) : null;
  }
}

function showDetail(state, index) {
  const panel = document.getElementById("detail");
  const { data } = state;
  document.getElementById("hint").hidden = index >= 0;
  panel.hidden = index < 0;
  if (index < 0) return;
  const chain = chainOf(data, index), after = linksAfter(data, index);
  const show = (i, note) => make("li", {}, make("button", { type: "button", onclick: () => state.select(i, true) },
    make("i", { class: "chip", style: `background:var(--e-${data.tracks[data.track[i]].engine})` }),
    `${data.names[data.name[i]]} #${i}`, make("small", {}, ` ${note}`)));
  const list = (title, items, rest) => make("div", { class: "links" }, make("h5", {}, title),
    make("ol", {}, ...items, ...(rest > 0 ? [make("li", { class: "more" }, `and ${formatCount(rest)} more`)] : [])));
  const before = chain.filter((link) => link.from >= 0);
  panel.replaceChildren(
    make("div", { class: "facts" }, ...describe(data, index, state.timeline.idleBefore(index))),
    list(`What it waited for (${before.length} back to the start)`,
      before.slice(0, 8).map(({ from, why }) => show(from, `${WAITS_SHORT[why] || why}, ends ${formatTime(data.start[from] + data.total[from])}`)), before.length - 8),
    list(`What waited for it (${after.length})`,
      after.slice(0, 8).map(({ event, why, at }) => show(event, `${WAITS_SHORT[why] || why}, from ${formatTime(at)}`)), after.length - 8),
  );
}

const WAITS_SHORT = { data: "its data", overwrite: "its earlier write", reader: "its reading", "psum bank": "its PSUM bank", buffer: "its buffer", engine: "its queue", bandwidth: "its bandwidth", port: "its port" };

function markLine(state, line, scroll) {
  for (const row of document.querySelectorAll("tr.picked")) row.classList.remove("picked");
  if (line < 0) return;
  const row = document.querySelector(`tr[data-line="${line}"]`);
  if (!row) return;
  const sheet = row.closest(".file");
  showFile(sheet.dataset.file);
  row.classList.add("picked");
  const box = row.closest(".code");
  if (scroll) box.scrollTop = row.offsetTop - box.clientHeight / 2;
}

function showFile(number) {
  for (const sheet of document.querySelectorAll(".file")) sheet.hidden = sheet.dataset.file !== number;
  for (const tab of document.querySelectorAll("[data-tab]")) tab.setAttribute("aria-pressed", String(tab.dataset.tab === number));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function listenToPage(state) {
  const { timeline, table } = state;
  const click = (id, act) => document.getElementById(id).addEventListener("click", act);
  const show = (theme) => { setTheme(theme); timeline.recolour(); };
  click("theme", () => show(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  // Paper is light, whatever the screen is.
  let screen = null;
  addEventListener("beforeprint", () => { screen = document.documentElement.dataset.theme; show("light"); timeline.paint(); });
  addEventListener("afterprint", () => show(screen));
  click("zoom-in", () => timeline.zoom(0.5));
  click("zoom-out", () => timeline.zoom(2));
  click("fit", () => timeline.fit());
  click("critical", () => state.setCritical(!state.critical));
  document.getElementById("colour").addEventListener("change", (event) => { state.colour = event.target.value; timeline.recolour(); });
  for (const tab of document.querySelectorAll("[data-tab]")) tab.addEventListener("click", () => showFile(tab.dataset.tab));
  for (const row of document.querySelectorAll("tr[data-line]")) row.addEventListener("click", () => state.pick(Number(row.dataset.line)));
  for (const link of document.querySelectorAll("[data-goto]")) link.addEventListener("click", () => { state.pick(-1); state.pick(Number(link.dataset.goto)); markLine(state, Number(link.dataset.goto), true); });
  new ResizeObserver(() => { timeline.resize(); table.paint(); }).observe(document.getElementById("stage"));
  document.addEventListener("keydown", (event) => onKey(event, state));
}

function onKey(event, state) {
  if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const { timeline, data } = state;
  const inTimeline = timeline.frame.contains(document.activeElement) || document.activeElement === document.body;
  const keys = {
    w: () => timeline.zoom(0.7), "+": () => timeline.zoom(0.7), "=": () => timeline.zoom(0.7),
    s: () => timeline.zoom(1 / 0.7), "-": () => timeline.zoom(1 / 0.7),
    a: () => timeline.pan(-0.2), d: () => timeline.pan(0.2), ArrowLeft: () => timeline.pan(-0.2), ArrowRight: () => timeline.pan(0.2),
    0: () => timeline.fit(), f: () => timeline.fit(), c: () => state.setCritical(!state.critical),
    Escape: () => state.select(-1),
    "[": () => { const link = state.selected >= 0 ? chainOf(data, state.selected)[0] : null; if (link && link.from >= 0) state.select(link.from, true); },
    "]": () => { const next = state.selected >= 0 ? followersOf(data, state.selected) : []; if (next.length) state.select(next[0], true); },
    "/": () => document.getElementById("filter").focus(),
  };
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act || (event.key.startsWith("Arrow") && !inTimeline)) return;
  event.preventDefault();
  act();
}

// The hottest line should be seen without scrolling.
function showHottest() {
  for (const box of document.querySelectorAll(".code")) {
    const hottest = box.querySelector("tr[data-hottest]");
    if (hottest && hottest.offsetTop + 60 > box.clientHeight) box.scrollTop = hottest.offsetTop - box.clientHeight * 0.6;
  }
}

async function start() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const data = await loadData();
  const state = new State(data);
  state.timeline = new Timeline(data, state);
  state.table = new InstructionTable(data, state);
  listenToPage(state);
  state.timeline.resize();
  showHottest();
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  document.getElementById("hint").textContent = `The timeline cannot be shown: ${error.message}`;
  throw error;
});
