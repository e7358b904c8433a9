// Checks that a running Reelay does what the official package expects of the Videos API.
// Its argument is a completed video of the account.
import assert from "node:assert/strict";
import OpenAI from "openai";

const settings = { baseURL: process.env.REELAY_ENDPOINT + "/v1", apiKey: process.env.REELAY_API_KEY };
const client = new OpenAI(settings);
const done = process.argv[2];

// refused returns the error of a call.
async function refused(call, status, code, param = null) {
  const err = await call.then(() => assert.fail("it was not refused"), (err) => err);
  assert.ok(err instanceof OpenAI.APIError, String(err));
  assert.deepEqual([err.status, err.code, err.param], [status, code, param], err.message);
  assert.match(err.requestID, /^req_/);
  return err;
}

const keys = ["id", "object", "model", "status", "progress", "created_at", "completed_at", "expires_at", "prompt", "size", "seconds", "remixed_from_video_id", "error"];

// Each key exists and has the type that the package declares.
const video = await client.videos.retrieve(done);
assert.deepEqual(Object.keys(video).sort(), keys.toSorted());
assert.deepEqual([video.status, video.progress, video.seconds, video.size, video.model], ["completed", 100, "4", "720x1280", "sora-2"]);
assert.ok(Number.isInteger(video.created_at) && Number.isInteger(video.completed_at) && video.expires_at > video.completed_at);

// Content of each variant.
for (const [variant, type] of [[undefined, "video/mp4"], ["video", "video/mp4"], ["thumbnail", "image/webp"], ["spritesheet", "image/jpeg"]]) {
  const content = await client.videos.downloadContent(done, { variant });
  assert.equal(content.headers.get("content-type"), type);
  assert.ok((await content.arrayBuffer()).byteLength > 1000);
}
await refused(client.videos.downloadContent(done, { variant: "gif" }), 400, "invalid_value", "variant");

// If an answer is lost, the package sends the same request again and gets the first job.
let lost = 0;
const unlucky = new OpenAI({
  ...settings,
  fetch: async (url, init) => {
    const answer = await fetch(url, init);
    if (init.method !== "POST" || lost > 0) return answer;
    lost++;
    await answer.arrayBuffer();
    throw new TypeError("fetch failed");
  },
});
const before = (await client.videos.list({ limit: 100 })).data.length;
const once = await unlucky.videos.create({ prompt: "a storm", seconds: "20", size: "1920x1080" });
assert.equal(lost, 1);
assert.equal((await client.videos.list({ limit: 100 })).data.length, before + 1);
await refused(client.videos.downloadContent(once.id), 404, "video_not_ready");

// A remix, and nested fields in brackets.
const remix = await client.videos.remix(done, { prompt: "a paper boat in the rain" });
assert.deepEqual([remix.remixed_from_video_id, remix.size, remix.seconds], [done, "720x1280", "4"]);
await refused(client.videos.create({ prompt: "x", input_reference: { file_id: "a", image_url: "b" } }), 400, "invalid_value", "input_reference");

// The list, page by page.
const listed = [];
for await (const each of client.videos.list({ limit: 1, order: "asc" })) listed.push(each.id);
assert.deepEqual(listed.slice(-2), [once.id, remix.id]);
assert.ok(listed.includes(done));

// Delete, including a video in progress.
for (const id of [once.id, remix.id]) {
  assert.deepEqual({ ...(await client.videos.delete(id)) }, { id, object: "video.deleted", deleted: true });
  await refused(client.videos.retrieve(id), 404, "not_found");
}

// Errors.
await refused(new OpenAI({ ...settings, apiKey: "rl_unknown" }).videos.list(), 401, "invalid_api_key");
await refused(client.videos.create({ prompt: "x", seconds: "10" }), 400, "invalid_value", "seconds");
await refused(client.videos.create({ prompt: "x", model: "sora-9" }), 400, "model_not_found", "model");
await refused(client.videos.edit({ prompt: "x", video: { id: done } }), 404, "not_supported");
await refused(client.videos.extend({ prompt: "x", seconds: "4", video: { id: done } }), 404, "not_supported");
await refused(client.videos.getCharacter("char_1"), 404, "not_supported");
await refused(client.chat.completions.create({ model: "gpt-5", messages: [] }), 404, "unknown_url");

const models = [];
for await (const each of client.models.list()) models.push(each.id);
assert.ok(models.includes("sora-2") && models.includes("sora-2-pro"));

// Parameters of the model go into one object of their own.
let short = await client.videos.create({ prompt: "x", params: { fps: 12, pace: 0, durationSeconds: 1 } });
assert.equal(short.seconds, "1");
while (short.status !== "completed" && short.status !== "failed") {
  await new Promise((resolve) => setTimeout(resolve, 200));
  short = await client.videos.retrieve(short.id);
}
assert.equal(short.status, "completed");
const unknown = await refused(client.videos.create({ prompt: "x", params: { fsp: 12 } }), 400, "invalid_value", "params.fsp");
assert.match(unknown.message, /did you mean "fps"\?/);
