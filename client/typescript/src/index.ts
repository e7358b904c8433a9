export * from "./client.js";
export type { Download } from "./download.js";
export { type ErrorCode, ReelayError } from "./error.js";
export type { CreatedWebhookEndpoint, WebhookDelivery, WebhookEndpoint, Webhooks } from "./webhooks.js";
export type {
  ArtifactType, Backoff, FailureClass, JobEventType, JobFilter, JobStatus, Phase, RetryPolicyInput, SubmitJobInput, Tier, WaitingCode, WebhookFormat,
} from "./generated.js";
