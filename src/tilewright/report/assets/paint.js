// Drawing the timeline: slices, arrows, memories, the map of the whole.

const AXIS = 24, GAP = 5, ENGINE_HEIGHT = 30, LANE_HEIGHT = 9, QUEUE_HEIGHT = 20, QUEUE_MOST = 54, STRIP = 58, MAP_ROW = 5;
const LEAST_SPAN = 20; // ns
const TINY = 1.6; // px: narrower slices are drawn together, as the share of each pixel that is busy
const WAITS = {
  data: "the data of", overwrite: "an earlier write of the same place by", reader: "a reader of what it overwrites,",
  "psum bank": "a PSUM bank held by", buffer: "a buffer held by", engine: "its queue, behind", port: "a memory port held by",
  bandwidth: "bandwidth, behind",
};

// Kinds of waits that people call otherwise than the model does.
const WAIT_NAMES = { engine: "queue" };

class Painter {
  constructor(data, state) {
    Object.assign(this, { data, state });
  }

  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.paint(); });
  }

  paint() {
    const context = this.canvas.getContext("2d");
    this.colours = this.colours || readColours();
    context.clearRect(0, 0, this.width, this.height);
    this.paintAxis(context);
    for (const row of this.data.rows) this.paintRow(context, row);
    this.paintLinks(context);
    for (const strip of this.strips) this.paintStrip(context, strip);
    this.paintCursor(context);
    this.paintMap();
    const shown = this.view[1] - this.view[0];
    document.getElementById("range").textContent =
      `${formatTime(this.view[0])} to ${formatTime(this.view[1])} (${formatTime(shown)})`;
    this.canvas.dataset.view = this.view.join(" ");
    this.canvas.dataset.painted = String(Number(this.canvas.dataset.painted || 0) + 1);
  }

  paintAxis(context) {
    const { colours } = this;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = colours.band;
    for (const band of this.bands) context.fillRect(0, band.y, this.width, band.height);
    const step = tickStep(this.view[1] - this.view[0], this.width / 110);
    for (let at = Math.ceil(this.view[0] / step) * step; at <= this.view[1]; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      context.strokeStyle = colours.grid;
      context.beginPath();
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, this.height);
      context.stroke();
      context.fillStyle = colours.muted;
      context.fillText(tickText(at, step), Math.min(x + 4, this.width - 56), AXIS / 2);
    }
  }

  colourOf(index) {
    const { data, colours } = this;
    switch (this.state.colour) {
      case "name": return colours.class(data.name[index]);
      case "line": return colours.class(data.line[index]);
      case "wait": return colours.waits[data.waits[data.wait[index]]] || colours.class(-1);
      default: return colours.engines[data.tracks[data.track[index]].engine] || colours.engines.sync;
    }
  }

  // What the colours mean, as [colour, text]; engines are named beside their rows.
  key() {
    const { data, colours, state } = this;
    if (state.colour === "name") return data.names.map((name, number) => [colours.class(number), name]);
    if (state.colour === "line") return data.places.map((place, number) => [colours.class(number), place]);
    if (state.colour === "wait") return data.waits.map((wait) => [colours.waits[wait] || colours.class(-1), WAIT_NAMES[wait] || wait || "nothing"]);
    return [];
  }

  paintRow(context, row) {
    const { data, state } = this;
    const { events } = row;
    const scale = this.width / (this.view[1] - this.view[0]);
    const columns = this.columns;
    for (let n = firstEnding(data, events, this.view[0]); n < events.length; n++) {
      const i = events[n];
      if (data.start[i] > this.view[1]) break;
      const x = this.x(data.start[i]), width = data.slice[i] * scale;
      const lit = state.marked ? state.marked[i] === 1 : !state.critical || data.critical[i] === 1;
      if (width >= TINY) this.paintSlice(context, row, i, x, width, lit);
      else columns.add(x, width, lit, this.colourOf(i), lit && data.critical[i] === 1);
    }
    columns.paint(context, row, this.colours.critical);
  }

  paintSlice(context, row, i, x, width, lit) {
    const { data, colours } = this;
    const left = Math.max(x, -2), right = Math.min(x + width, this.width + 2);
    const colour = this.colourOf(i);
    context.globalAlpha = lit ? 1 : 0.22;
    context.fillStyle = colour;
    const gap = width > 4 ? 0.75 : 0;
    if (row.track.engine === "dma") {
      // Waiting for bandwidth is pale, moving bytes solid, and pale again until completion is seen.
      const begin = data.begin[i] < 0 ? left : Math.min(Math.max(this.x(data.begin[i]), left), right);
      const moved = Math.min(Math.max(this.x(data.start[i] + data.busy[i]), begin), right);
      context.fillRect(begin, row.y, Math.max(moved - begin, 0.5), row.height);
      context.globalAlpha *= 0.4;
      context.fillRect(left, row.y, begin - left, row.height);
      context.fillRect(moved, row.y, Math.max(right - moved - gap, 0), row.height);
    } else {
      context.fillRect(left, row.y, Math.max(right - left - gap, 0.8), row.height);
      const seen = Math.min(this.x(data.start[i] + data.total[i]), this.width + 2);
      if (seen > right) {
        context.globalAlpha *= 0.55;
        context.fillRect(right - gap, row.y + row.height - 3, seen - right + gap, 3);
      }
    }
    context.globalAlpha = lit ? 1 : 0.3;
    if (data.critical[i]) {
      context.fillStyle = colours.critical;
      context.fillRect(left, row.y, Math.max(right - left - gap, 1), Math.min(3, row.height / 3));
    }
    if (right - left > 34 && row.height >= 8) this.paintLabel(context, row, i, left, right, colour);
    context.globalAlpha = 1;
    if (i === this.state.selected || i === this.state.hover) {
      context.strokeStyle = colours.ink;
      context.lineWidth = i === this.state.selected ? 2 : 1;
      context.strokeRect(left + 0.5, row.y + 0.5, Math.max(right - left - 1, 1), row.height - 1);
      context.lineWidth = 1;
    }
  }

  paintLabel(context, row, i, left, right, colour) {
    const { data } = this;
    const size = Math.min(11, row.height - 1);
    const start = Math.max(left, 0) + 4, room = Math.min(right, this.width) - start - 4;
    context.font = `${size}px system-ui, sans-serif`;
    context.fillStyle = this.colours.on[colour];
    const name = data.names[data.name[i]];
    const line = data.line[i] >= 0 ? `  ${data.places[data.line[i]]}` : "";
    const text = this.fits(context, name + line, size, room) ? name + line : this.fits(context, name, size, room) ? name : cut(name, (room / this.textWidth(context, name, size)) * name.length);
    if (text) context.fillText(text, start, row.y + row.height / 2 + 0.5);
  }

  fits(context, text, size, room) { return this.textWidth(context, text, size) <= room; }

  // The width of a text in the font that is set, which has this size; measuring anew for every slice would be slow.
  textWidth(context, text, size) {
    this.widths = this.widths || new Map();
    const key = `${size} ${text}`;
    if (!this.widths.has(key)) this.widths.set(key, context.measureText(text).width);
    return this.widths.get(key);
  }

  // Arrows from what each event of the shown chain waited for.
  paintLinks(context) {
    const { data, state, colours } = this;
    if (!state.links) return;
    context.strokeStyle = colours.link;
    context.fillStyle = colours.link;
    context.lineWidth = 1.5;
    let last = null;
    for (const { event: i, from: cause, at } of state.links) {
      if (cause < 0) continue;
      const to = this.x(at);
      const from = this.x(Math.min(data.start[cause] + data.slice[cause], at));
      if (Math.max(from, to) < -50 || Math.min(from, to) > this.width + 50) continue;
      const a = this.rowOf(cause), b = this.rowOf(i);
      const key = `${Math.round(from)} ${Math.round(to)} ${a.y} ${b.y}`;
      if (a === b || key === last) continue;
      last = key;
      const y0 = a.y + a.height / 2, y1 = b.y + b.height / 2, bend = Math.max(6, Math.min(40, (to - from) / 2));
      context.beginPath();
      context.moveTo(from, y0);
      context.bezierCurveTo(from + bend, y0, to - bend, y1, to, y1);
      context.stroke();
      context.beginPath();
      context.moveTo(to + 1, y1);
      context.lineTo(to - 5, y1 - 3);
      context.lineTo(to - 5, y1 + 3);
      context.fill();
    }
    context.lineWidth = 1;
  }

  paintStrip(context, strip) {
    const { data, colours } = this;
    const { sampleTime } = data;
    const bottom = strip.y + STRIP;
    const height = (value) => (value / Math.max(strip.capacity, strip.peak)) * (STRIP - 4);
    context.fillStyle = colours.band;
    context.fillRect(0, strip.y, this.width, STRIP);
    context.beginPath();
    context.moveTo(this.x(0), bottom);
    for (let n = 0; n < sampleTime.length; n++) {
      const end = n + 1 < sampleTime.length ? sampleTime[n + 1] : this.full[1];
      if (end < this.view[0]) continue;
      if (sampleTime[n] > this.view[1]) break;
      const y = bottom - height(strip.values[n]);
      context.lineTo(Math.max(this.x(sampleTime[n]), -5), y);
      context.lineTo(Math.min(this.x(end), this.width + 5), y);
    }
    const edge = Math.min(this.x(this.full[1]), this.width + 5);
    context.lineTo(edge, bottom);
    context.lineTo(Math.max(this.x(0), -5), bottom);
    context.closePath();
    context.fillStyle = colours.strips[strip.name];
    context.globalAlpha = 0.55;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = colours.strips[strip.name];
    context.stroke();
    context.strokeStyle = colours.limit;
    context.setLineDash([4, 3]);
    context.beginPath();
    const limit = Math.round(bottom - height(strip.capacity)) + 0.5;
    context.moveTo(0, limit);
    context.lineTo(this.width, limit);
    context.stroke();
    context.setLineDash([]);
  }

  sampleAt(time) {
    const { sampleTime } = this.data;
    let low = 0, high = sampleTime.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (sampleTime[middle] <= time) low = middle; else high = middle - 1;
    }
    return low;
  }

  paintCursor(context) {
    if (this.measure) {
      const [from, to] = this.measure.map((time) => this.x(time));
      context.fillStyle = this.colours.link;
      context.globalAlpha = 0.15;
      context.fillRect(from, 0, to - from, this.height);
      context.globalAlpha = 1;
      context.font = "600 12px system-ui, sans-serif";
      context.fillText(formatTime(Math.abs(this.measure[1] - this.measure[0])), Math.min(from, to) + 4, AXIS + 10);
      return;
    }
    if (this.cursor === undefined || this.cursor === null) return;
    const x = Math.round(this.cursor) + 0.5;
    context.strokeStyle = this.colours.muted;
    context.globalAlpha = 0.7;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, this.height);
    context.stroke();
    context.globalAlpha = 1;
    const text = formatTime(this.time(this.cursor));
    context.font = "600 11px system-ui, sans-serif";
    const width = context.measureText(text).width + 8;
    const left = Math.min(x + 2, this.width - width);
    context.fillStyle = this.colours.page;
    context.fillRect(left, 1, width, AXIS - 7);
    context.fillStyle = this.colours.ink;
    context.fillText(text, left + 4, AXIS / 2 - 2);
    for (const strip of this.strips) {
      const value = strip.text(strip.values[this.sampleAt(this.time(this.cursor))] || 0);
      const room = context.measureText(value).width + 8;
      const at = Math.min(x + 3, this.width - room);
      context.fillStyle = this.colours.page;
      context.globalAlpha = 0.85;
      context.fillRect(at, strip.y + STRIP - 18, room, 16);
      context.globalAlpha = 1;
      context.fillStyle = this.colours.ink;
      context.fillText(value, at + 4, strip.y + STRIP - 10);
    }
  }

  // The map of the whole: every engine's share of each pixel; all DMA queues in one row.
  mapRows() {
    const rows = new Map();
    for (const track of this.data.tracks) {
      const key = `${track.core} ${track.engine}`;
      if (!rows.has(key)) rows.set(key, { engine: track.engine, tracks: new Set() });
      rows.get(key).tracks.add(track);
    }
    return [...rows.values()];
  }

  paintMap() {
    const context = this.map.getContext("2d");
    if (!this.mapImage) this.mapImage = this.drawMap();
    context.clearRect(0, 0, this.width, this.mapHeight);
    context.drawImage(this.mapImage, 0, 0, this.width, this.mapHeight);
    const from = (this.view[0] / this.full[1]) * this.width, to = (this.view[1] / this.full[1]) * this.width;
    context.fillStyle = this.colours.page;
    context.globalAlpha = 0.7;
    context.fillRect(0, 0, from, this.mapHeight);
    context.fillRect(to, 0, this.width - to, this.mapHeight);
    context.globalAlpha = 1;
    context.strokeStyle = this.colours.ink;
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), this.mapHeight - 1);
    context.fillStyle = this.colours.ink;
    for (const x of [from, to]) context.fillRect(Math.min(Math.max(x - 2, 0), this.width - 4), this.mapHeight / 2 - 6, 4, 12);
  }

  drawMap() {
    const image = document.createElement("canvas");
    image.width = this.map.width;
    image.height = this.map.height;
    const context = image.getContext("2d");
    const scale = image.width / this.width;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const columns = Math.ceil(this.width), { data } = this;
    const perPixel = this.full[1] / columns;
    this.mapRows().forEach((group, number) => {
      const busy = new Float32Array(columns);
      for (const row of data.rows) {
        if (!group.tracks.has(row.track)) continue;
        for (const i of row.events) spread(busy, data.start[i] / perPixel, (data.start[i] + data.busy[i]) / perPixel);
      }
      context.fillStyle = this.colours.engines[group.engine] || this.colours.engines.sync;
      for (let x = 0; x < columns; x++) {
        if (!busy[x]) continue;
        context.globalAlpha = 0.15 + 0.85 * Math.min(1, busy[x]);
        context.fillRect(x, 4 + number * MAP_ROW, 1, MAP_ROW - 1);
      }
    });
    return image;
  }
}

