"use strict";
// Draws the two graphs of the page's data on canvases and handles search, mouse and keys.
// Text of the data is set through textContent only, so that no id can become markup.

const LISTED = 120; // the most hubs or holders to list; all of them are drawn
const TYPES = { f4: Float32Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array };
const $ = (id) => document.getElementById(id);

async function unpacked(text, directory) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const arrays = {};
  for (const [name, [type, start, length]] of Object.entries(directory)) {
    arrays[name] = new TYPES[type](buffer, start, length);
  }
  return arrays;
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// ---- data ------------------------------------------------------------------------------------

class Graphs {
  constructor(about, arrays) {
    Object.assign(this, about, arrays);
    this.count = this.rank.length;
    this.byRank = new Uint32Array(this.count);
    this.rank.forEach((rank, node) => { this.byRank[rank] = node; });
    this.invertHubs();
    this.index = null; // nodes by id, built at the first search
  }

  // Holders are the inverse of hubs. Entries are sorted by distance, so that the nearest are first.
  invertHubs() {
    const { hub_offsets: offsets, hubs, hub_distances: distances, count } = this;
    const owner = new Uint32Array(hubs.length), order = new Uint32Array(hubs.length);
    const near = new Uint32Array(257), starts = new Uint32Array(count + 1);
    for (let node = 0; node < count; node += 1) owner.fill(node, offsets[node], offsets[node + 1]);
    for (const distance of distances) near[distance + 1] += 1;
    for (let at = 0; at < 256; at += 1) near[at + 1] += near[at];
    distances.forEach((distance, at) => { order[near[distance]++] = at; });
    for (const hub of hubs) starts[hub + 1] += 1;
    for (let at = 0; at < count; at += 1) starts[at + 1] += starts[at];
    this.holder_offsets = starts.slice();
    this.holders = new Uint32Array(hubs.length);
    this.holder_distances = new Uint8Array(hubs.length);
    for (const at of order) {
      const place = starts[hubs[at]]++;
      this.holders[place] = owner[at];
      this.holder_distances[place] = distances[at];
    }
  }

  className(node) {
    const at = this.classes[node];
    return at < 0 ? "not known" : this.class_names ? this.class_names[at] : String(at);
  }

  id(node) { return this.ids ? this.ids[node] : String(node); }

  find(text) {
    if (!this.index) {
      this.index = new Map();
      for (let node = 0; node < this.count; node += 1) this.index.set(this.id(node), node);
    }
    return this.index.has(text) ? this.index.get(text) : this.index.get(text.trim());
  }

  hubsOf(node) { return this.row(node, "hub_offsets", "hubs", "hub_distances", "hub"); }

  holdersOf(node) { return this.row(node, "holder_offsets", "holders", "holder_distances", "holder"); }

  row(node, offsets, nodes, distances, kind) {
    const members = [];
    for (let at = this[offsets][node]; at < this[offsets][node + 1]; at += 1) {
      members.push({ node: this[nodes][at], distance: this[distances][at], kind });
    }
    return members;
  }

  neighborsOf(node) {
    return this.raw_targets.subarray(this.raw_offsets[node], this.raw_offsets[node + 1]);
  }

  tokenOf(node) {
    const size = this.token_size, members = [];
    const hubs = this.token_parts[2 * node];
    for (let slot = 1; slot < size; slot += 1) {
      const member = this.token_ids[node * size + slot];
      if (member < 0) continue;
      const distance = this.token_distances[node * size + slot];
      members.push({ node: member, distance, kind: slot <= hubs ? "hub" : "holder" });
    }
    return members;
  }
}

// ---- drawing ---------------------------------------------------------------------------------

