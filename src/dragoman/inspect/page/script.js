"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const T = 0, WAY = 1, KIND = 2, NAME = 3, ID = 4, SESSION = 5, TEXT = 6, TOOK = 7, PARTNER = 8, TURN = 9, CALL = 10, FLAWS = 11, TRACE = 12, RAW = 13, SIZE = 14, HOP = 15;
const SLOW = 1e6, $ = (id) => document.getElementById(id);
const CHUNKS = new Set(["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]);
const INK = ["var(--c2a)", "var(--a2c)", "var(--err)"];
const rows = D.rows, stage = $("stage"), track = $("track");
let items = [], chosen = -1, shown = new Map(), lower = null;

function el(tag, cls, text) { const e = document.createElement(tag); if (cls) e.className = cls; if (text !== undefined) e.textContent = text; return e; }
function took(us) { return us == null ? "" : us < 1000 ? us + " µs" : us < 1e6 ? +(us / 1e3).toPrecision(3) + " ms" : +(us / 1e6).toPrecision(3) + " s"; }
function octets(n) { return n < 1024 ? n + " B" : n < 1048576 ? (n / 1024).toFixed(1) + " KiB" : (n / 1048576).toFixed(1) + " MiB"; }
function bad(r) { return r[KIND] === "failure" || r[FLAWS].some((f) => f[1]); }

/* --- what is listed: rows that fit the filters, runs of chunks as one, a heading before each turn --- */
function build() {
  const wanted = $("search").value.toLowerCase(), method = $("method").value, session = $("session").value, way = $("way").value;
  const faults = $("faults").checked, slow = $("slow").checked, fold = $("fold").checked;
  if (wanted && !lower) lower = rows.map((r) => (r[NAME] + " " + r[RAW]).toLowerCase());
  const keep = chosen >= 0 && items[chosen] ? items[chosen].row : -1;
  items = []; let last = null, turn = -1, seen = 0;
  for (let i = 0; i < rows.length; i++) {
    const r = rows[i];
    if ((method && r[NAME] !== method) || (session !== "" && r[SESSION] !== +session) || (way !== "" && r[WAY] !== +way)) continue;
    if ((faults && !r[FLAWS].length && r[KIND] !== "failure") || (slow && !(r[TOOK] >= SLOW)) || (wanted && !lower[i].includes(wanted))) continue;
    seen++;
    if (r[TURN] >= 0 && r[TURN] !== turn) { items.push({ turn: r[TURN], row: -1 }); last = null; }
    if (r[TURN] >= 0) turn = r[TURN];
    if (fold && !wanted && last && CHUNKS.has(r[NAME]) && rows[last.row][NAME] === r[NAME] && rows[last.row][SESSION] === r[SESSION] && !r[FLAWS].length && rows[last.row][HOP] === r[HOP]) { last.rows.push(i); continue; }
    last = { row: i, rows: [i], turn: -1 }; items.push(last);
    if (!CHUNKS.has(r[NAME])) last = null;
  }
  $("count").textContent = seen === rows.length ? rows.length + " messages" : seen + " of " + rows.length;
  chosen = -1;
  if (keep >= 0) chosen = items.findIndex((it) => it.rows && it.rows.includes(keep));
  draw(true);
}

/* --- drawing: only what can be seen --- */
let sizes = null; addEventListener("resize", () => { sizes = null; });
function measured() { if (sizes) return sizes; const css = getComputedStyle(document.documentElement); return (sizes = { row: parseFloat(css.getPropertyValue("--row")), edge: parseFloat(css.getPropertyValue("--edge")) }); }
function height() { return measured().row; }
function edge() { return measured().edge; }
function place(n) { const e = edge(), step = (100 - 2 * e) / (D.lines.length - 1); return e + n * step; }
function draw(anew) {
  const h = height(), top = Math.max(0, Math.floor(stage.scrollTop / h) - 8), end = Math.min(items.length, Math.ceil((stage.scrollTop + stage.clientHeight) / h) + 8);
  if (anew) { shown.clear(); track.replaceChildren(); track.style.height = items.length * h + 60 + "px"; if (!items.length) track.append(el("div", "none", rows.length ? "Nothing fits these filters." : "This recording is empty.")); }
  for (const [n, e] of shown) if (n < top || n >= end) { e.remove(); shown.delete(n); }
  const fresh = document.createDocumentFragment();
  for (let n = top; n < end; n++) if (!shown.has(n)) { const e = items[n].turn >= 0 ? heading(items[n].turn) : message(items[n], n); e.style.top = n * h + "px"; e.dataset.n = n; shown.set(n, e); fresh.append(e); }
  track.append(fresh);
}
function heading(n) {
  const t = D.turns[n], e = el("div", "r turn t" + n % 2);
  e.append(el("i", "tb"), el("span", "num", "#" + t.n), el("strong", "", "Turn " + t.n));
  const stop = el("span", "chip", t.stop || "no answer"); stop.style.setProperty("--k", t.stop === "end_turn" ? "var(--a2c)" : t.stop ? "var(--warn)" : "var(--bad)"); e.append(stop);
  e.append(el("span", "", [took(t.took), t.calls ? t.calls + (t.calls > 1 ? " tool calls" : " tool call") : "", t.prompt].filter(Boolean).join("  ·  ")));
  return e;
}
const lanes = []; { const ends = []; for (const c of D.calls) { let l = 0; while (ends[l] !== undefined && ends[l] >= c[3]) l++; ends[l] = c[4]; lanes.push(l); } }
const around = new Map(); D.calls.forEach((c, n) => { if (c[4] > c[3]) for (let i = c[3]; i <= c[4]; i++) { if (!around.has(i)) around.set(i, []); around.get(i).push(n); } });
function message(it, n) {
  const r = rows[it.row], e = el("div", "r w" + r[WAY] + (r[TURN] >= 0 ? " t" + r[TURN] % 2 : "") + (n === chosen ? " on" : ""));
  e.style.setProperty("--k", bad(r) ? "var(--bad)" : INK[r[WAY]]);
  if (r[TURN] >= 0) e.append(el("i", "tb"));
  e.append(el("span", "time", r[T] == null ? "line " + (it.row + 1) : (r[T] / 1e6).toFixed(4)));
  const lane = el("div", "lane"); e.append(lane);
  for (const c of around.get(it.row) || []) {
    const call = D.calls[c], b = el("div", "box" + (it.rows.includes(call[3]) ? " first" : "") + (it.rows.includes(call[4]) ? " last" : ""));
    b.style.setProperty("--b", call[2] === "completed" ? "var(--a2c)" : call[2] === "failed" ? "var(--bad)" : "var(--call)");
    const inset = Math.min(lanes[c], 5) * 0.8 - edge() / 2; b.style.left = place(call[6]) + inset + "%"; b.style.right = 100 - place(call[6] + 1) + inset + "%"; lane.append(b);
  }
  for (let l = 0; l < D.lines.length; l++) { const line = el("i", "life"); line.style.left = place(l) + "%"; lane.append(line); }
  const from = place(r[HOP]), to = place(r[HOP] + 1);
  if (r[WAY] < 2 && r[KIND] !== "blank") {
    const a = el("i", "arrow " + (r[WAY] === 0 ? "right" : "left") + (r[KIND] === "answer" || r[KIND] === "failure" ? " dash" : ""));
    a.style.left = from + "%"; a.style.right = 100 - to + "%"; lane.append(a);
  }
  const lab = el("div", "lab"); lab.style.left = `calc(${from}% + 10px)`; lab.style.right = `calc(${100 - to}% + 10px)`;
  const mark = r[KIND] === "answer" ? "✓ " : r[KIND] === "failure" ? "✗ " : "";
  lab.append(el("b", "", mark + r[NAME] + (it.rows.length > 1 ? " ×" + it.rows.length : "")));
  if (r[TOOK] != null) lab.append(el("span", "chip" + (r[TOOK] >= SLOW ? " slow" : ""), took(r[TOOK])));
  if (r[FLAWS].length) lab.append(el("span", "chip" + (bad(r) ? " bad" : " slow"), r[FLAWS].length === 1 ? "fault" : r[FLAWS].length + " faults"));
  lab.append(el("i", "", it.rows.length > 1 ? it.rows.slice(0, 60).map((i) => rows[i][TEXT]).join("") : r[TEXT]));
  lane.append(lab);
  return e;
}

/* --- one message --- */
function choose(n, scroll) {
  if (n < 0 || n >= items.length || !items[n].rows) return;
  const before = shown.get(chosen); if (before) before.classList.remove("on");
  chosen = n; const now = shown.get(n); if (now) now.classList.add("on");
  if (scroll) { const h = height(), y = n * h; if (y < stage.scrollTop + h || y > stage.scrollTop + stage.clientHeight - 2 * h) { stage.scrollTop = y - stage.clientHeight / 2; draw(false); } }
  if (!$("detail").hidden) open();
}
function open() {
  if (chosen < 0) return;
  const it = items[chosen], r = rows[it.row], facts = $("dfacts"), arrow = r[WAY] === 2 ? "stderr" : D.lines[r[HOP] + (r[WAY] === 0 ? 0 : 1)] + " → " + D.lines[r[HOP] + (r[WAY] === 0 ? 1 : 0)];
  $("dname").textContent = r[NAME] + (it.rows.length > 1 ? " ×" + it.rows.length : "");
  facts.replaceChildren(el("div", "", [arrow, r[KIND], r[ID] && "id " + r[ID], r[T] != null && (r[T] / 1e6).toFixed(6) + " s", r[TOOK] != null && "took " + took(r[TOOK]), octets(r[SIZE])].filter(Boolean).join("  ·  ")));
  if (r[SESSION] >= 0) facts.append(el("div", "", "session " + D.sessions[r[SESSION]]));
  if (r[CALL] >= 0) { const c = D.calls[r[CALL]]; facts.append(el("div", "", "tool call " + [c[0], c[1], c[2], took(c[5])].filter(Boolean).join(" · "))); }
  if (r[TRACE]) facts.append(el("div", "", "traceparent " + r[TRACE]));
  for (const f of r[FLAWS]) facts.append(el("div", f[1] ? "flaw" : "slip", (f[1] ? "✗ " : "~ ") + f[0]));
  $("partner").disabled = r[PARTNER] == null;
  const out = $("json"); out.replaceChildren(); out.scrollTop = 0;
  for (const i of it.rows.slice(0, 200)) { pretty(rows[i][RAW], out); out.append("\n"); if (it.rows.length > 1) out.append("\n"); }
  if (it.rows.length > 200) out.append("… and " + (it.rows.length - 200) + " more");
  const narrow = innerWidth <= 760, h = height(); $("detail").hidden = false;
  if (narrow && (chosen * h < stage.scrollTop || (chosen + 1.5) * h > stage.scrollTop + stage.clientHeight * 0.36)) { stage.scrollTop = chosen * h - 1.2 * h; draw(false); }
}
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*|true|false|null)/g;
function pretty(raw, out) {
  let text; try { text = JSON.stringify(JSON.parse(raw), null, 2); } catch { out.append(raw); return; }
  let at = 0; if (text.length > 300000) { out.append(text); return; }
  for (const m of text.matchAll(TOKEN)) { out.append(text.slice(at, m.index)); out.append(el("span", m[3] ? "n" : m[2] ? "k" : "s", m[1] || m[3])); if (m[2]) out.append(m[2]); at = m.index + m[0].length; }
  out.append(text.slice(at));
}
function step(by) { let n = chosen + by; while (items[n] && !items[n].rows) n += by; choose(n, true); }
function jump(by) { let n = chosen < 0 ? (by > 0 ? -1 : items.length) : chosen; const mine = chosen >= 0 ? rows[items[chosen].row][TURN] : -1; for (n += by; items[n]; n += by) if (items[n].turn >= 0 && items[n].turn !== mine) { choose(n + 1, true); return; } }
function partner() { if (chosen < 0) return; const p = rows[items[chosen].row][PARTNER]; if (p == null) return; const n = items.findIndex((it) => it.rows && it.rows.includes(p)); if (n >= 0) choose(n, true); }
function theme() { const now = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; document.documentElement.dataset.theme = now; }
function copy() { if (chosen >= 0 && navigator.clipboard) navigator.clipboard.writeText(items[chosen].rows.map((i) => rows[i][RAW]).join("\n")).catch(() => {}); }
const KEYS = { j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1), Enter: open, Escape: () => { $("detail").hidden = true; stage.focus(); }, p: partner, "]": () => jump(1), "[": () => jump(-1), "/": () => $("search").focus(), t: theme, c: copy, f: () => { $("fold").checked = !$("fold").checked; build(); }, "?": () => $("help").showModal() };

