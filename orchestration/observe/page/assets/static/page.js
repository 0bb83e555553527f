// Draws the numbers of /api/status and /api/history. All text is set as text: nothing becomes markup.
"use strict";

const POLL_MS = 2000, HISTORY_MS = 20000, SILENT_MS = 5000, TIMEOUT_MS = 8000;
const LAYERS = ["bronze", "silver", "gold", "publish"];
const SVG = "http://www.w3.org/2000/svg";
const SHOWS_RECORDS = document.querySelector("meta[name=shows-records]").content === "yes";

const page = { status: null, heardAt: 0, error: "", history: null, quality: [], span: "hour", look: null, trace: null };

// ---- elements: h() describes one, patch() changes only what differs, so that focus stays where it is

function h(tag, attributes, ...children) {
  return { tag, attributes: attributes || {}, children: children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false) };
}
const SVG_TAGS = new Set(["svg", "path", "line", "rect", "text", "g", "title", "circle"]);

function create(node) {
  if (typeof node !== "object") return document.createTextNode(String(node));
  const element = SVG_TAGS.has(node.tag) ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  update(element, node);
  return element;
}
function update(element, node) {
  for (const { name } of [...element.attributes]) if (!(name in node.attributes)) element.removeAttribute(name);
  for (const [name, value] of Object.entries(node.attributes)) {
    if (name === "onclick") element.onclick = value;
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
  patch(element, node.children);
}
function patch(parent, children) {
  children.forEach((child, place) => {
    const old = parent.childNodes[place];
    if (!old) parent.append(create(child));
    else if (typeof child !== "object") {
      if (old.nodeType !== Node.TEXT_NODE) old.replaceWith(create(child));
      else if (old.data !== String(child)) old.data = String(child);
    } else if (old.nodeType === Node.ELEMENT_NODE && old.tagName.toLowerCase() === child.tag) update(old, child);
    else old.replaceWith(create(child));
  });
  while (parent.childNodes.length > children.length) parent.lastChild.remove();
}
const at = (id) => document.getElementById(id);
const draw = (id, ...children) => patch(at(id), children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));

// ---- numbers for people

const whole = (n) => (n === null || n === undefined ? "?" : Math.round(n).toLocaleString("en-US"));
function short(n) {
  if (n === null || n === undefined) return "?";
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e4]]) if (n >= size) {
    const value = n / (unit === "k" ? 1e3 : size);
    return `${value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
  }
  return n < 10 && n % 1 ? n.toFixed(1) : whole(n);
}
const counted = (n, unit) => `${short(n)} ${n === 1 ? unit : `${unit}s`}`;
function bytes(n) {
  if (n === null || n === undefined) return "?";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < 4) { n /= 1024; unit += 1; }
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}
function age(seconds) {
  if (seconds === null || seconds === undefined) return "?";
  const s = Math.max(0, seconds);
  if (s < 10 && s % 1 && s >= .1) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400).toLocaleString("en-US")} d`;
}
const since = (status, moment) => (moment ? (Date.parse(status.at) - Date.parse(moment)) / 1000 : null);
const clock = (moment) => (moment ? `${moment.slice(0, 19).replace("T", " ")} UTC` : "none yet");
const ago = (status, moment) => (moment ? `${clock(moment)}, ${age(since(status, moment))} ago` : clock(moment));

// ---- the head

