// Creates videos from a reference picture, sent as a file of the official package and as a
// data URL. Its argument is the picture.
import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.REELAY_ENDPOINT + "/v1", apiKey: process.env.REELAY_API_KEY });
const picture = process.argv[2];
const link = "data:image/png;base64," + (await readFile(picture, "base64"));

for (const [name, input_reference] of [["file", createReadStream(picture)], ["link", { image_url: link }]]) {
  let video = await client.videos.create({ prompt: "A paper boat on a calm sea", seconds: "4", size: "720x1280", input_reference });
  while (video.status === "queued" || video.status === "in_progress") {
    await new Promise((resolve) => setTimeout(resolve, 500));
    video = await client.videos.retrieve(video.id);
  }
  assert.equal(video.status, "completed", video.error?.message);
  const content = await client.videos.downloadContent(video.id);
  await writeFile(name + ".mp4", Buffer.from(await content.arrayBuffer()));
}