class View {
  constructor(canvas, graphs, kind, page) {
    Object.assign(this, { canvas, graphs, kind, page });
    this.drawn = graphs[`${kind}_drawn`];
    this.weight = graphs[`${kind}_weight`];
    this.top = this.weight.reduce((most, one) => Math.max(most, one), 1);
    this.pen = canvas.getContext("2d");
    this.shown = null; // scale, x, y: from the unit plane to pixels of the style sheet
    new ResizeObserver(() => { this.shown = null; this.draw(); }).observe(canvas);
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.grab(event));
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    canvas.addEventListener("pointerup", (event) => this.drop(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  get places() {
    const { positions } = this.page;
    return this.graphs[`${positions === "own" ? this.kind : positions}_places`];
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    const places = this.places;
    for (let at = 0; at < places.length; at += 2) {
      left = Math.min(left, places[at]); right = Math.max(right, places[at]);
      low = Math.min(low, places[at + 1]); high = Math.max(high, places[at + 1]);
    }
    const scale = 0.95 * Math.min(width / (right - left || 1), height / (high - low || 1));
    const x = width / 2 - (scale * (left + right)) / 2, y = height / 2 + (scale * (low + high)) / 2;
    this.shown = { scale, x, y };
    this.fitted = scale;
  }

  at(node) {
    const { scale, x, y } = this.shown, places = this.places;
    return [x + scale * places[2 * node], y - scale * places[2 * node + 1]];
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const old = this.shown.scale;
    const scale = Math.min(Math.max(old * factor, this.fitted / 3), this.fitted * 400);
    this.shown.x = x + ((this.shown.x - x) * scale) / old;
    this.shown.y = y + ((this.shown.y - y) * scale) / old;
    this.shown.scale = scale;
    this.draw();
  }

  pan(x, y) { this.shown.x += x; this.shown.y += y; this.draw(); }

  // Moves a node that is out of sight to the middle.
  reveal(node) {
    const [x, y] = this.at(node), { clientWidth: width, clientHeight: height } = this.canvas;
    if (x < 0 || y < 0 || x > width || y > height) this.pan(width / 2 - x, height / 2 - y);
  }

  nearest(x, y) {
    let best = -1, least = 14 * 14;
    for (let node = 0; node < this.graphs.count; node += 1) {
      const [u, v] = this.at(node), far = (u - x) ** 2 + (v - y) ** 2;
      if (far < least) { best = node; least = far; }
    }
    return best;
  }

  grab(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.held = { x: event.offsetX, y: event.offsetY, moved: 0 };
  }

  drag(event) {
    if (!this.held) return;
    const x = event.offsetX - this.held.x, y = event.offsetY - this.held.y;
    this.held = { x: event.offsetX, y: event.offsetY, moved: this.held.moved + Math.hypot(x, y) };
    if (this.held.moved > 4) this.pan(x, y);
  }

  drop(event) {
    if (this.held && this.held.moved <= 4) {
      this.page.select(this.nearest(event.offsetX, event.offsetY));
    }
    this.held = null;
  }

  key(event) {
    const step = 40;
    const actions = {
      ArrowLeft: () => this.pan(step, 0), ArrowRight: () => this.pan(-step, 0),
      ArrowUp: () => this.pan(0, step), ArrowDown: () => this.pan(0, -step),
      "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4),
      0: () => { this.fit(); this.draw(); }, n: () => this.page.step(1), p: () => this.page.step(-1),
      Escape: () => this.page.select(-1),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = null; this.paint(); });
  }

  paint() {
    const { canvas, pen } = this, sharp = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
      canvas.width = Math.round(width * sharp); canvas.height = Math.round(height * sharp);
    }
    if (!this.shown) this.fit();
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, width, height);
    const colors = getComputedStyle(document.documentElement);
    this.ink = (name) => colors.getPropertyValue(`--${name}`).trim();
    const dimmed = this.page.selected >= 0;
    this.paintEdges(dimmed);
    this.paintNodes(dimmed);
    if (dimmed) this.paintSelection();
  }

  paintEdges(dimmed) {
    const { pen, drawn, graphs } = this, { group, known } = graphs;
    const byClass = this.page.color === "class", paths = new Map();
    for (let at = 0; at < drawn.length; at += 2) {
      const one = group[drawn[at]];
      const color = byClass && one === group[drawn[at + 1]] && one < known ? graphs.colors[one] : "";
      if (!paths.has(color)) paths.set(color, new Path2D());
      paths.get(color).moveTo(...this.at(drawn[at]));
      paths.get(color).lineTo(...this.at(drawn[at + 1]));
    }
    pen.lineWidth = 0.6;
    const full = Math.min(Math.max(3000 / (drawn.length + 1), 0.14), 0.6);
    for (const [color, path] of [...paths].sort(([a], [b]) => (a ? 1 : 0) - (b ? 1 : 0))) {
      pen.globalAlpha = dimmed ? full / 4 : full;
      pen.strokeStyle = color || this.ink("edge");
      pen.stroke(path);
    }
    pen.globalAlpha = 1;
  }

  radius(node) {
    const base = Math.min(Math.max(75 / Math.sqrt(this.graphs.count), 0.9), 6);
    const closer = Math.min(Math.sqrt(this.shown.scale / this.fitted), 4);
    return base * closer * (0.75 + 1.6 * Math.sqrt(this.weight[node] / this.top));
  }

  paintNodes(dimmed) {
    const { pen } = this, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const paths = new Map();
    for (let place = this.graphs.count - 1; place >= 0; place -= 1) {
      const node = this.graphs.byRank[place], [x, y] = this.at(node), r = this.radius(node);
      if (x < -r || y < -r || x > width + r || y > height + r) continue;
      const color = this.page.colorOf(node);
      if (!paths.has(color)) paths.set(color, new Path2D());
      if (r < 1.6) paths.get(color).rect(x - r, y - r, 2 * r, 2 * r);
      else { paths.get(color).moveTo(x + r, y); paths.get(color).arc(x, y, r, 0, 7); }
    }
    pen.globalAlpha = dimmed ? 0.3 : 0.95;
    for (const [color, path] of paths) { pen.fillStyle = color; pen.fill(path); }
    pen.globalAlpha = 1;
  }

  paintSelection() {
    const { pen } = this, { selected, members } = this.page, [x, y] = this.at(selected);
    const lines = this.kind === "raw"
      ? [...this.graphs.neighborsOf(selected)].map((node) => ({ node, kind: "" })) : members;
    pen.lineWidth = 1;
    pen.globalAlpha = Math.min(Math.max(60 / (lines.length + 1), 0.2), 0.9);
    for (const { node, kind } of lines) {
      pen.strokeStyle = this.ink(kind || "ink");
      pen.beginPath(); pen.moveTo(x, y); pen.lineTo(...this.at(node)); pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.lineWidth = 1.5;
    for (const { node, kind } of [...members, { node: selected, kind: "ink" }]) {
      const [u, v] = this.at(node), r = Math.max(this.radius(node), kind === "ink" ? 6 : 2.5);
      pen.fillStyle = this.page.colorOf(node);
      pen.strokeStyle = this.ink(kind);
      pen.beginPath(); pen.arc(u, v, r, 0, 7); pen.fill(); pen.stroke();
    }
  }
}

