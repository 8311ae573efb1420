// The timeline: where rows lie, what part of time is shown, and how mouse and keys change that.

class Timeline extends Painter {
  constructor(data, state) {
    super(data, state);
    this.frame = document.getElementById("tracks");
    this.canvas = document.getElementById("canvas");
    this.map = document.getElementById("minimap");
    this.tip = document.getElementById("tip");
    this.full = [0, Math.max(data.endNs, 1)];
    this.view = [...this.full];
    this.place();
    this.listen();
  }

  // Geometry.

  place() {
    let y = AXIS;
    this.bands = this.data.tracks.map((track, number) => {
      const height = track.engine !== "dma" ? ENGINE_HEIGHT
        : Math.min(QUEUE_MOST, Math.max(QUEUE_HEIGHT, track.lanes * LANE_HEIGHT));
      const band = { track, number, y, height };
      y += height + GAP;
      return band;
    });
    for (const row of this.data.rows) {
      const band = this.bands[this.data.tracks.indexOf(row.track)];
      const height = band.height / row.track.lanes;
      row.y = band.y + row.lane * height;
      row.height = row.track.lanes > 1 ? Math.max(2, height - 1) : height;
      row.band = band;
    }
    y += GAP;
    const peak = (values) => values.reduce((most, value) => Math.max(most, value), 0);
    const banks = (count) => `${count.toFixed(count % 1 ? 1 : 0)} banks`;
    const { sbuf, psum, sbufCapacity, psumCapacity } = this.data;
    this.strips = [
      { name: "SBUF", values: sbuf, capacity: sbufCapacity, peak: peak(sbuf), y, colour: "--sbuf", text: formatBytes },
      { name: "PSUM", values: psum, capacity: psumCapacity, peak: peak(psum), y: y + STRIP + 10, colour: "--psum", text: banks },
    ];
    this.height = y + 2 * STRIP + 10 + 4;
    this.labels();
  }

  labels() {
    const gutter = document.getElementById("gutter");
    const cores = new Set(this.data.tracks.map((track) => track.core)).size;
    gutter.style.height = `${this.height}px`;
    gutter.replaceChildren();
    const add = (y, height, parts, title) => {
      const node = make("div", { class: "label", style: `top:${y}px;height:${height}px`, title }, ...parts);
      gutter.append(node);
    };
    for (const band of this.bands) {
      const { track } = band;
      const share = (100 * this.workOf(band.number)) / this.full[1];
      const busy = `busy ${share.toFixed(1)}% of the time`;
      add(band.y, band.height, [
        make("i", { class: "chip", style: `background:var(--e-${track.engine})` }),
        make("span", { class: track.engine === "dma" ? "queue" : "engine" }, (cores > 1 ? `${track.core}: ` : "") + track.label),
        make("span", { class: "share" }, `${share.toFixed(share < 9.95 ? 1 : 0)}%`),
      ], track.engine === "dma" ? `DMA queue of ${track.title}: ${busy}` : `${track.label} engine: ${busy}`);
    }
    for (const strip of this.strips) {
      add(strip.y, STRIP, [make("i", { class: "chip", style: `background:var(${strip.colour})` }),
        make("span", { class: "engine" }, strip.name, make("small", {}, `up to ${strip.text(strip.peak)}`, make("br"), `of ${strip.text(strip.capacity)}`))],
        `${strip.name} in use, mean of ${strip.values.length} intervals`);
    }
  }

  workOf(number) {
    const { data } = this;
    let work = 0;
    for (let i = 0; i < data.events; i++) if (data.track[i] === number) work += data.work[i];
    return work;
  }

