// Turns a prompt into video.mp4, and shows the progress.
//
//   REELAY_ENDPOINT=http://127.0.0.1:8080 REELAY_API_KEY=rl_… node video.js "a lighthouse in a storm"
import { Reelay } from "reelay-client";
import { download } from "reelay-client/node";

const reelay = new Reelay({ endpoint: process.env.REELAY_ENDPOINT!, apiKey: process.env.REELAY_API_KEY! });
const { job } = await reelay.submitJob({
  model: "testcard",
  prompt: process.argv[2] ?? "a lighthouse in a storm",
  params: { durationSeconds: 2, resolution: "480p" },
});
const done = await reelay.waitForJob(job.id, {
  onProgress: ({ progress }) => console.log(`${progress.percent.toFixed(0)} % ${progress.phase} ${progress.message ?? ""}`),
});
if (!done.result) {
  throw new Error(`${job.id} is ${done.status}: ${done.failureReason ?? ""}`);
}
await download(reelay, done.result, "video.mp4");
console.log("video.mp4 is complete");
