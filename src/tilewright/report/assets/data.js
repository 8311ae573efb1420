// Events as columns: typed arrays over one inflated buffer, and tables of texts.

const KINDS = { float64: Float64Array, float32: Float32Array, int32: Int32Array, uint32: Uint32Array,
                uint16: Uint16Array, uint8: Uint8Array };

async function inflate(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

async function loadData() {
  const meta = JSON.parse(document.getElementById("meta").textContent);
  const buffer = await inflate(document.getElementById("columns").textContent.trim());
  const data = { ...meta };
  for (const [name, [kind, offset, length]] of Object.entries(meta.layout)) {
    data[name] = new KINDS[kind](buffer, offset, length);
  }
  Object.assign(data, JSON.parse(new TextDecoder().decode(data.texts)));
  data.rows = rowsOf(data);
  data.lineTexts = data.lines.map((line) => `${line.file}:${line.line}`);
  const one = new Set(data.lines.map((line) => line.file)).size === 1;
  data.places = data.lines.map((line) => (one ? `line ${line.line}` : `${line.file.replace(/.*[\\/]/, "")}:${line.line}`));
  return data;
}

// A row is one lane of one track, with its events in the order of their start.
function rowsOf(data) {
  const rows = [];
  const first = data.tracks.map((track) => {
    const at = rows.length;
    for (let lane = 0; lane < track.lanes; lane++) rows.push({ track, lane, events: [] });
    return at;
  });
  for (let i = 0; i < data.events; i++) rows[first[data.track[i]] + data.lane[i]].events.push(i);
  for (const row of rows) row.events = Int32Array.from(row.events);
  return rows;
}

// Who waited for an event, made when it is first asked for.
function followersOf(data, index) {
  if (!data.followers) {
    const { events, cause, behind } = data;
    const count = new Int32Array(events + 1);
    const each = (act) => { for (let i = 0; i < events; i++) { if (cause[i] >= 0) act(cause[i], i); if (behind[i] >= 0 && behind[i] !== cause[i]) act(behind[i], i); } };
    each((from) => count[from + 1]++);
    for (let i = 0; i < events; i++) count[i + 1] += count[i];
    const members = new Int32Array(count[events]), next = count.slice();
    each((from, to) => { members[next[from]++] = to; });
    data.followers = { count, members };
  }
  const { count, members } = data.followers;
  return members.subarray(count[index], count[index + 1]);
}

// From an event back through what each waited for: what follows a transfer waited for its bytes, what merely was
// issued after it did not.
function chainOf(data, index) {
  const chain = [];
  for (let event = index, done = true; event >= 0;) {
    const behind = done ? data.behind[event] : -1;
    const why = behind >= 0 ? "bandwidth" : data.waits[data.wait[event]];
    const from = behind >= 0 ? behind : data.cause[event];
    chain.push({ event, from, why, at: behind >= 0 ? data.begin[event] : data.start[event] });
    done = behind >= 0 || why !== "engine";
    event = from;
  }
  return chain;
}

// Those that waited for an event directly, as links.
function linksAfter(data, index) {
  return [...followersOf(data, index)].map((event) => {
    const own = data.cause[event] === index;
    return { event, from: index, why: own ? data.waits[data.wait[event]] : "bandwidth", at: own ? data.start[event] : data.begin[event] };
  });
}

function formatTime(ns) {
  const size = Math.abs(ns);
  if (size >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
  if (size >= 1e4) return `${(ns / 1e3).toFixed(1)} µs`;
  if (size >= 1e3) return `${(ns / 1e3).toFixed(2)} µs`;
  return `${ns.toFixed(size >= 100 || size === 0 ? 0 : 1)} ns`;
}

function formatBytes(bytes) {
  if (bytes >= 1 << 20) return `${(bytes / (1 << 20)).toFixed(bytes >= 100 << 20 ? 0 : 1)} MiB`;
  if (bytes >= 1024) return `${(bytes / 1024).toFixed(bytes >= 100 << 10 ? 0 : 1)} KiB`;
  return `${Math.round(bytes)} B`;
}

function formatCount(number) {
  return Math.round(number).toLocaleString("en");
}

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