  resize() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.parentElement.clientWidth;
    this.mapHeight = this.bands.length ? Math.max(24, this.mapRows().length * MAP_ROW + 8) : 24;
    for (const [canvas, height] of [[this.canvas, this.height], [this.map, this.mapHeight]]) {
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(this.width * scale);
      canvas.height = Math.round(height * scale);
      canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
    }
    this.mapImage = null;
    this.columns = new Columns(Math.ceil(this.width));
    this.draw();
  }

  // Read the theme's colours anew, and say what they mean.
  recolour() {
    this.colours = readColours();
    this.mapImage = null;
    const shown = this.key().slice(0, 12).map(([colour, text]) => make("span", {}, make("i", { class: "chip", style: `background:${colour}` }), text));
    document.getElementById("key").replaceChildren(...shown);
    this.draw();
  }

  x(time) { return ((time - this.view[0]) / (this.view[1] - this.view[0])) * this.width; }
  time(x) { return this.view[0] + (x / this.width) * (this.view[1] - this.view[0]); }

  setView(start, end) {
    const span = Math.min(Math.max(end - start, Math.min(LEAST_SPAN, this.full[1])), this.full[1] - this.full[0]);
    const middle = (start + end) / 2;
    let from = span >= end - start ? middle - span / 2 : start;
    from = Math.min(Math.max(from, this.full[0]), this.full[1] - span);
    this.view = [from, from + span];
    this.draw();
  }

  zoom(factor, at = (this.view[0] + this.view[1]) / 2) {
    const [start, end] = this.view;
    this.setView(at - (at - start) * factor, at + (end - at) * factor);
  }

  pan(share) {
    const step = (this.view[1] - this.view[0]) * share;
    const [start, end] = this.view;
    const room = step < 0 ? Math.max(step, this.full[0] - start) : Math.min(step, this.full[1] - end);
    this.setView(start + room, end + room);
  }

  fit() { this.setView(...this.full); }

  // Bring an event into view, with room around it when it would be too narrow or too wide to see.
  show(index) {
    const start = this.data.start[index], length = Math.max(this.data.slice[index], 1);
    const span = this.view[1] - this.view[0];
    if (length > span * 0.9 || length * this.width < span * 4) this.setView(start - length * 20, start + length * 21);
    else if (start < this.view[0] || start + length > this.view[1]) this.setView(start - span / 2, start + span / 2);
    else this.draw();
  }

  rowOf(index) {
    const { data } = this;
    if (!this.firstRow) {
      let at = 0;
      this.firstRow = data.tracks.map((track) => { const first = at; at += track.lanes; return first; });
    }
    return data.rows[this.firstRow[data.track[index]] + data.lane[index]];
  }

  // Mouse, touch and keys.

  eventAt(x, y) {
    const { data } = this;
    const row = data.rows.find((each) => y >= each.y && y < each.y + each.height + 1);
    if (!row) return -1;
    const reach = (3 * (this.view[1] - this.view[0])) / this.width, time = this.time(x);
    let best = -1, nearest = reach;
    for (let n = firstEnding(data, row.events, time - reach); n < row.events.length; n++) {
      const i = row.events[n];
      if (data.start[i] > time + reach) break;
      const distance = Math.max(data.start[i] - time, time - data.start[i] - data.slice[i], 0);
      if (distance <= nearest) { best = i; nearest = distance; }
      if (distance === 0) break;
    }
    return best;
  }

  listen() {
    const { canvas, state } = this;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("wheel", (event) => {
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); this.pan(event.deltaX / this.width); return; }
      const whole = this.view[1] - this.view[0] >= this.full[1] * 0.9999;
      if (event.deltaY > 0 && whole) return; // Nothing left to zoom out: the page scrolls.
      event.preventDefault();
      this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), this.time(at(event)[0]));
    }, { passive: false });
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = at(event);
      drag = { x, y, view: [...this.view], moved: false, measure: event.shiftKey };
      canvas.setPointerCapture(event.pointerId);
      this.frame.focus({ preventScroll: true });
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      this.cursor = x;
      if (!drag) { this.hover(x, y, event); this.draw(); return; }
      drag.moved = drag.moved || Math.abs(x - drag.x) > 3;
      if (!drag.moved) return;
      this.tip.hidden = true;
      if (drag.measure) { this.measure = [this.time(drag.x), this.time(x)]; this.draw(); return; }
      const step = ((drag.x - x) / this.width) * (drag.view[1] - drag.view[0]);
      this.setView(drag.view[0] + step, drag.view[1] + step);
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = at(event);
      if (drag && !drag.moved) state.select(this.eventAt(x, y));
      if (drag && this.measure) {
        const [from, to] = this.measure;
        this.measure = null;
        this.setView(Math.min(from, to), Math.max(from, to));
      }
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => { this.cursor = null; state.hover = -1; this.tip.hidden = true; this.draw(); });
    canvas.addEventListener("dblclick", (event) => {
      const index = this.eventAt(...at(event));
      if (index < 0) return;
      const { start, slice } = this.data;
      this.setView(start[index] - slice[index] * 2, start[index] + slice[index] * 3);
    });
    this.listenToMap();
  }

  listenToMap() {
    const { map } = this;
    let grab = null;
    const time = (event) => ((event.clientX - map.getBoundingClientRect().left) / this.width) * this.full[1];
    map.addEventListener("pointerdown", (event) => {
      const at = time(event), reach = (6 / this.width) * this.full[1], [start, end] = this.view;
      if (Math.abs(at - start) < reach) grab = { edge: 0 };
      else if (Math.abs(at - end) < reach) grab = { edge: 1 };
      else {
        if (at < start || at > end) this.setView(at - (end - start) / 2, at + (end - start) / 2);
        grab = { offset: at - this.view[0] };
      }
      map.setPointerCapture(event.pointerId);
    });
    map.addEventListener("pointermove", (event) => {
      if (!grab) return;
      const at = time(event), [start, end] = this.view;
      if (grab.edge === 0) this.setView(Math.min(at, end - LEAST_SPAN), end);
      else if (grab.edge === 1) this.setView(start, Math.max(at, start + LEAST_SPAN));
      else this.setView(at - grab.offset, at - grab.offset + (end - start));
    });
    map.addEventListener("pointerup", () => { grab = null; });
  }

  hover(x, y, event) {
    const index = this.eventAt(x, y);
    this.state.hover = index;
    this.tip.hidden = index < 0;
    if (index < 0) return;
    this.tip.replaceChildren(...describe(this.data, index, this.idleBefore(index)));
    const box = this.tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const below = event.clientY + 18 + box.height < window.innerHeight;
    this.tip.style.transform = `translate(${Math.max(8, left)}px, ${below ? event.clientY + 18 : event.clientY - box.height - 12}px)`;
  }

  // How long the engine had nothing to do before an event.
  idleBefore(index) {
    const { data } = this;
    if (data.tracks[data.track[index]].engine === "dma") return 0;
    const { events } = this.rowOf(index);
    const n = firstEnding(data, events, data.start[index]);
    const before = n > 0 && events[n] >= index ? events[n - 1] : -1;
    return before < 0 ? data.start[index] : Math.max(0, data.start[index] - data.start[before] - data.busy[before]);
  }
}

