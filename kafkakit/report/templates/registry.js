"use strict";
const PAGE = 50, MOST = 50000, MOST_ROWS = 1000, MOST_TAGS = 6, MOST_TEXT = 80;
const KINDS = {
  topic: {
    path: "topics", key: "name",
    all: "name,partitions,replication,under_replicated,reassigning,internal,configs,replicas,tags",
    fields: "name,partitions,replication,under_replicated,reassigning,internal,tags",
    columns: [
      ["name", "Name"], ["partitions", "Partitions"], ["replication", "Replicas"], ["state", "State"], ["tags", "Tags"],
    ],
    keys: "name, partitions, replication, under_replicated, reassigning, internal, config.NAME",
  },
  broker: {
    path: "brokers", key: "id", all: "", fields: "id,host,port,rack,tags",
    columns: [["id", "ID"], ["host", "Host"], ["port", "Port"], ["rack", "Rack"], ["tags", "Tags"]],
    keys: "id, host, port, rack, interbrokerprotocolversion, logmessageformat",
  },
};
const NUMBERS = new Set(["partitions", "replication", "port"]);
const right = column => NUMBERS.has(column) ? {class: "n"} : {};
// Characters that are not seen, or that change the direction of others.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}]/gu;
const at = id => document.getElementById(id);
const shown = value => String(value).replace(UNSEEN, c => `\\u{${c.codePointAt(0).toString(16)}}`);
const cut = text => text.length > MOST_TEXT ? text.slice(0, MOST_TEXT) + "\u2026" : text;
const titled = kind => kind === "topic" ? "Topic" : "Broker";
const counted = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
const collator = new Intl.Collator("en", {numeric: true});
const compare = (a, b) => typeof a === "number" ? a - b : collator.compare(a, b);

let state = {kind: "", query: "", open: ""}, objects = [], total = 0, first = 0, sort = {column: "", down: false};
let secret = "", readAt = null, asOf = "", loading = null;

// Children that are not elements become text: nothing of the server's is ever read as markup.
function make(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.map(child => child instanceof Node ? child : shown(child)));
  return made;
}

async function ask(path, fields, signal) {
  let answer;
  try {
    const headers = secret ? {Authorization: `Bearer ${secret}`} : {};
    answer = await fetch(`v2/${path}?${new URLSearchParams(fields)}`, {signal, headers, cache: "no-store"});
  } catch (error) {
    throw signal?.aborted ? error : new Error("the server cannot be reached");
  }
  const body = await answer.json().catch(() => null);
  if (answer.status === 401) at("access").open = true;
  if (!answer.ok || body === null) throw new Error(body?.message ?? `the server answered ${answer.status}`);
  if (answer.headers.has("Kafkakit-As-Of")) {
    asOf = answer.headers.get("Kafkakit-As-Of");
    readAt = performance.now() - 1000 * Number(answer.headers.get("Age"));
    tick();
  }
  return body;
}

function tick() {
  if (readAt === null) return;
  const age = Math.max(0, Math.floor((performance.now() - readAt) / 1000));
  at("fresh").textContent = `Read from the cluster ${counted(age, "second")} ago (${shown(asOf)}).`;
}

const hashOf = given => {
  const fields = Object.entries(given).filter(([, value]) => value !== "");
  return `#${new URLSearchParams(fields)}`;
};
function go(changes) {
  const hash = hashOf({...state, ...changes});
  if (hash === location.hash) apply(); else location.hash = hash;
}
async function apply() {
  const given = new URLSearchParams(location.hash.slice(1)), before = state;
  const kind = given.get("kind") === "broker" ? "broker" : "topic";
  state = {kind, query: given.get("query") ?? "", open: given.get("open") ?? ""};
  if (kind !== before.kind) drawKind();
  if (kind !== before.kind || state.query !== before.query) {
    at("query").value = state.query;
    load();
  }
  if (state.open) showDetails(kind, state.open);
  else if (at("details").open) at("details").close();
}

async function load() {
  loading?.abort();
  const {signal} = loading = new AbortController(), {kind, query} = state, of = KINDS[kind], found = [];
  at("found").setAttribute("aria-busy", "true");
  let token = "", problem = "";
  try {
    do {
      const page = await ask(of.path, {query, fields: of.fields, page_size: 1000, page_token: token}, signal);
      found.push(...page[of.path]);
      token = page.next_page_token;
      total = page.total;
    } while (token && found.length < MOST);
  } catch (error) {
    if (signal.aborted) return;
    problem = error.message;
    found.length = total = 0;
  }
  objects = found;
  first = 0;
  fail(problem, query);
  order();
  at("found").setAttribute("aria-busy", "false");
  const most = objects.length.toLocaleString("en");
  const rest = total > objects.length ? ` The first ${most} are shown: narrow the query.` : "";
  at("count").textContent = problem ? "" : `${counted(total, kind)}${query ? " found" : ""}.${rest}`;
}