// Slices too narrow to be seen alone: for each pixel the share of time that is busy.
class Columns {
  constructor(width) {
    this.lit = new Float32Array(width + 2);
    this.faint = new Float32Array(width + 2);
    this.critical = new Uint8Array(width + 2);
    this.colour = new Array(width + 2);
    this.first = Infinity;
    this.last = -1;
  }

  add(x, width, lit, colour, critical) {
    const from = Math.max(0, x), pixel = Math.floor(from);
    if (pixel >= this.lit.length || x + width < 0) return;
    spread(lit ? this.lit : this.faint, from, Math.max(from, x + width));
    const end = Math.min(Math.floor(from + width), this.lit.length - 1);
    for (let at = pixel; at <= end; at++) {
      if (lit || !this.colour[at]) this.colour[at] = colour;
      if (critical) this.critical[at] = 1;
    }
    this.first = Math.min(this.first, pixel);
    this.last = Math.max(this.last, end);
  }

  paint(context, row, critical) {
    for (let x = this.first; x <= this.last; x++) {
      const lit = Math.min(1, this.lit[x]), faint = Math.min(1, this.faint[x]);
      if (lit + faint > 0) {
        context.globalAlpha = lit > 0 ? 0.2 + 0.8 * lit : 0.06 + 0.16 * faint;
        context.fillStyle = this.colour[x];
        context.fillRect(x, row.y, 1, row.height);
      }
      if (this.critical[x]) {
        context.globalAlpha = 1;
        context.fillStyle = critical;
        context.fillRect(x, row.y, 1, Math.min(3, row.height / 3));
      }
    }
    context.globalAlpha = 1;
    if (this.last < 0) return;
    for (const column of [this.lit, this.faint, this.critical]) column.fill(0, this.first, this.last + 1);
    this.colour.fill(undefined, this.first, this.last + 1);
    this.first = Infinity;
    this.last = -1;
  }
}

