// Prints what happens to a job, from its first event to its last, however often the connection breaks.
//
//   REELAY_ENDPOINT=http://127.0.0.1:8080 REELAY_API_KEY=rl_… node events.js job_…
import { Reelay } from "reelay-client";

const reelay = new Reelay({ endpoint: process.env.REELAY_ENDPOINT!, apiKey: process.env.REELAY_API_KEY! });
for await (const event of reelay.jobEvents(process.argv[2]!)) {
  console.log(event.seq, event.createdAt, event.type, JSON.stringify(event.payload));
}