// The server names a column of the query, counted in characters from 1.
function fail(problem, query) {
  const input = at("query"), place = /column (\d+)/.exec(problem), parts = [];
  input.setAttribute("aria-invalid", String(problem !== ""));
  if (problem) parts.push(make("p", {}, problem));
  if (place && query) {
    const before = [...query].slice(0, place[1] - 1).join(""), [bad = " ", ...after] = query.slice(before.length);
    parts.push(make("pre", {"aria-hidden": "true"}, before, make("mark", {}, bad), after.join("")));
    if (document.activeElement === input) input.setSelectionRange(before.length, before.length + bad.length);
  }
  at("error").replaceChildren(...parts);
}

const stateOf = topic => ["under_replicated", "reassigning", "internal"]
  .filter(field => topic[field]).map(field => field.replace("_", "-")).join(", ");
const tagsOf = tags => Object.entries(tags).map(([key, value]) => `${key}=${value}`).sort();
function valueOf(object, column) {
  if (column === "state") return stateOf(object);
  return column === "tags" ? tagsOf(object.tags).join(" ") : object[column] ?? "";
}

function drawKind() {
  const of = KINDS[state.kind];
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.dataset.kind === state.kind;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen) at("panel").setAttribute("aria-labelledby", tab.id);
  }
  at("keys").textContent = of.keys;
  at("which-label").textContent = `${of.key === "id" ? "ID" : "Name"} of a ${state.kind}`;
  at("reasons").replaceChildren();
  at("count").textContent = "";
  sort = {column: of.key, down: false};
  objects = [];
  at("heads").replaceChildren(...of.columns.map(([column, title]) => {
    const button = make("button", {type: "button", class: "sort"}, title, make("span", {"aria-hidden": "true"}));
    button.addEventListener("click", () => {
      sort = {column, down: sort.column === column && !sort.down};
      first = 0;
      order();
    });
    return make("th", {scope: "col", "data-column": column, ...right(column)}, button);
  }));
  order();
}

function order() {
  const {column, down} = sort, key = KINDS[state.kind].key, sign = down ? -1 : 1;
  const keyed = objects.map(object => [valueOf(object, column), object[key], object]);
  keyed.sort((a, b) => sign * compare(a[0], b[0]) || compare(a[1], b[1]));
  objects = keyed.map(each => each[2]);
  for (const head of at("heads").children) {
    const chosen = head.dataset.column === column;
    head.setAttribute("aria-sort", chosen ? (down ? "descending" : "ascending") : "none");
    head.querySelector("span").textContent = chosen ? (down ? " \u25bc" : " \u25b2") : "";
  }
  draw();
}

function draw() {
  const of = KINDS[state.kind], end = Math.min(first + PAGE, objects.length);
  at("rows").replaceChildren(...objects.slice(first, end).map(object => row(of, object)));
  at("caption").textContent = `${titled(state.kind)}s${state.query ? " that match the query" : ""}`;
  const place = `${first + 1}\u2013${end} of ${objects.length.toLocaleString("en")}`;
  at("place").textContent = objects.length ? place : "none";
  at("back").disabled = first === 0;
  at("next").disabled = end >= objects.length;
}

function row(of, object) {
  return make("tr", {}, ...of.columns.map(([column]) => {
    if (column === of.key) {
      const link = make("a", {href: hashOf({...state, open: String(object[column])})}, object[column]);
      return make("th", {scope: "row"}, link);
    }
    if (column === "tags") return make("td", {}, ...chips(object.tags));
    return make("td", right(column), valueOf(object, column));
  }));
}

function chips(tags) {
  const all = tagsOf(tags), parts = all.slice(0, MOST_TAGS).map(text => make("span", {class: "tag"}, cut(text)));
  if (all.length > MOST_TAGS) parts.push(make("span", {class: "soft"}, `and ${all.length - MOST_TAGS} more`));
  return parts.flatMap(part => [part, " "]);
}

function grid(title, heads, rows) {
  const more = rows.length > MOST_ROWS ? `; the first ${MOST_ROWS} of ${rows.length}` : "";
  const top = make("tr", {}, ...heads.map(head => make("th", {scope: "col"}, head)));
  const body = rows.slice(0, MOST_ROWS).map(cells => make("tr", {}, ...cells.map(cell => make("td", {}, cell))));
  const parts = [make("caption", {}, title + more), make("thead", {}, top), make("tbody", {}, ...body)];
  const around = {class: "wide", tabindex: "0", role: "region", "aria-label": title};
  return rows.length ? make("div", around, make("table", {}, ...parts)) : make("p", {class: "soft"}, `${title}: none`);
}

