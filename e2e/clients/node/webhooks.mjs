// Receives a webhook in OpenAI's format when a video is done, and checks it with the official
// package.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import OpenAI from "openai";

const key = process.env.REELAY_API_KEY;
const client = new OpenAI({ baseURL: process.env.REELAY_ENDPOINT + "/v1", apiKey: key });

// The receiver keeps the first request.
const calls = new EventTarget();
const receiver = createServer(async (request, answer) => {
  let body = "";
  for await (const part of request) body += part;
  answer.end();
  calls.dispatchEvent(Object.assign(new Event("call"), { body, headers: request.headers }));
}).listen(0, "127.0.0.1");
await once(receiver, "listening");

const created = await fetch(process.env.REELAY_ENDPOINT + "/graphql", {
  method: "POST",
  headers: { authorization: "Bearer " + key, "content-type": "application/json" },
  body: JSON.stringify({
    query: "mutation($url: String!) { createWebhookEndpoint(url: $url, format: OPENAI) { secret endpoint { id } } }",
    variables: { url: `http://127.0.0.1:${receiver.address().port}/` },
  }),
}).then((answer) => answer.json());
assert.equal(created.errors, undefined, JSON.stringify(created.errors));
const { secret } = created.data.createWebhookEndpoint;

const told = once(calls, "call");
const video = await client.videos.create({ prompt: "a paper boat", seconds: "4" });
const [{ body, headers }] = await told;

const event = await client.webhooks.unwrap(body, headers, secret);
assert.deepEqual([event.object, event.type, event.data.id], ["event", "video.completed", video.id]);
assert.match(event.id, /^evt_/);

// The signature is valid, and the content is what was sent.
for (const [text, head, by] of [
  [body.replace("completed", "failed"), headers, secret],
  [body, { ...headers, "webhook-timestamp": String(headers["webhook-timestamp"] - 1) }, secret],
  [body, { ...headers, "webhook-id": headers["webhook-id"] + "x" }, secret],
  [body, headers, "whsec_" + Buffer.alloc(32).toString("base64")],
]) {
  await assert.rejects(client.webhooks.unwrap(text, head, by), OpenAI.InvalidWebhookSignatureError);
}
receiver.close();