// Slices of a row do not overlap, so their ends are in order: the first that ends after a time.
function firstEnding(data, events, time) {
  let low = 0, high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1, i = events[middle];
    if (data.start[i] + data.slice[i] <= time) low = middle + 1; else high = middle;
  }
  return low;
}

// What is known of an event, as nodes: for the tooltip and the panel.
function describe(data, index, idle) {
  const track = data.tracks[data.track[index]];
  const line = data.line[index] >= 0 ? data.lines[data.line[index]] : null;
  const wait = data.waits[data.wait[index]], cause = data.cause[index];
  const facts = [];
  const fact = (name, ...value) => facts.push(make("dt", {}, name), make("dd", {}, ...value));
  fact("starts", `${formatTime(data.start[index])}, result after ${formatTime(data.total[index])}`);
  if (track.engine !== "dma") fact("busy", formatTime(data.busy[index]) + (idle > 0.5 ? `, engine idle ${formatTime(idle)} before` : ""));
  else fact("moves", `${formatBytes(data.bytes[index])}, ${(data.bytes[index] / Math.max(data.total[index], 1)).toFixed(1)} GB/s`);
  if (wait) {
    const by = cause >= 0 ? ` ${data.names[data.name[cause]]} #${cause}${data.line[cause] >= 0 ? `, ${data.places[data.line[cause]]}` : ""}` : "";
    fact("waited for", `${WAITS[wait] || wait}${by}`);
  }
  if (data.behind[index] >= 0) fact("bandwidth", `from ${formatTime(data.begin[index])}, behind ${data.names[data.name[data.behind[index]]]} #${data.behind[index]}`);
  for (const operand of data.operands[data.operand[index]].split(/, (?=\w+=)/)) {
    const [name, value] = operand.split(/=(.*)/s);
    if (value) fact(name, value);
  }
  const head = make("h4", {}, make("i", { class: "chip", style: `background:var(--e-${track.engine})` }),
    data.names[data.name[index]], make("small", {}, ` #${index} on ${track.label}`),
    ...(data.critical[index] ? [make("b", { class: "tag" }, "critical path")] : []));
  const nodes = [head];
  if (line) nodes.push(make("p", { class: "where" }, make("span", {}, `${line.file}:${line.line}`), make("code", {}, line.text.trim())));
  nodes.push(make("dl", {}, ...facts));
  return nodes;
}
