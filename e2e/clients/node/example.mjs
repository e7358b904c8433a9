import { writeFile } from "node:fs/promises";
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: process.env.REELAY_ENDPOINT + "/v1",
  apiKey: process.env.REELAY_API_KEY,
});

let video = await client.videos.create({ model: "sora-2", prompt: "A paper boat on a calm sea", seconds: "4" });
while (video.status === "queued" || video.status === "in_progress") {
  await new Promise((resolve) => setTimeout(resolve, 1000));
  video = await client.videos.retrieve(video.id);
}
if (video.status === "failed") throw new Error(video.error.message);

const content = await client.videos.downloadContent(video.id);
await writeFile("boat.mp4", Buffer.from(await content.arrayBuffer()));