// Add the part of each pixel that lies between two positions.
function spread(busy, from, to) {
  const first = Math.floor(from), last = Math.min(Math.floor(to), busy.length - 1);
  if (first >= last) { if (first < busy.length) busy[first] += to - from; return; }
  busy[first] += first + 1 - from;
  for (let x = first + 1; x < last; x++) busy[x] += 1;
  busy[last] += Math.max(0, to - last);
}

function tickStep(span, count) {
  const rough = span / Math.max(count, 2);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
}

function tickText(at, step) {
  const [unit, name] = step >= 2e5 ? [1e6, "ms"] : step >= 200 ? [1e3, "µs"] : [1, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  return `${(at / unit).toFixed(digits)} ${name}`;
}

function cut(text, most) {
  return text.length <= most ? text : most >= 4 ? `${text.slice(0, Math.floor(most) - 1)}…` : "";
}

// Colours of the current theme, and for each whether dark or light text reads better on it.
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  const engines = Object.fromEntries(["tensor", "vector", "scalar", "gpsimd", "sync", "dma"].map((name) => [name, get(`--e-${name}`)]));
  const classes = [0, 1, 2, 3, 4, 5, 6, 7].map((number) => get(`--c${number}`));
  const waits = Object.fromEntries(Object.keys(WAITS).map((name, number) => [name, classes[number]]));
  waits[""] = classes[7];
  const on = {};
  for (const colour of [...Object.values(engines), ...classes]) on[colour] = luminance(colour) > 0.32 ? "#10151c" : "#ffffff";
  return {
    engines, waits, on, class: (number) => (number < 0 ? classes[7] : classes[number % 7]), critical: get("--critical"), link: get("--link"), ink: get("--ink"), page: get("--page"),
    muted: get("--muted"), grid: get("--grid"), band: get("--band"), limit: get("--limit"),
    strips: { SBUF: get("--sbuf"), PSUM: get("--psum") },
  };
}

function luminance(colour) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
