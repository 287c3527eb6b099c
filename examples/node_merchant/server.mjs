// A merchant in Node 18 or newer, without dependencies: docs/merchants/protocol.md in one file.
//   SHOP_SECRET='whsec_…' node server.mjs 8081 orders.jsonl
//
// Calls go to /, status questions to /status. An order, its reply and its key are one line of an append-only file:
// durable together or not at all. One process owns it and never waits between looking and writing, so twins cannot meet.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { createServer } from "node:http";

const [, , port, path = "orders.jsonl"] = process.argv;
const SECRETS = (process.env.SHOP_SECRET ?? "").trim().split(/\s+/).map((each) => Buffer.from(each.slice(6), "base64"));
if (SECRETS.some((key) => key.length < 24)) throw new Error("SHOP_SECRET holds no signing secret"); // or anyone could sign
const STOCK = new Map([["dosa", 40], ["vada", 0]]);
const [TOLERANCE_S, MOST_BYTES] = [300, 1 << 20];

const file = openSync(path, "a+");
const rows = new Map();
const text = readFileSync(path);
let size = text.lastIndexOf("\n") + 1; // what follows the last newline was never answered: its write was cut off
ftruncateSync(file, size);
const kept = text.subarray(0, size).toString().split("\n").slice(0, -1).map((line) => JSON.parse(line));
for (const row of kept) rows.set(row.key, row);

function commit(row) {
  const line = Buffer.from(JSON.stringify(row) + "\n");
  try {
    for (let done = 0; done < line.length; ) done += writeSync(file, line, done);
    fsyncSync(file);
  } catch (error) {
    ftruncateSync(file, size);
    throw error; // a 500, and nothing stored
  }
  size += line.length;
  rows.set(row.key, row);
  return row;
}

const no = (status, code, message) => ({ status, reply: JSON.stringify({ error: { code, message } }) });
const orders = () => [...rows.values()].filter((row) => row.order);
const yes = (value) => ({ status: 200, reply: JSON.stringify(value) });

function verified(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signature } = headers;
  if (!/^[!-~]+$/.test(id ?? "") || id.includes(".") || !/^\d{1,12}$/.test(stamp ?? "") || !signature) return false;
  const offered = signature.split(" ").map((entry) => Buffer.from(entry, "latin1"));
  const good = SECRETS.some((secret) => {
    const wanted = Buffer.from("v1," + createHmac("sha256", secret).update(`${id}.${stamp}.`).update(body).digest("base64"));
    return offered.some((entry) => entry.length === wanted.length && timingSafeEqual(entry, wanted));
  });
  return good && Math.abs(Date.now() / 1000 - Number(stamp)) <= TOLERANCE_S;
}

function order({ item, quantity, ...rest }) {
  if (typeof item !== "string" || !Number.isInteger(quantity) || quantity < 1 || Object.keys(rest).length)
    return no(422, "invalid_arguments", "An order has an item and a whole quantity.");
  if ((STOCK.get(item) ?? 0) < quantity) return no(422, "sold_out", `Sorry, we do not have ${quantity} of ${item} left.`);
  return { ...yes({ order_id: orders().length + 1 }), order: { item, quantity } };
}

function call(key, { tool, arguments: given }, body) {
  if (tool === "count_orders") return yes({ orders: orders().length });
  if (key === undefined) return no(400, "malformed_call", "A call that changes something carries an Idempotency-Key.");
  const fingerprint = createHash("sha256").update(body).digest("hex"); // each try of a call has the same bytes
  const first = rows.get(key);
  if (first?.fingerprint && first.fingerprint !== fingerprint) return no(422, "key_conflict", "This key is another call's.");
  if (first) return { ...first, replayed: true };
  return commit({ key, fingerprint, ...(tool === "place_order" ? order(given) : no(404, "unknown_tool", "No such tool.")) });
}

function status(key) {
  const row = rows.get(key) ?? commit({ key, fingerprint: "", ...no(410, "void", "Ruled out before it came.") });
  return row.status !== 200 ? yes({ status: "void" }) : { status: 200, reply: `{"status":"committed","result":${row.reply}}` };
}

function answer({ method, url, headers }, body) {
  if (method !== "POST") return no(405, "method_not_allowed", "Calls are sent with POST.");
  const key = headers["idempotency-key"];
  if (!verified(headers, body) || (key !== undefined && key !== headers["webhook-id"]))
    return no(401, "signature_invalid", "The signature is missing or wrong.");
  const said = JSON.parse(body);
  if (url === "/status" && typeof said?.idempotency_key === "string") return status(said.idempotency_key);
  if (url !== "/status" && said?.arguments && typeof said.arguments === "object") return call(key, said, body);
  return no(400, "malformed", "This is neither a call nor a question.");
}

createServer(async (request, response) => {
  let said = no(500, "merchant_error", "The shop failed to finish this and stored nothing of it.");
  try {
    let body = Buffer.alloc(0);
    for await (const chunk of request) if (body.length <= MOST_BYTES) body = Buffer.concat([body, chunk]);
    said = body.length > MOST_BYTES ? no(413, "body_too_large", "A body is at most 1 MiB.") : answer(request, body);
  } catch (error) {
    if (!request.complete) return; // cut off: nothing was done, and nobody listens
    if (error instanceof SyntaxError) said = no(400, "malformed", "The body is not JSON.");
    else console.error(error);
  }
  if (said.replayed) response.setHeader("Idempotent-Replayed", "true");
  response.writeHead(said.status, { "Content-Type": "application/json" }).end(said.reply);
}).listen(Number(port), "127.0.0.1");
