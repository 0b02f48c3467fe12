// An S3 server for upload_test.sh: s3rver (npm), and in front of it what it does not do.
//   node s3_server.cjs FOLDER BUCKET...     FOLDER/port gets its port; FOLDER/log one line a request; it ends with its standard input
//
// s3rver 3.7.1 lists neither uploads nor their parts, ends no upload, cuts no list into pages, believes every Signature Version 4, and compares no hash. Here signatures are
// compared with those that aws4 (npm) makes of the same request, hashes with what arrived; and the three calls are answered from s3rver's own files.
//
// FOLDER/faults, when it is there, is JSON: {"seed": 1, "rate": 0.2, "kinds": ["500", …]} gives the n-th request the fault that follows from seed and n;
// {"once": "reset", "at": "part 2$"} gives it to the first request whose line in the log matches, and removes the file. Kinds: 500, 503, 429, reset (in the
// middle of the body), stall (no answer), hold (the same in the middle of the body, and FOLDER/held is made), flip (a bit of the body), cut (done, but the
// answer breaks off).
"use strict";
const fs = require("fs"), http = require("http"), path = require("path"), crypto = require("crypto");
const aws4 = require("aws4"), S3rver = require("s3rver");

const [folder, ...buckets] = process.argv.slice(2);
const keys = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" };
const log = (line) => fs.appendFileSync(path.join(folder, "log"), line + "\n");

// ---- what is refused

