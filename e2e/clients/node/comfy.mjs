// Renders a graph with a picture of one's own.
import { Comfy } from "@comfyorg/sdk";

const client = new Comfy({ apiKey: process.env.COMFY_API_KEY }); // reads COMFY_BASE_URL
const workflow = await client.workflows.fromFile("workflow_api.json");
workflow.setInput("0", "image", client.assets.fromFile("photo.png"));
const job = await client.run(workflow);
for (const output of job.getOutputs("3")) console.log(await output.toFile(output.name));
