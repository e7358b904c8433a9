import type { CallOptions } from "./client.js";
import {
  type CreateWebhookEndpointMutation, operations, type WebhookDeliveryFragment, type WebhookEndpointFragment, type WebhookFormat,
} from "./generated.js";

export type WebhookEndpoint = WebhookEndpointFragment;
export type WebhookDelivery = WebhookDeliveryFragment;
/** An endpoint with its secret, which the API returns only once. */
export type CreatedWebhookEndpoint = CreateWebhookEndpointMutation["createWebhookEndpoint"];

/** Runs one operation. */
type Call = <T>(query: string, variables: Record<string, unknown>, options?: CallOptions) => Promise<T>;

/** The webhooks that notify the account when its jobs end. Only reads are retried if there is no answer. */
export class Webhooks {
  constructor(private readonly read: Call, private readonly write: Call) {}

  /** The account's endpoints, oldest first. */
  async endpoints(options?: CallOptions): Promise<WebhookEndpoint[]> {
    return (await this.read<{ webhookEndpoints: WebhookEndpoint[] }>(operations.webhookEndpoints, {}, options)).webhookEndpoints;
  }

  /** One page of deliveries, newest first: at most `first` of them (1 to 200, 50 by default). `next` is where the next page begins. */
  async deliveries(
    filter: { jobId?: string; endpointId?: string; failedOnly?: boolean } = {}, page: { first?: number; after?: string } & CallOptions = {},
  ): Promise<{ deliveries: WebhookDelivery[]; next: string | undefined }> {
    const { webhookDeliveries: found } = await this.read<{ webhookDeliveries: {
      edges: { node: WebhookDelivery }[]; pageInfo: { hasNextPage: boolean; endCursor: string | null };
    } }>(operations.webhookDeliveries, { failedOnly: false, ...filter, first: page.first, after: page.after }, page);
    return {
      deliveries: found.edges.map((edge) => edge.node),
      next: found.pageInfo.hasNextPage ? found.pageInfo.endCursor ?? undefined : undefined,
    };
  }

  /** Creates an endpoint that is notified when the account's jobs end. Without events, it gets all events of its format. */
  async create(url: string, options: { format?: WebhookFormat; events?: readonly string[] } & CallOptions = {}): Promise<CreatedWebhookEndpoint> {
    const variables = { url, events: options.events, format: options.format ?? "STANDARD" };
    return (await this.write<CreateWebhookEndpointMutation>(operations.createWebhookEndpoint, variables, options)).createWebhookEndpoint;
  }

  /** Gives an endpoint a new secret. For 24 hours, deliveries are also signed with the old one. */
  async rotateSecret(id: string, options?: CallOptions): Promise<CreatedWebhookEndpoint> {
    return (await this.write<{ rotateWebhookSecret: CreatedWebhookEndpoint }>(operations.rotateWebhookSecret, { id }, options)).rotateWebhookSecret;
  }

  /** Replaces the secret for callbacks of single jobs. For 24 hours, they are also signed with the old one. */
  async rotateAccountSecret(options?: CallOptions): Promise<string> {
    return (await this.write<{ rotateAccountWebhookSecret: string }>(operations.rotateAccountWebhookSecret, {}, options)).rotateAccountWebhookSecret;
  }

  /** Deletes an endpoint. */
  async delete(id: string, options?: CallOptions): Promise<void> {
    await this.write(operations.deleteWebhookEndpoint, { id }, options);
  }

  /** Disables an endpoint until `enable`. Its pending deliveries are given up. */
  async disable(id: string, options?: CallOptions): Promise<WebhookEndpoint> {
    return (await this.write<{ disableWebhookEndpoint: WebhookEndpoint }>(operations.disableWebhookEndpoint, { id }, options)).disableWebhookEndpoint;
  }

  /** Enables an endpoint that was disabled. */
  async enable(id: string, options?: CallOptions): Promise<WebhookEndpoint> {
    return (await this.write<{ enableWebhookEndpoint: WebhookEndpoint }>(operations.enableWebhookEndpoint, { id }, options)).enableWebhookEndpoint;
  }

  /** Sends a signed webhook.test to an endpoint, without retries. `deliveries` shows the result. */
  async test(id: string, options?: CallOptions): Promise<WebhookDelivery> {
    return (await this.write<{ sendTestWebhook: WebhookDelivery }>(operations.sendTestWebhook, { id }, options)).sendTestWebhook;
  }

  /** Sends a delivery again. */
  async redeliver(id: string, options?: CallOptions): Promise<WebhookDelivery> {
    return (await this.write<{ redeliverWebhook: WebhookDelivery }>(operations.redeliverWebhook, { id }, options)).redeliverWebhook;
  }
}