// A key or value as the query language quotes it.
const quoted = text => `"${shown(text.replace(/[\\"]/g, "\\$&"))}"`;
function finder(kind, key, value) {
  const label = `Find ${kind}s with ${shown(key)}=${shown(value)}`;
  const button = make("button", {type: "button", "aria-label": label}, "Find");
  button.addEventListener("click", () => {
    const part = `${quoted(key)} = ${quoted(value)}`;
    go({query: state.query ? `(${state.query}) and ${part}` : part, open: ""});
  });
  return button;
}

async function showDetails(kind, name) {
  const of = KINDS[kind], dialog = at("details"), isStill = () => state.open === name && state.kind === kind;
  at("details-name").textContent = `${titled(kind)} ${shown(name)}`;
  at("facts").replaceChildren(make("p", {}, "Loading\u2026"));
  if (!dialog.open) dialog.showModal();
  try {
    const object = await ask(`${of.path}/${encodeURIComponent(name)}`, of.all ? {fields: of.all} : {});
    if (!isStill()) return;
    const plain = Object.entries(object).filter(([key, value]) => typeof value !== "object" && key !== "etag");
    const facts = plain.flatMap(([key, value]) => [make("dt", {}, key.replaceAll("_", " ")), make("dd", {}, value)]);
    const parts = [
      make("dl", {}, ...facts),
      grid("Tags", ["Key", "Value", "Query"], Object.entries(object.tags).map(([k, v]) => [k, v, finder(kind, k, v)])),
    ];
    if (kind === "topic") {
      parts.push(grid("Configurations", ["Name", "Value"], Object.entries(object.configs)));
      const replicas = object.replicas.map(each => [each.partition, each.brokers.join(", ")]);
      parts.push(grid("Replicas", ["Partition", "Brokers"], replicas));
    }
    const history = make("div", {}, "Loading the history\u2026");
    at("facts").replaceChildren(...parts, history);
    const page = await ask("history", {kind, name, page_size: 100}).catch(error => error);
    const past = page instanceof Error ? make("p", {class: "warn"}, `History: ${page.message}`) : pastOf(page);
    if (isStill()) history.replaceChildren(past);
  } catch (error) {
    if (isStill()) at("facts").replaceChildren(make("p", {role: "alert", class: "warn"}, error.message));
  }
}

function pastOf(page) {
  const rows = page.entries.flatMap(entry => entry.changes.map(
    change => [entry.at, entry.by, change.key, change.old ?? "(not set)", change.new ?? "(not set)"]));
  const title = `History of tags${page.next_page_token ? ", the latest changes" : ""}`;
  return grid(title, ["At", "By", "Key", "Before", "After"], rows);
}

async function explain(event) {
  event.preventDefault();
  const {kind} = state, name = at("which").value.trim(), query = at("query").value;
  let parts;
  try {
    const found = query ? await ask("explain", {kind, name, query}) : {matches: true, reasons: ["there is no query"]};
    const said = make("p", {}, `${name} ${found.matches ? "matches" : "does not match"}:`);
    parts = [said, make("ul", {}, ...found.reasons.map(reason => make("li", {}, reason)))];
  } catch (error) {
    parts = [make("p", {class: "warn"}, error.message)];
  }
  at("reasons").replaceChildren(...parts);
}

function useToken() {
  secret = at("token").value.trim();
  at("token").value = "";
  at("token-state").textContent = secret ? "A token is used." : "No token is used.";
  load();
}

const tabs = [...document.querySelectorAll("[role=tab]")];
tabs.forEach((tab, number) => {
  tab.addEventListener("click", () => go({kind: tab.dataset.kind, query: "", open: ""}));
  tab.addEventListener("keydown", event => {
    const to = {ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: -1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs.at(to % tabs.length);
    next.focus();
    next.click();
  });
});
at("search").addEventListener("submit", event => {
  event.preventDefault();
  const query = at("query").value;
  if (query === state.query) load(); else go({query});
});
at("explain").addEventListener("submit", explain);
at("back").addEventListener("click", () => { first -= PAGE; draw(); });
at("next").addEventListener("click", () => { first += PAGE; draw(); });
at("reload").addEventListener("click", load);
at("use").addEventListener("click", useToken);
at("token").addEventListener("keydown", event => { if (event.key === "Enter") useToken(); });
at("close").addEventListener("click", () => at("details").close());
at("details").addEventListener("close", () => { if (state.open) go({open: ""}); });
addEventListener("hashchange", apply);
setInterval(tick, 1000);
apply();
