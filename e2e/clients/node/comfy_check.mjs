// Uses what @comfyorg/sdk has for workflows.
import assert from "node:assert/strict";
import { Comfy, InvalidWorkflow, NotFound } from "@comfyorg/sdk";

const client = new Comfy({ apiKey: process.env.COMFY_API_KEY });

async function graph(seed, steps = 10) {
  const workflow = await client.workflows.fromFile("workflow_api.json");
  delete workflow.json["0"];
  delete workflow.json["1"].inputs.image;
  Object.assign(workflow.json["1"].inputs, { seed, steps });
  return workflow;
}

const first = client.assets.fromFile("photo.png");
const second = client.assets.fromFile("photo.png");
assert.equal(await first.commit(), await second.commit());
assert.equal(second.createdNew, false);

const job = await client.submit(await graph(11), { idempotencyKey: "node" });
const kinds = [];
let output;
for await (const event of job.events()) {
  kinds.push(event.kind);
  if (event.kind === "outputReady") output = event.output;
  if (event.kind === "statusChange" && event.status === "failed") throw new Error("it failed");
}
assert.equal(kinds.at(-1), "statusChange");
assert.ok(kinds.includes("progress"), kinds);
assert.equal(Buffer.from(await output.toBytes()).toString("latin1", 4, 8), "ftyp");
assert.equal((await client.submit(await graph(11), { idempotencyKey: "node" })).id, job.id);
assert.equal((await (await client.jobs.get(job.id)).getWorkflow()).format, "api");

const long = await client.submit(await graph(12, 1000));
await long.cancel();
await long.wait();
assert.equal(long.status, "canceled");

const bad = await graph(13);
bad.json["9"] = { class_type: "RunPython", inputs: {} };
await assert.rejects(client.submit(bad), (error) => error instanceof InvalidWorkflow && error.message.includes("RunPython"));
await assert.rejects(client.jobs.get("job_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11"), NotFound);