function drawHead() {
  const status = page.status;
  const silent = Date.now() - page.heardAt;
  const lost = page.heardAt && silent > SILENT_MS;
  if (!status || lost) {
    const text = page.heardAt ? `no answer for ${age(silent / 1000)}` : page.error ? "no answer" : "connecting";
    draw("verdict", h("span", { class: lost || page.error ? "pill bad" : "pill" }, text));
    document.title = document.title.replace(/^(● )?/, lost ? "● " : "");
    if (!status) return;
  } else {
    const isCritical = (one) => one.severity === "critical", raised = status.alerts ? status.alerts.raised : [];
    const critical = status.problems.filter(isCritical).length || raised.filter(isCritical).length;
    const warnings = status.problems.length || raised.length;
    const all = status.tables.length, count = (...states) => status.tables.filter((t) => states.includes(t.query.state)).length;
    const runs = count("working", "waiting"), begins = count("starting"), stopped = count("stopped");
    const [kind, text] = critical ? ["bad", `${critical} ${critical === 1 ? "thing is" : "things are"} wrong`]
      : warnings ? ["warn", `${warnings} to look at`]
      : stopped === all ? ["", "no job runs"]
      : status.waiting_seconds === null ? ["warn", "not known whether records wait"]
      : runs === all ? ["good", "all queries run"]
      : begins ? ["warn", `${begins} of ${all} queries not started yet`] : ["warn", `${runs} of ${all} queries run`];
    draw("verdict", h("span", { class: `pill ${kind}` }, text));
    document.title = document.title.replace(/^(● )?/, critical ? "● " : "");
  }
  const unread = status.tables.filter((t) => t.layer === "bronze").map((t) => t.lag.count);
  const lag = unread.includes(null) ? null : unread.reduce((sum, count) => sum + count, 0);
  draw("facts",
    fact("Kafka to gold", waits(status.waiting_seconds)),
    fact("unread in Kafka", status.broker.note || (lag === null ? "not known" : `${short(lag)} records`)),
    fact("broker", status.broker.address || "none"),
    fact(jobs(status).length > 1 ? "jobs" : "job", jobs(status).join(" · ") || "none"));
  draw("updated", `as of ${clock(status.at)}${lost ? `, ${age(silent / 1000)} ago` : ""}`);
}
const jobs = (status) => [...new Set(status.tables.filter((t) => t.job).map((t) => `${t.job.name}, pid ${t.job.pid}`))];
const fact = (name, value) => h("dl", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
const waits = (seconds) => (seconds === null ? "not known" : seconds < .05 ? "up to date" : `${age(seconds)} behind`);

// ---- the layers

function drawLayers() {
  const status = page.status, lost = Date.now() - page.heardAt > SILENT_MS;
  const layer = (name) => {
    const own = status.tables.filter((t) => t.layer === name);
    return own.length ? h("div", { class: `layer ${name}` },
      h("h2", {}, name[0].toUpperCase() + name.slice(1), h("small", {}, lost ? "no answer" : status.layers[name])),
      h("div", { class: "tables" }, own.map((table) => card(status, table, lost)))) : null;
  };
  draw("upstream", layer("bronze"), layer("silver"));
  draw("downstream", layer("gold"), layer("publish"));
  draw("problems", together(status.problems, (p) => [p.severity, p.text]).map(([p, tables]) => h("div", { class: `problem ${p.severity}` }, p.table ? named(tables, "b") : null, p.text)));
}
// What is said of several tables in the same words is said once: a process that ended takes all its queries with it.
function together(all, key) {
  const found = new Map();
  for (const one of all) {
    const same = JSON.stringify(key(one));
    if (!found.has(same)) found.set(same, [one, []]);
    found.get(same)[1].push(one.table);
  }
  return [...found.values()];
}
const named = (tables, tag) => h(tag, { title: tables.join(", ") }, tables.length > 2 ? `${tables.slice(0, 2).join(", ")} and ${tables.length - 2} more` : tables.join(" and "));
function drawAlerts() {
  const status = page.status, alerts = status.alerts;
  if (!alerts) { draw("alerts"); return; }
  const rules = Object.keys(alerts.rules).length, down = Object.entries(alerts.channels).filter(([, fault]) => fault).map(([name]) => name);
  const watched = alerts.is_watched ? `${rules} ${rules === 1 ? "rule" : "rules"}, looked ${age(since(status, alerts.watched_at))} ago` : `nobody has looked for ${age(since(status, alerts.watched_at))}`;
  draw("alerts", h("div", { class: "panel" },
    h("div", { class: "panel-head" }, h("h2", {}, "Alerts"), h("span", { class: alerts.is_watched ? "key" : "key bad-text" }, watched)),
    down.length ? h("p", { class: "bad-text" }, `not delivered to ${down.join(", ")}`) : null,
    alerts.raised.length ? h("table", { class: "rows stack" },
      h("thead", {}, h("tr", {}, ["alert", "table", "what", "since"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, together(alerts.raised, (one) => [one.rule, one.severity, one.text, one.since.slice(0, 19)]).map(([one, tables]) => h("tr", { "data-rule": one.rule }, h("td", { class: one.severity === "critical" ? "bad-text" : "warn-text" }, `${one.rule} (${one.severity})`),
        one.table ? named(tables, "td") : h("td", {}, "the pipeline"), h("td", {}, one.text), h("td", {}, ago(status, one.since)))))) : h("p", { class: "note" }, "No alert is raised.")));
}
function card(status, table, lost) {
  const { query, lag } = table, bad = lost || ["failed", "dead", "stalled"].includes(query.state);
  const state = lost ? "dead" : query.state, fresh = table.freshness;
  const waiting = fresh ? fresh.waiting_seconds : null;
  return h("article", { class: `table ${bad ? "bad" : ""} ${query.state === "stopped" ? "gone" : ""}`, "data-table": table.table, "data-state": state },
    h("h3", {}, h("span", { class: `dot ${state}`, "aria-hidden": "true" }), h("span", {}, broken(table.table.split(".").slice(1).join(".")))),
    h("p", { class: "phase" }, lost ? "no answer" : phase(query)),
    h("dl", { class: "numbers" },
      number("rows/s", table.words.is_rate_known ? short(table.rows_per_second) : "?"),
      number("to read", lag.count === null ? "?" : lag.count ? short(lag.count) : "0", lag.count && lag.seconds !== null ? age(lag.seconds) : null, lag.count === null ? "warn" : ""),
      fresh ? number("behind Kafka", waiting === null ? "?" : waiting < .05 ? "0 s" : age(waiting), null, waiting > 600 ? "warn" : "") : number("batch", table.last_batch_id === null ? "none" : whole(table.last_batch_id)),
      number("rows", table.fault ? "?" : table.exists ? short(table.rows) : "none yet", null, table.fault ? "warn" : "")),
    spark(table),
    h("p", { class: "more" }, details(status, table).map((text) => h("span", {}, text))));
}
// A long name breaks after an underscore, not inside a word.
const broken = (name) => name.split(/(?<=_)/).flatMap((part, n) => (n ? [h("wbr"), part] : [part]));
function phase(query) {
  const last = query.last_batch;
  if (query.state === "waiting" && last) return `${query.phase} · last batch ${age(last.duration_ms / 1000)}`;
  return query.is_faulty ? `${query.state}: ${query.phase}` : query.phase;
}
const number = (name, value, small, kind) => h("div", {}, h("dt", {}, name), h("dd", { class: kind || "" }, value, small ? h("small", {}, ` ${small}`) : null));
function* facts(status, table) {
  yield `reads ${table.reads.join(", ")}`;
  if (table.exists) {
    yield `${counted(table.files, "file")}, ${bytes(table.bytes)}`;
    yield `version ${whole(table.version)}, committed ${age(since(status, table.committed_at))} ago`;
  }
  if (table.watermark_at) yield `watermark ${ago(status, table.watermark_at)}`;
  const last = table.query.last_batch;
  if (last && last.state_rows !== null) yield `state ${counted(last.state_rows, "row")}, ${bytes(last.state_bytes)}`;
  if (table.lag.files) yield `to read: ${counted(table.lag.files, "file")}, ${bytes(table.lag.bytes)}`;
  if (table.lag.note && table.lag.note !== table.fault) yield table.lag.note;
  if (table.uncommitted && table.uncommitted.records) yield `${counted(table.uncommitted.records, "record")} in open transactions`;
  if (table.words.unread && table.lag.count === 0) yield table.words.unread;
  if (table.words.loss) yield table.words.loss;
  if (table.quarantine && table.quarantine.rows) yield `quarantine ${short(table.quarantine.rows)}`;
  if (table.late && table.late.count) yield `late ${short(table.late.count)}${table.late.left_out ? `, ${short(table.late.left_out)} left out` : ""}`;
  if (table.words.fields) yield table.words.fields;
  if (table.query.restarts) yield `restarts ${table.query.restarts}`;
}
const details = (status, table) => [...facts(status, table)];

// ---- lines

function points(query, field) {
  const history = page.history;
  if (!history) return [];
  const known = new Map((history.queries[query] || []).map((p) => [p.at, p[field]]));
  const found = [];
  for (let time = history.from; time < history.to; time += history.seconds) {
    const value = known.get(time);
    found.push([time, value === undefined || value === null ? (field === "rows_per_second" ? 0 : null) : value]);
  }
  return found;
}
function spark(table) {
  const found = points(table.table, "rows_per_second"), top = Math.max(...found.map(([, v]) => v), 0);
  if (!top) return h("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" }, h("line", { x1: 0, x2: 100, y1: 29, y2: 29 }));
  const step = 100 / Math.max(1, found.length - 1);
  const line = found.map(([, v], n) => `${n ? "L" : "M"}${(n * step).toFixed(2)} ${(29 - 27 * v / top).toFixed(2)}`).join("");
  return h("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": `rows per second of the last ${page.span}, at most ${short(top)}` },
    h("path", { class: "area", d: `${line}L100 29L0 29Z` }), h("path", { class: "line", d: line }));
}
// The ends of axes of seconds: they and their halves are whole in the unit in which age() says them.
const NICE_SECONDS = [1, 2, 4, 10, 20, 60, 240, 600, 1200, 3600, 14400, 28800, 86400];
function nice(top, format) {
  if (format === age) return NICE_SECONDS.find((n) => n >= top) || 172800 * 2 * Math.ceil(top / 345600);
  const size = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 4, 6, 8, 10].map((n) => n * size).find((n) => n >= top);
}
function byLayer(field) {
  const combine = field === "rows_per_second" ? (a, b) => (a || 0) + (b || 0) : (a, b) => (a === null ? b : b === null ? a : Math.max(a, b));
  return LAYERS.map((layer) => {
    const own = page.status ? page.status.tables.filter((t) => t.layer === layer) : [];
    const lines = own.map((t) => points(t.table, field));
    const found = lines.length ? lines[0].map(([time], n) => [time, lines.map((line) => line[n][1]).reduce(combine)]) : [];
    return { layer, found };
  }).filter(({ layer, found }) => Object.keys(page.history ? page.history.queries : {}).some((q) => q.startsWith(`${layer}.`)) && found.some(([, v]) => v !== null));
}
function chart(title, field, format) {
  const width = chartWidth(), height = 190, left = 52, bottom = 22, top = 10, right = 8;
  const series = byLayer(field);
  const head = h("div", { class: "panel-head" }, h("h2", {}, title),
    h("span", { class: "key" }, series.map(({ layer }) => h("span", {}, h("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, h("line", { class: layer, x1: 0, x2: 22, y1: 4, y2: 4 })), layer))),
    field === "rows_per_second" ? spans() : null);
  if (!page.history || !series.length) return h("div", { class: "panel" }, head, h("p", { class: "note" }, page.history ? `Nothing in the last ${page.span}.` : "Reading the history."));
  const most = nice(Math.max(1, ...series.flatMap((s) => s.found.map(([, v]) => v || 0))), format);
  const { from, to } = page.history;
  const x = (time) => left + (width - left - right) * (time - from) / Math.max(1, to - from), y = (v) => top + (height - top - bottom) * (1 - v / most);
  const times = [0, 1, 2, 3].map((n) => from + (to - from) * n / 3);
  return h("div", { class: "panel" }, head,
    h("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} by layer, the last ${page.span}` },
      [0, .5, 1].map((part) => [h("line", { class: "rule", x1: left, x2: width - right, y1: y(most * part), y2: y(most * part) }),
        h("text", { x: left - 8, y: y(most * part) + 4, "text-anchor": "end" }, format(most * part))]),
      times.map((time, n) => h("text", { x: x(time), y: height - 4, "text-anchor": n === 0 ? "start" : n === 3 ? "end" : "middle" }, `${new Date(time * 1000).toISOString().slice(11, 16)}${n === 3 ? " UTC" : ""}`)),
      series.map(({ layer, found }) => [h("path", { class: `series ${layer}`, d: pathOf(found, x, y) }), h("path", { class: `series alone ${layer}`, d: dotsOf(found, x, y) })])));
}
function chartWidth() {
  const columns = getComputedStyle(at("charts")).gridTemplateColumns.split(" ").length;
  return Math.max(240, Math.round((at("charts").clientWidth - 14 * (columns - 1)) / columns - 34));
}
const placeIn = ([time, v], x, y) => `${x(time).toFixed(1)} ${y(v).toFixed(1)}`;
const pathOf = (found, x, y) => found.filter(([, v]) => v !== null).map((point, n) => `${n ? "L" : "M"}${placeIn(point, x, y)}`).join("");
// A point without a neighbour is a line of no length, which its round ends make a dot.
function dotsOf(found, x, y) {
  const has = (n) => found[n] && found[n][1] !== null;
  return found.filter((point, n) => has(n) && !has(n - 1) && !has(n + 1)).map((point) => `M${placeIn(point, x, y)}h.01`).join("");
}
const spans = () => h("span", { class: "switch" }, ["hour", "day"].map((span) => h("button", { type: "button", "aria-pressed": String(page.span === span), onclick: () => { page.span = span; readHistory(); } }, span)));
function drawCharts() {
  draw("charts", chart("Rows read per second", "rows_per_second", short), chart("Behind Kafka", "waiting_seconds", age));
}

// ---- quarantine

function drawQuarantine() {
  const tables = page.status.tables.filter((t) => t.quarantine);
  const all = tables.flatMap((t) => Object.entries(t.quarantine.reasons).map(([reason, rows]) => ({ table: t, reason, rows })));
  const most = Math.max(1, ...all.map((one) => one.rows));
  const several = tables.length > 1;
  draw("quarantine", tables.length ? h("div", { class: "panel" },
    h("div", { class: "panel-head" }, h("h2", {}, "Quarantine by reason")),
    all.length ? h("table", { class: "rows" },
      h("thead", {}, h("tr", {}, several ? h("th", { scope: "col" }, "table") : null, h("th", { scope: "col" }, "reason"), h("th", { class: "n", scope: "col" }, "rows"), h("td", { class: "bar-cell" }), h("td", {}))),
      h("tbody", {}, all.map(({ table, reason, rows }) => h("tr", {}, several ? h("td", {}, table.table) : null, h("td", {}, reason), h("td", { class: "n" }, whole(rows)),
        h("td", { class: "bar-cell" }, h("svg", { class: "bar", viewBox: "0 0 100 7", preserveAspectRatio: "none", "aria-hidden": "true" }, h("rect", { class: "all", width: 100, height: 7 }), h("rect", { class: "part", width: Math.max(1, 100 * rows / most), height: 7 }))),
        h("td", {}, h("button", { type: "button", "aria-label": `look at records of ${table.table} with the reason ${reason}`, onclick: () => look(table.table, reason) }, "look")))))) : h("p", { class: "note" }, "No row is in quarantine.")) : null);
}
function qualityText({ checked, failed, warned }) {
  const parts = [failed.length ? `${failed.length} of ${checked} not met: ${failed.join(", ")}` : "", warned.length ? `${warned.length} of ${checked} warned: ${warned.join(", ")}` : ""];
  return parts.filter(Boolean).join("; ") || `all ${checked} met`;
}
function drawQuality() {
  draw("quality", page.quality.length ? h("div", { class: "panel" },
    h("div", { class: "panel-head" }, h("h2", {}, "Last quality results")),
    h("table", { class: "rows stack" },
      h("thead", {}, h("tr", {}, ["table", "expectations", "checked"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, page.quality.map((one) => h("tr", {}, h("td", {}, one.table),
        h("td", { class: one.is_met ? "good-text" : "bad-text" }, qualityText(one)),
        h("td", {}, `${page.status ? ago(page.status, one.at) : clock(one.at)}, version ${one.version}`)))))) : null);
}
async function look(table, reason) {
  page.look = { table, reason, records: null, chosen: null, shown: null, error: "", again: null };
  drawLook();
  at("look").showModal();
  await list(page.look);
}
async function list(mine) {
  mine.error = ""; mine.again = () => list(mine); drawLook();
  const { table, reason } = mine;
  try {
    mine.records = (await ask(`/api/quarantine/${encodeURIComponent(table)}?reason=${encodeURIComponent(reason)}`)).records;
    if (mine.records.length && SHOWS_RECORDS) await choose(mine, 0);
  } catch (error) { mine.error = error.message; }
  drawLook();
}
async function choose(mine, place) {
  // What went wrong with another record is not said of this one.
  mine.chosen = place; mine.shown = null; mine.error = ""; mine.again = () => choose(mine, place); drawLook();
  const { topic, partition, offset } = mine.records[place];
  try {
    const found = await ask(`/api/quarantine/${encodeURIComponent(mine.table)}/record?topic=${encodeURIComponent(topic)}&partition=${partition}&offset=${offset}`);
    if (mine.chosen === place) mine.shown = found.records[0] || null;
  } catch (error) { if (mine.chosen === place) mine.error = error.message; }
  drawLook();
}
function drawLook() {
  const mine = page.look;
  if (!mine) return;
  draw("look", h("div", { class: "look" },
    h("div", { class: "look-head" }, h("h2", { id: "look-title" }, `${mine.table}: ${mine.reason}`), h("button", { type: "button", onclick: () => at("look").close() }, "close")),
    mine.error ? h("p", { class: "bad-text", role: "alert" }, `${mine.error} `, h("button", { type: "button", onclick: mine.again }, "try again")) : null,
    mine.records === null && !mine.error ? h("p", { class: "note" }, "reading") : null,
    h("div", { class: "look-list" }, (mine.records || []).map((one, place) => h("button", { type: "button", "aria-pressed": String(mine.chosen === place), onclick: () => SHOWS_RECORDS && choose(mine, place) },
      placeOf(one), h("span", {}, `read ${page.status ? ago(page.status, one.ingested_at) : clock(one.ingested_at)}`), h("span", {}, one.reasons.join(", ")), one.field ? h("span", {}, `field ${one.field}`) : null))),
    mine.shown ? h("div", { class: "record" }, h("button", { type: "button", onclick: () => trace(searchOfPlace(placeOf(mine.shown))) }, "trace"), part("key", mine.shown.key), part("value", mine.shown.value), mine.shown.headers.map((one) => part(`header ${one.key}`, one.text === null ? null : one))) : null));
}
const placeOf = ({ topic, partition, offset }) => `${topic}/${partition}/${offset}`;
const part = (name, value) => [h("h3", {}, value ? `${name}, ${bytes(value.bytes)}${value.is_cut ? ", the beginning" : ""}` : name), h("pre", { tabindex: "0" }, value ? value.text : "null")];

// ---- the way of a record

const search = at("search");
function drawKey() {
  const chosen = search.querySelector("select").selectedOptions[0];
  const names = chosen.value ? JSON.parse(chosen.dataset.key) : ["topic/partition/offset"];
  const example = chosen.value ? "" : "orders/3/1842";
  draw("key", names.map((name) => h("label", {}, name, h("input", { type: "text", required: "", autocomplete: "off", spellcheck: "false", placeholder: example, size: "18" }))));
}
function searchOf() {
  const table = search.querySelector("select").value, values = [...search.querySelectorAll("input")].map((input) => input.value);
  return table ? { title: `${table}: ${values.join(", ")}`, table, path: `/api/trace?table=${encodeURIComponent(table)}${values.map((value) => `&key=${encodeURIComponent(value)}`).join("")}` } : searchOfPlace(values[0].trim());
}
const searchOfPlace = (place) => ({ title: place, table: null, path: `/api/trace?offset=${encodeURIComponent(place)}` });
async function trace(what) {
  const mine = { what, found: null, error: "" };
  page.trace = mine;
  drawTrace();
  if (!at("trace").open) at("trace").showModal();
  try { mine.found = await ask(what.path); } catch (error) { mine.error = error.message; }
  drawTrace();
}
function drawTrace() {
  const { what, found, error } = page.trace;
  draw("trace", h("div", { class: "look" },
    h("div", { class: "look-head" }, h("h2", { id: "trace-title" }, what.title), h("button", { type: "button", onclick: () => at("trace").close() }, "close")),
    error ? h("p", { class: "bad-text", role: "alert" }, `${error} `, h("button", { type: "button", onclick: () => trace(what) }, "try again")) : null,
    !found && !error ? h("p", { class: "note", role: "status" }, "reading tables and logs") : null,
    found && !found.lines.length ? h("p", { class: "note" }, `No row of ${what.table} has this key. It may be in quarantine, or not be read yet.`) : null,
    found ? h("ul", { class: "way", tabindex: "0" }, found.lines.map(way)) : null,
    found && found.has_more ? h("p", { class: "note" }, "There are more records: medallion trace --limit 50") : null));
}
const way = (line) => h("li", {}, line.name ? h("b", {}, line.name) : null, line.text ? h("span", {}, line.text) : null, line.at ? h("small", {}, line.at) : null,
  line.below.length ? h("ul", {}, line.below.map(way)) : null);
if (search) {
  drawKey();
  search.querySelector("select").onchange = drawKey;
  search.querySelector("form").onsubmit = (event) => { event.preventDefault(); trace(searchOf()); };
}

// ---- reading

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) }).catch((error) => {
    throw error.name === "TimeoutError" ? new Error(`no answer within ${TIMEOUT_MS / 1000} s`) : error;
  });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error || `HTTP ${answer.status}`);
  return content;
}
function drawAll() { drawHead(); if (page.status) { drawLayers(); drawAlerts(); drawQuarantine(); } }
async function readStatus() {
  try { page.status = await ask("/api/status"); page.heardAt = Date.now(); page.error = ""; } catch (error) { page.error = error.message; }
  drawAll();
  setTimeout(readStatus, POLL_MS);
}
let reading = 0;
async function readHistory() {
  clearTimeout(reading);
  drawCharts();
  const span = page.span;
  try { const found = await ask(`/api/history?span=${span}`); if (span === page.span) page.history = found; page.quality = (await ask("/api/quality")).suites; } catch { /* the head says that nothing answers */ }
  drawCharts();
  drawQuality();
  drawAll();
  reading = setTimeout(readHistory, HISTORY_MS);
}
addEventListener("resize", drawCharts);
setInterval(() => { if (Date.now() - page.heardAt > SILENT_MS) drawAll(); }, 1000);
readStatus().then(readHistory);
