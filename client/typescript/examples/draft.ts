// Makes four drafts of a prompt, continues the first one that is ready, and downloads its video.
//
//   REELAY_ENDPOINT=http://127.0.0.1:8080 REELAY_API_KEY=rl_… node draft.js "a lighthouse in a storm"
import { Reelay } from "reelay-client";
import { download } from "reelay-client/node";

const reelay = new Reelay({ endpoint: process.env.REELAY_ENDPOINT!, apiKey: process.env.REELAY_API_KEY! });
const { results } = await reelay.submitTakes(
  {
    model: "testcard",
    prompt: process.argv[2] ?? "a lighthouse in a storm",
    params: { durationSeconds: 2, resolution: "480p", pace: 0 },
    draft: { steps: 6 },
  },
  { count: 4 },
);
const first = results[0]?.job;
if (!first?.draft?.takes) {
  throw new Error(results[0]?.error?.message ?? "no draft was made");
}
const draft = await reelay.waitForJob(first.id);
if (draft.status !== "COMPLETED") {
  throw new Error(`${draft.id} is ${draft.status}: ${draft.failureReason ?? ""}`);
}
for (const take of await reelay.takes(first.draft.takes)) {
  console.log(`${take.id} ${take.status} ${JSON.stringify(take.params)} ${take.draft?.preview?.url ?? ""}`);
}
const { job } = await reelay.continueJob(draft.id); // only the steps that are left
const done = await reelay.waitForJob(job.id);
if (!done.result) {
  throw new Error(`${job.id} is ${done.status}: ${done.failureReason ?? ""}`);
}
await download(reelay, done.result, "draft.mp4");
console.log("draft.mp4 is complete");