// ---- the page --------------------------------------------------------------------------------

class Page {
  constructor(graphs) {
    this.graphs = graphs;
    this.selected = -1;
    this.members = [];
    this.shades = this.rankShades();
    this.views = ["raw", "label"].map((kind) => new View($(kind), graphs, kind, this));
    $("find").addEventListener("submit", (event) => { event.preventDefault(); this.search(); });
    $("colors").addEventListener("change", () => { this.legend(); this.draw(); });
    $("positions").addEventListener("change", () => this.reset());
    $("highlight").addEventListener("change", () => this.select(this.selected));
    $("closer").addEventListener("click", () => this.views.forEach((view) => view.zoom(1.5)));
    $("farther").addEventListener("click", () => this.views.forEach((view) => view.zoom(1 / 1.5)));
    $("reset").addEventListener("click", () => this.reset());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.legend();
    this.select(-1);
  }

  get color() { return $("colors").value; }

  get positions() { return $("positions").value; }

  rankShades() {
    const stops = this.graphs.rank_stops.map((one) => [1, 3, 5].map((at) => parseInt(one.slice(at, at + 2), 16)));
    return Array.from({ length: 64 }, (_, step) => {
      const along = (step / 63) * (stops.length - 1), low = Math.min(Math.floor(along), stops.length - 2);
      const mixed = stops[low].map((value, at) => Math.round(value + (stops[low + 1][at] - value) * (along - low)));
      return `rgb(${mixed.join(",")})`;
    });
  }