class Refusal extends Error {
  constructor(status, code, message) { super(message); this.status = status; this.code = code; }
}
const escape = (text) => String(text).replace(/[<>&"]/g, (c) => `&#${c.charCodeAt(0)};`);
const errorXml = (code, message) => `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${escape(code)}</Code><Message>${escape(message)}</Message></Error>`;

function checkSignature(req) {
  const given = req.headers.authorization || "";
  const [, id, date, region, names, signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(given) || [];
  if (!id) throw new Refusal(403, "AccessDenied", "Access Denied.");
  if (id !== keys.accessKeyId) throw new Refusal(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.");
  const headers = Object.fromEntries(names.split(";").map((name) => [name, req.headers[name]]));
  for (const name of ["host", "x-amz-date", "x-amz-content-sha256"])
    if (!headers[name]) throw new Refusal(403, "AccessDenied", `There were headers present in the request which were not signed: ${name}`);
  if (!headers["x-amz-date"].startsWith(date)) throw new Refusal(403, "SignatureDoesNotMatch", "another date");
  if (Math.abs(Date.parse(headers["x-amz-date"].replace(/^(....)(..)(..)T(..)(..)(..)Z$/, "$1-$2-$3T$4:$5:$6Z")) - Date.now()) > 900e3)
    throw new Refusal(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.");
  // whatever the client says of its body is part of what aws4 signs, so that it needs none
  const signer = new aws4.RequestSigner({ service: "s3", region, method: req.method, path: req.url, headers,
    extraHeadersToInclude: Object.fromEntries(names.split(";").map((n) => [n, true])) }, keys);
  if (signer.sign().headers.Authorization.split("Signature=")[1] !== signature)
    throw new Refusal(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your key and signing method.");
}

function checkBody(req, body) {
  if (req.headers["content-md5"] && crypto.createHash("md5").update(body).digest("base64") !== req.headers["content-md5"])
    throw new Refusal(400, "BadDigest", "The Content-MD5 you specified did not match what we received.");
  if (crypto.createHash("sha256").update(body).digest("hex") !== req.headers["x-amz-content-sha256"])
    throw new Refusal(400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.");
}

// ---- what s3rver lacks: its uploads are folders of files: key, metadata, 1, 1.md5, …

const uploadsOf = (bucket) => path.join(folder, "data", bucket, "._S3rver_uploads");
// One a page, so that there are pages.
function listUploads(bucket, query) {
  const at = uploadsOf(bucket), prefix = query.get("prefix") || "", after = query.get("upload-id-marker");
  const all = (fs.existsSync(at) ? fs.readdirSync(at) : []).map((id) => ({ id, key: fs.readFileSync(path.join(at, id, "key"), "utf8"), time: fs.statSync(path.join(at, id, "key")).mtimeMs }))
    .filter((u) => u.key.startsWith(prefix)).sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.time - b.time));
  const from = after ? all.findIndex((u) => u.id === after && u.key === query.get("key-marker")) + 1 : 0, page = all.slice(from, from + 1), more = all.length > from + 1;
  return `<ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Bucket>${bucket}</Bucket><KeyMarker/><IsTruncated>${more}</IsTruncated>` +
    (more ? `<NextKeyMarker>${escape(page[0].key)}</NextKeyMarker><NextUploadIdMarker>${page[0].id}</NextUploadIdMarker>` : "") +
    page.map((u) => `<Upload><Key>${escape(u.key)}</Key><UploadId>${u.id}</UploadId></Upload>`).join("") + "</ListMultipartUploadsResult>";
}
function uploadFolder(bucket, query) {
  const id = query.get("uploadId"), at = path.join(uploadsOf(bucket), id);
  if (!/^[0-9a-f]+$/.test(id) || !fs.existsSync(at)) throw new Refusal(404, "NoSuchUpload", "The specified upload does not exist.");
  return at;
}
// Two a page, so that there are pages.
function listParts(bucket, query) {
  const at = uploadFolder(bucket, query), after = Number(query.get("part-number-marker") || 0);
  const all = fs.readdirSync(at).filter((name) => /^\d+$/.test(name) && fs.existsSync(path.join(at, name + ".md5"))).map(Number).sort((a, b) => a - b).filter((n) => n > after);
  const page = all.slice(0, 2);
  return `<ListPartsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><UploadId>${query.get("uploadId")}</UploadId><IsTruncated>${all.length > 2}</IsTruncated>` +
    (all.length > 2 ? `<NextPartNumberMarker>${page[1]}</NextPartNumberMarker>` : "") +
    page.map((n) => `<Part><PartNumber>${n}</PartNumber><ETag>"${fs.readFileSync(path.join(at, n + ".md5"), "utf8")}"</ETag><Size>${fs.statSync(path.join(at, String(n))).size}</Size></Part>`).join("") + "</ListPartsResult>";
}
function lacking(req, bucket, key, query) {
  if (!bucket || !fs.existsSync(path.join(folder, "data", bucket))) return null;
  if (req.method === "GET" && !key && query.has("uploads")) return { status: 200, xml: listUploads(bucket, query) };
  if (query.has("uploadId") && req.method === "GET") return { status: 200, xml: listParts(bucket, query) };
  if (query.has("uploadId") && req.method === "DELETE") { fs.rmSync(uploadFolder(bucket, query), { recursive: true }); return { status: 204, xml: "" }; }
  if (query.has("uploadId") && (req.method === "POST" || req.method === "PUT")) uploadFolder(bucket, query);
  return null;
}
// Every part that is completed must be the one that is there.
function checkParts(req, bucket, query, body) {
  if (req.method !== "POST" || !query.has("uploadId")) return;
  const at = uploadFolder(bucket, query);
  for (const [, number, etag] of body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>([^<]*)<\/ETag>/g)) {
    const file = path.join(at, number + ".md5");
    if (!fs.existsSync(file) || fs.readFileSync(file, "utf8") !== etag.replace(/"|&quot;|&#34;/g, ""))
      throw new Refusal(400, "InvalidPart", "One or more of the specified parts could not be found.");
  }
}

// ---- faults

let requests = 0;
function faults() {
  try { return JSON.parse(fs.readFileSync(path.join(folder, "faults"), "utf8")); } catch { return {}; }
}
function faultOf(n, what) {
  const f = faults();
  if (f.once) {
    if (!new RegExp(f.at).test(what)) return "fine";
    fs.rmSync(path.join(folder, "faults"));
    return f.once;
  }
  if (!f.rate) return "fine";
  const draw = crypto.createHash("sha256").update(`${f.seed} ${n}`).digest();
  return draw.readUInt32BE(0) / 2 ** 32 < f.rate ? f.kinds[draw[4] % f.kinds.length] : "fine";
}

// ---- requests

const body = (req, enough) => new Promise((resolve, reject) => {
  const pieces = [];
  let bytes = 0;
  req.on("data", (piece) => { pieces.push(piece); bytes += piece.length; if (bytes > enough) resolve(null); });
  req.on("end", () => resolve(Buffer.concat(pieces)));
  req.on("error", reject).on("close", () => reject(new Error("the client went away")));
});
const answer = (res, status, xml, headers) => { res.writeHead(status, { "Content-Type": "application/xml", "Content-Length": Buffer.byteLength(xml), ...headers }); res.end(xml); };

// Two entries of a list a page: s3rver's own pages need DES, which OpenSSL 3 has no more.
function pageOf(xml, token) {
  const entries = (xml.match(/<Contents>.*?<\/Contents>|<CommonPrefixes>.*?<\/CommonPrefixes>/gs) || []).map((text) => ({ text, key: /<(?:Key|Prefix)>(.*?)</.exec(text)[1] }))
    .sort((a, b) => (a.key < b.key ? -1 : 1)).filter((entry) => !token || entry.key > Buffer.from(token, "base64").toString());
  const page = entries.slice(0, 2), more = entries.length > 2;
  return `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>${more}</IsTruncated>` +
    (more ? `<NextContinuationToken>${Buffer.from(page[1].key).toString("base64")}</NextContinuationToken>` : "") + page.map((entry) => entry.text).join("") + "</ListBucketResult>";
}

// Hands a request on, and its answer back: whole, or cut short.
function hand(req, res, content, port, cut) {
  const { expect, ...headers } = req.headers;
  const up = http.request({ port, host: "127.0.0.1", method: req.method, path: req.url.replace(/continuation-token=[^&]*&/, ""), headers: { ...headers, "content-length": content.length } }, (from) => {
    const pieces = [];
    from.on("data", (piece) => pieces.push(piece)).on("end", () => {
      let all = Buffer.concat(pieces);
      if (from.statusCode === 200 && req.url.includes("list-type=2")) {
        all = Buffer.from(pageOf(all.toString(), new URL(req.url, "http://x").searchParams.get("continuation-token")));
        from.headers["content-length"] = String(all.length);
      }
      res.writeHead(from.statusCode, from.headers);
      if (!cut) return res.end(all);
      res.write(all.subarray(0, all.length >> 1), () => res.socket.destroy());
      if (all.length < 2) res.socket.destroy();
    });
  });
  up.on("error", () => res.socket.destroy());
  up.end(content);
}

// What a request is about, for the log: "PUT a/step-00000001/x part 2", "GET - uploads", …
function words(method, key, query) {
  const detail = query.has("partNumber") ? ` part ${query.get("partNumber")}` : query.has("uploadId") ? " upload" : query.has("uploads") ? " uploads" : "";
  return `${method} ${key || "-"}${detail}`;
}

// False when the fault is all that there is to the request.
async function suffer(kind, req, res) {
  if (kind === "stall") req.on("error", () => {}).resume(); // what comes is thrown away
  else if (kind === "hold") await body(req, 1 << 20).catch(() => {}).then(() => fs.writeFileSync(path.join(folder, "held"), ""));
  else if (kind === "reset") await body(req, 1 << 16).then(() => res.socket.destroy());
  else if (kind === "500") await body(req, Infinity).then(() => answer(res, 500, errorXml("InternalError", "We encountered an internal error. Please try again.")));
  else if (kind === "503") await body(req, Infinity).then(() => answer(res, 503, errorXml("SlowDown", "Please reduce your request rate."), { "Retry-After": "0" }));
  else if (kind === "429") await body(req, Infinity).then(() => answer(res, 429, ""));
  else return true;
  return false;
}

async function serve(req, res, port) {
  const url = new URL(req.url, "http://x"), query = url.searchParams;
  const [, bucket, ...rest] = decodeURIComponent(url.pathname).split("/"), key = rest.join("/");
  const what = words(req.method, key, query), kind = faultOf(requests++, what);
  log(`${what} ${kind}`);
  if (!(await suffer(kind, req, res))) return;
  const content = await body(req, Infinity);
  if (kind === "flip" && content.length > 0) content[content.length >> 1] ^= 1;
  checkSignature(req);
  checkBody(req, content);
  const own = lacking(req, bucket, key, query);
  if (own) return answer(res, own.status, own.xml);
  checkParts(req, bucket, query, content);
  hand(req, res, content, port, kind === "cut");
}

(async () => {
  const s3 = new S3rver({ port: 0, address: "127.0.0.1", silent: true, directory: path.join(folder, "data"), configureBuckets: buckets.map((name) => ({ name })) });
  const { port } = await s3.run();
  const front = http.createServer((req, res) => serve(req, res, port).catch((error) => {
    if (!(error instanceof Refusal)) { log(`${req.method} ${req.url}: ${error.message}`); return res.socket && res.socket.destroy(); }
    log(`${req.method} ${req.url}: ${error.code}`);
    answer(res, error.status, req.method === "HEAD" ? "" : errorXml(error.code, error.message));
  }));
  front.keepAliveTimeout = 600e3;
  front.listen(0, "127.0.0.1", () => {
    fs.writeFileSync(path.join(folder, "port.new"), String(front.address().port));
    fs.renameSync(path.join(folder, "port.new"), path.join(folder, "port"));
  });
  process.stdin.resume().on("end", () => process.exit(0));
})();
