// Checks that a running Reelay works with common GraphQL packages: the audit of GraphQL over
// HTTP, and subscriptions over sockets (graphql-ws) and event streams (graphql-sse, one
// connection per operation).
import assert from "node:assert/strict";
import { auditServer } from "graphql-http";
import { createClient as createSSE } from "graphql-sse";
import { createClient as createWS } from "graphql-ws";
import WebSocket from "ws";

const url = process.env.REELAY_ENDPOINT + "/graphql";
const key = process.env.REELAY_API_KEY;
const bearer = (key) => ({ authorization: "Bearer " + key });

const audit = await auditServer({
  url,
  fetchFn: (url, init) => fetch(url, { ...init, headers: { ...init?.headers, ...bearer(key) } }),
});
assert.ok(audit.length > 50, `${audit.length} audits`);
const failures = audit.filter(({ name, status }) => status !== "ok" && !name.startsWith("MAY "));
assert.deepEqual(failures.map(({ id, name, reason }) => `${id} ${name}: ${reason}`), []);
console.log("audit ok:", audit.length, "checks");

const clients = {
  ws: (key) => createWS({
    url: url.replace("http", "ws"), webSocketImpl: WebSocket, connectionParams: bearer(key), retryAttempts: 0, lazyCloseTimeout: 1000,
  }),
  sse: (key) => createSSE({ url, headers: bearer(key), singleConnection: false, retryAttempts: 0 }),
};
const refusals = {
  ws: (err) => err.code === 4401,
  sse: (err) => err.response.status === 401,
};

const submit = `mutation($name: String!) {
  submitJob(input: {model: "testcard", prompt: $name, idempotencyKey: $name, params: {durationSeconds: 1, pace: 1}}) { job { id } }
}`;
const outcome = "query($job: ID!) { job(id: $job) { failureClass failureReason attempts { status failureClass failureReason } } }";
const events = "subscription($job: ID!, $after: Int) { jobEvents(jobId: $job, afterSeq: $after) { seq type } }";

// answers returns all results of an operation, or the first few.
async function answers(client, query, variables, most = Infinity) {
  const found = [];
  for await (const { data, errors } of client.iterate({ query, variables })) {
    assert.equal(errors, undefined, JSON.stringify(errors));
    found.push(data);
    if (found.length === most) break;
  }
  return found;
}

for (const [name, open] of Object.entries(clients)) {
  const client = open(key);
  // Queries and mutations are streams of one result.
  assert.deepEqual(await answers(client, "{ viewer { role } }"), [{ viewer: { role: "CLIENT" } }]);
  const [{ submitJob: { job } }] = await answers(client, submit, { name: `followed over ${name} ${Date.now()}` });

  // A client that stops a subscription early can go on with other operations.
  const some = (await answers(client, events, { job: job.id }, 2)).map((data) => data.jobEvents);
  assert.deepEqual(await answers(client, "{ viewer { role } }"), [{ viewer: { role: "CLIENT" } }]);

  // Another connection continues after the events of the first, until the job's end.
  const later = open(key);
  const rest = (await answers(later, events, { job: job.id, after: some.at(-1).seq })).map((data) => data.jobEvents);
  const seqs = [...some, ...rest].map((event) => event.seq);
  assert.deepEqual(seqs, seqs.map((_, i) => i + 1), "no gap, no repeat");
  if (rest.at(-1).type !== "COMPLETED") assert.fail(JSON.stringify(await answers(client, outcome, { job: job.id })));
  assert.deepEqual((await answers(client, events, { job: job.id })).map((data) => data.jobEvents), [...some, ...rest]);

  // The API reports a refusal as an error of the operation, and a bad key before any.
  await assert.rejects(answers(client, events, { job: "job_00000000-0000-7000-8000-000000000000" }), /NOT_FOUND/);
  const stranger = open("rl_nobody");
  await assert.rejects(answers(stranger, "{ viewer { role } }"), refusals[name]);

  await Promise.all([client, later, stranger].map((each) => each.dispose()));
  console.log(name, "ok:", seqs.length, "events");
}