  colorOf(node) {
    if (this.color === "class") return this.graphs.colors[this.graphs.group[node]];
    const fraction = Math.log1p(this.graphs.rank[node]) / Math.log1p(Math.max(this.graphs.count - 1, 1));
    return this.shades[Math.round(63 * fraction)];
  }

  draw() { this.views.forEach((view) => view.draw()); }

  reset() { this.views.forEach((view) => { view.fit(); view.draw(); }); }

  answer(text) { $("answer").textContent = text; }

  search() {
    const text = $("query").value, node = this.graphs.find(text);
    if (node === undefined) { this.answer(`No node has the id ${text}.`); return; }
    this.select(node);
  }

  step(by) {
    const { byRank, rank, count } = this.graphs;
    const next = this.selected < 0 ? (by > 0 ? 0 : count - 1) : rank[this.selected] + by;
    if (next >= 0 && next < count) this.select(byRank[next]);
  }

  select(node) {
    this.selected = node;
    const details = $("details");
    details.replaceChildren();
    this.answer("");
    if (node < 0) {
      this.members = [];
      details.append(element("p", "Click a node or search for its id to see its hubs, the nodes that have it as a hub, and its token.", "soft"));
      this.draw();
      return;
    }
    const { graphs } = this, hubs = graphs.hubsOf(node), holders = graphs.holdersOf(node);
    const token = graphs.tokenOf(node);
    this.members = $("highlight").value === "token" ? token : [...holders, ...hubs];
    const facts = [["class", graphs.className(node)], ["rank", `${graphs.rank[node] + 1} of ${graphs.count}`],
      ["neighbours", graphs.neighborsOf(node).length]];
    const list = element("dl");
    for (const [name, value] of facts) list.append(element("dt", name), element("dd", value));
    details.append(element("h2", `Node ${graphs.id(node)}`), list);
    details.append(...this.list("hubs", "Hubs", hubs), ...this.list("holders", "Holders", holders));
    details.append(...this.list("token", "Token", [{ node, distance: 0, kind: "ego" }, ...token]));
    this.views.forEach((view) => { if (view.shown) view.reveal(node); });
    this.draw();
  }

  list(id, title, members) {
    const list = element("ul");
    list.id = id;
    for (const { node, distance, kind } of members.slice(0, LISTED)) {
      const far = { 254: "far", 255: "no path" }[distance] || distance;
      const button = element("button", `${this.graphs.id(node)} · ${far}`, kind);
      button.type = "button";
      button.title = `${kind} ${this.graphs.id(node)}, distance ${far}`;
      button.addEventListener("click", () => this.select(node));
      const item = element("li");
      item.append(button);
      list.append(item);
    }
    const rest = members.length - LISTED;
    const more = rest > 0 ? [element("p", `and ${rest} more, farther away`, "soft")] : [];
    return [element("h3", `${title} (${members.length})`), list, ...more];
  }

  legend() {
    const { names, counts, colors, rank_stops: stops } = this.graphs;
    const entries = this.color === "class"
      ? names.map((name, at) => [colors[at], `${name} (${counts[at]})`])
      : stops.map((color, at) => [color, { 0: "most important", [stops.length - 1]: "least important" }[at] || ""]);
    const lines = [["var(--hub)", "of the selected node: its hubs"], ["var(--holder)", "its holders"]];
    $("legend").replaceChildren(...[...entries, ...lines].map(([color, text]) => {
      const dot = element("span", undefined, "dot"), entry = element("span");
      dot.style.background = color;
      entry.append(dot, text);
      return entry;
    }));
  }
}

(async () => {
  const about = JSON.parse($("data").textContent);
  try {
    const arrays = await unpacked(about.packed, about.directory);
    delete about.packed;
    window.hierarchy = new Page(new Graphs(about, arrays));
    document.body.dataset.ready = "yes";
  } catch (error) {
    $("answer").textContent = `The page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`;
  }
})();
