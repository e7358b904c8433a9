// Uses the Videos API of engines, whose addresses are the arguments: fakes, or real ones if they are there.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import OpenAI from "openai";

async function finished(client, video) {
  while (video.status === "queued" || video.status === "in_progress") video = await client.videos.retrieve(video.id);
  return video;
}

async function use(engine) {
  const client = new OpenAI({ baseURL: engine + "/v1", apiKey: "none", maxRetries: 0 });
  let video = await client.videos.create({ prompt: "A paper boat on a calm sea", seconds: "4", num_inference_steps: 3 });
  assert.equal(video.status, "queued");
  video = await finished(client, video);
  assert.equal(video.status, "completed");
  const listed = [];
  for await (const one of client.videos.list({ limit: 10 })) listed.push(one.id);
  assert.ok(listed.includes(video.id));
  if (!video.url) {
    const content = await client.videos.downloadContent(video.id);
    await writeFile(video.id + ".mp4", Buffer.from(await content.arrayBuffer()));
  }

  const boom = await client.videos.create({ prompt: "boom", num_inference_steps: 2 });
  try {
    const failed = await finished(client, boom);
    assert.equal(failed.status, "failed");
  } catch (answer) {
    // vLLM-Omni gives a failed job the status of its error.
    assert.ok(answer instanceof OpenAI.InternalServerError, answer);
    assert.match(JSON.stringify(answer.error), /out of memory/);
  }
  await client.videos.delete(video.id);
  await assert.rejects(client.videos.retrieve(video.id), OpenAI.NotFoundError);
}

for (const address of process.argv.slice(2)) {
  console.log(address);
  await use(address);
}