/* --- begin --- */
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
$("title").textContent = D.title;
{ const end = rows.reduce((m, r) => Math.max(m, r[T] || 0), 0), flawed = rows.filter((r) => r[FLAWS].length).length;
  $("summary").textContent = [D.command, D.start.slice(0, 19).replace("T", " "), took(end), D.turns.length + (D.turns.length === 1 ? " turn" : " turns"), flawed ? flawed + " with faults" : "no faults", D.redacted && "redacted"].filter(Boolean).join("  ·  "); }
function choices(id, first, pairs) { const s = $(id); s.append(new Option(first, "")); for (const [v, t] of pairs) s.append(new Option(t, v)); }
{ const counts = new Map(); for (const r of rows) counts.set(r[NAME], (counts.get(r[NAME]) || 0) + 1);
  choices("method", "all methods", [...counts].sort((a, b) => b[1] - a[1]).map(([m, c]) => [m, m + " (" + c + ")"])); }
choices("session", "all sessions", D.sessions.map((s, n) => [n, s.length > 24 ? s.slice(0, 23) + "…" : s]));
// A name has less room than the next lifeline is away, so that names of many never cover each other.
$("heads").style.setProperty("--head", 66 / (D.lines.length - 1) + "%");
D.lines.forEach((name, n) => { const s = el("span", "", name); s.title = name; s.style.left = place(n) + "%"; $("heads").append(s); });
let timer = 0; $("search").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(build, 120); });
for (const id of ["method", "session", "way", "faults", "slow", "fold"]) $(id).addEventListener("change", build);
let due = false; stage.addEventListener("scroll", () => { if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(false); }); } }, { passive: true });
track.addEventListener("click", (e) => { const r = e.target.closest(".r"); if (r && items[+r.dataset.n].rows) { choose(+r.dataset.n, false); open(); } });
new ResizeObserver(() => { $("heads").style.marginRight = document.documentElement.clientWidth - stage.getBoundingClientRect().left - track.clientWidth + "px"; draw(true); }).observe(stage);
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || $("help").open) return;
  if (/^(INPUT|SELECT)$/.test(document.activeElement.tagName) && e.key !== "Escape") return;
  const act = KEYS[e.key]; if (act) { e.preventDefault(); if (e.key === "Escape") document.activeElement.blur(); act(); }
});
$("close").addEventListener("click", KEYS.Escape); $("partner").addEventListener("click", partner); $("copy").addEventListener("click", copy);
$("theme").addEventListener("click", theme); $("keys").addEventListener("click", () => $("help").showModal());
build(); stage.focus();
