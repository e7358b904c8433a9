import { type Download, Checksum, read, verify } from "./download.js";
import { fromGraphQL, fromStatus, ReelayError, unreachable } from "./error.js";
import {
  type ArtifactFragment, type ArtifactType, type EstimateQuery, type JobAttemptsQuery, type JobEventFragment, type JobFilter, type JobFragment,
  type JobStatus, type JobWaitQuery, type ModelsQuery, operations, type RequestInputUploadMutation, type SubmitJobInput, type SubmitJobMutation, type SubmitJobsMutation, type ViewerQuery,
} from "./generated.js";
import { backoff, repeat, sleep } from "./retry.js";
import { Sockets } from "./sockets.js";
import { type Target, write } from "./upload.js";
import { Webhooks } from "./webhooks.js";

export type Job = JobFragment;
export type JobEvent = JobEventFragment;
export type Artifact = ArtifactFragment;
export type Attempt = NonNullable<JobAttemptsQuery["job"]>["attempts"][number];
export type Wait = NonNullable<JobWaitQuery["job"]>;
export type Estimate = EstimateQuery["estimate"];
export type Model = ModelsQuery["models"][number];
export type Viewer = ViewerQuery["viewer"];
export type Submission = SubmitJobMutation["submitJob"];
export type Submissions = SubmitJobsMutation["submitJobs"];

/** How a client reaches its Reelay. */
export interface ReelayOptions {
  /** The address of the API, such as http://127.0.0.1:8080. */
  endpoint: string;
  /** A key, `rl_…`. */
  apiKey: string;
  /** How many times a repeatable call is sent before it fails: 4 by default. */
  tries?: number;
  /** Instead of the global fetch. */
  fetch?: typeof globalThis.fetch;
  /** Instead of the global WebSocket, or of the package ws if there is no global one. */
  webSocket?: unknown;
}

/** Options of every call. */
export interface CallOptions {
  /** Aborts the call, which then throws the signal's reason. */
  signal?: AbortSignal;
}

/** One page of jobs. */
export interface JobPage {
  jobs: Job[];
  /** Exact up to 10,000; 10,001 means more. */
  totalCount: number;
  /** The cursor of the next page; undefined on the last page. */
  next: string | undefined;
}

/** How many milliseconds one call can take. */
const callTimeout = 60_000;

const terminal: readonly JobStatus[] = ["COMPLETED", "FAILED", "CANCELLED"];

/** Whether a job of this status has ended. */
export function isTerminal(status: JobStatus): boolean {
  return terminal.includes(status);
}

/** Calls one Reelay API with one key. Every method throws a {@link ReelayError} if the call failed. */
export class Reelay {
  private readonly endpoint: URL;
  private readonly apiKey: string;
  private readonly tries: number;
  private readonly fetch: typeof globalThis.fetch;
  private readonly sockets: Sockets;
  /** The webhooks that notify the account when its jobs end. */
  readonly webhooks: Webhooks;

  constructor(options: ReelayOptions) {
    let endpoint: URL;
    try {
      endpoint = new URL(options.endpoint);
    } catch {
      throw new ReelayError("INVALID_INPUT", `the endpoint ${options.endpoint} is not a URL: it must look like http://127.0.0.1:8080`);
    }
    if (endpoint.protocol !== "http:" && endpoint.protocol !== "https:") {
      throw new ReelayError("INVALID_INPUT", "the endpoint must begin with http:// or https://");
    }
    if (endpoint.pathname === "/") {
      endpoint.pathname = "/graphql";
    }
    this.endpoint = endpoint;
    this.apiKey = options.apiKey.trim();
    this.tries = Math.max(options.tries ?? 4, 1);
    this.fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    const socket = new URL(endpoint);
    socket.protocol = endpoint.protocol === "https:" ? "wss:" : "ws:";
    this.sockets = new Sockets(socket.href, this.apiKey, options.webSocket);
    this.webhooks = new Webhooks(
      (query, variables, o) => this.ask(query, variables, o), (query, variables, o) => this.call(query, variables, o?.signal));
  }

  /** The account of this key and what the key allows. */
  async viewer(options?: CallOptions): Promise<Viewer> {
    return (await this.ask<ViewerQuery>(operations.viewer, {}, options)).viewer;
  }

  /** The models that jobs can use. */
  async models(options?: CallOptions): Promise<Model[]> {
    return (await this.ask<ModelsQuery>(operations.models, {}, options)).models;
  }

  /** One of the caller's jobs, or the error NOT_FOUND. */
  async job(id: string, options?: CallOptions): Promise<Job> {
    return found((await this.ask<{ job: Job | null }>(operations.job, { id }, options)).job, "job", id);
  }

  /** One page of the caller's jobs, newest first: at most `first` of them (1 to 200, 50 by default). */
  async jobs(filter: JobFilter = {}, page: { first?: number; after?: string } & CallOptions = {}): Promise<JobPage> {
    const { jobs } = await this.ask<{ jobs: {
      edges: { node: Job }[]; totalCount: number; pageInfo: { hasNextPage: boolean; endCursor: string | null };
    } }>(operations.jobs, { filter, first: page.first, after: page.after }, page);
    return {
      jobs: jobs.edges.map((edge) => edge.node),
      totalCount: jobs.totalCount,
      next: jobs.pageInfo.hasNextPage ? jobs.pageInfo.endCursor ?? undefined : undefined,
    };
  }

  /** All of the caller's jobs that match the filter, newest first, fetched page by page. */
  async *allJobs(filter: JobFilter = {}, options?: CallOptions): AsyncGenerator<Job, void> {
    for (let after: string | undefined; ;) {
      const page = await this.jobs(filter, { first: 200, after, ...options });
      yield* page.jobs;
      if (page.next === undefined) {
        return;
      }
      after = page.next;
    }
  }

  /** Submits a job. The idempotency key (a new one if the input has none) makes retries create only one job. */
  async submitJob(input: SubmitJobInput, options?: CallOptions): Promise<Submission> {
    return (await this.ask<SubmitJobMutation>(operations.submitJob, { input: keyed(input) }, options)).submitJob;
  }

  /** Estimates the result of submitting this input. Nothing is submitted. */
  async estimate(input: SubmitJobInput, options?: CallOptions): Promise<Estimate> {
    return (await this.ask<EstimateQuery>(operations.estimate, { input }, options)).estimate;
  }

  /** Submits up to 1000 jobs at once. Each result, in order, is a job or an error. An error does not affect the other jobs. */
  async submitJobs(inputs: readonly SubmitJobInput[], options?: CallOptions): Promise<Submissions> {
    const variables = { inputs: inputs.map(keyed) };
    return (await this.ask<SubmitJobsMutation>(operations.submitJobs, variables, options)).submitJobs;
  }

  /**
   * Stores an image (image/jpeg, image/png or image/webp, up to 20 MB), or a video or sound (video/mp4, video/webm, audio/mpeg,
   * audio/mp4, audio/wav, audio/flac or audio/ogg, up to 500 MB), and returns its id, the value of a parameter that names a file,
   * such as `params.referenceImage`.
   * If the connection to the store breaks, it sends the bytes again, to a new link.
   */
  async uploadInput(contentType: string, image: Uint8Array, options?: CallOptions): Promise<string> {
    const sum = new Checksum();
    sum.update(image);
    const variables = { contentType, sizeBytes: image.length, checksum: await sum.base64() };
    return repeat(this.tries, options?.signal, async () => {
      const asked = await this.call<RequestInputUploadMutation>(operations.requestInputUpload, variables, options?.signal);
      const { artifactId, target } = asked.requestInputUpload;
      const url = new URL(target.url, this.endpoint).href;
      await write(this.fetch, { ...target as Target, url }, image, options?.signal);
      return artifactId;
    });
  }

  /**
   * Submits drafts of one request that differ only in their seeds: one for each of `seeds`, otherwise `count` (1 to 64, 8 by default). The
   * input must have `draft`. The drafts share `draft.takes`.
   */
  async submitTakes(input: SubmitJobInput, options: { count?: number; seeds?: readonly number[] } & CallOptions = {}): Promise<Submissions> {
    const variables = { input: keyed(input), count: options.count, seeds: options.seeds };
    return (await this.ask<{ submitTakes: Submissions }>(operations.submitTakes, variables, options)).submitTakes;
  }

  /** The drafts of one submitTakes, in the order of their seeds. */
  async takes(id: string, options?: CallOptions): Promise<Job[]> {
    return (await this.ask<{ takes: Job[] }>(operations.takes, { id }, options)).takes;
  }

  /** Submits the job that makes the video of a COMPLETED draft. A repeated call returns the same job. */
  async continueJob(id: string, options?: CallOptions): Promise<Submission> {
    return (await this.ask<{ continueJob: Submission }>(operations.continueJob, { id }, options)).continueJob;
  }

  /** Cancels a waiting job at once. Asks the worker of a running job to stop. */
  async cancelJob(id: string, options?: CallOptions): Promise<Job> {
    return (await this.ask<{ cancelJob: Job }>(operations.cancelJob, { id }, options)).cancelJob;
  }

  /** Retries a FAILED or CANCELLED job from its newest checkpoint or from scratch. The call itself is not repeated. */
  async retryJob(id: string, options: { fromScratch?: boolean } & CallOptions = {}): Promise<Job> {
    const variables = { id, fromScratch: options.fromScratch ?? false };
    return (await this.call<{ retryJob: Job }>(operations.retryJob, variables, options.signal)).retryJob;
  }

  /** Deletes a job's prompt and artifacts for good. */
  async deleteJob(id: string, options?: CallOptions): Promise<Job> {
    return (await this.ask<{ deleteJob: Job }>(operations.deleteJob, { id }, options)).deleteJob;
  }

  /** The attempts at a job, oldest first. */
  async attempts(id: string, options?: CallOptions): Promise<Attempt[]> {
    return found((await this.ask<JobAttemptsQuery>(operations.jobAttempts, { id }, options)).job, "job", id).attempts;
  }

  /** What a job is waiting for, with estimates of when it starts and ends. An unknown estimate is null. */
  async wait(id: string, options?: CallOptions): Promise<Wait> {
    return found((await this.ask<JobWaitQuery>(operations.jobWait, { id }, options)).job, "job", id);
  }

  /** The artifacts of a job, oldest first. Their links are valid for an hour. */
  async artifacts(id: string, type?: ArtifactType, options?: CallOptions): Promise<Artifact[]> {
    const { job } = await this.ask<{ job: { artifacts: Artifact[] } | null }>(operations.jobArtifacts, { id, type }, options);
    return found(job, "job", id).artifacts;
  }

  /**
   * Every event of one job after `afterSeq`: first the past ones, then live ones, until the last. No event is missed or
   * repeated: after a broken connection it reconnects and continues after the newest event.
   */
  async *jobEvents(id: string, options: { afterSeq?: number } & CallOptions = {}): AsyncGenerator<JobEvent, void> {
    let afterSeq = options.afterSeq ?? 0;
    yield* this.follow<JobEvent>(operations.jobEvents, () => ({ jobId: id, afterSeq }), options.signal, (event) => {
      afterSeq = event.seq;
      return false;
    });
  }

  /** A job's current state and then its changes, at most one per `intervalMs` (50 to 60000), until the job has ended. */
  async *jobProgress(id: string, options: { intervalMs?: number } & CallOptions = {}): AsyncGenerator<Job, void> {
    const variables = { jobId: id, intervalMs: options.intervalMs ?? 500 };
    yield* this.follow<Job>(operations.jobProgress, () => variables, options.signal, (job) => isTerminal(job.status));
  }

  /**
   * From now on, each of the caller's jobs that match the filter, whenever its status changes. Missed changes are not
   * sent later: a broken connection throws UNAVAILABLE, and the caller should then read the list of jobs.
   */
  jobChanges(filter: JobFilter = {}, options?: CallOptions): AsyncGenerator<Job, void> {
    return this.sockets.subscribe<Job>(operations.jobChanges, { filter }, options?.signal);
  }

  /** Waits until a job has ended and returns it, whatever its final status. */
  async waitForJob(id: string, options?: CallOptions & { onProgress?: (job: Job) => void }): Promise<Job> {
    for await (const job of this.jobProgress(id, options)) {
      options?.onProgress?.(job);
      if (isTerminal(job.status)) {
        return job;
      }
    }
    return this.job(id, options);
  }

  /** Fetches an object into memory and verifies it. For files, see `download` of reelay-client/node. */
  async fetchArtifact(artifact: Download, options?: CallOptions): Promise<Uint8Array> {
    return repeat(this.tries, options?.signal, async () => {
      const size = Number(artifact.sizeBytes);
      const bytes = new Uint8Array(size);
      const checksum = new Checksum();
      let length = 0;
      for await (const chunk of this.read(artifact, 0, options?.signal)) {
        if (length + chunk.length <= size) {
          bytes.set(chunk, length);
        }
        length += chunk.length;
        checksum.update(chunk);
      }
      await verify(artifact, length, checksum);
      return bytes;
    });
  }

  /** Yields an object's bytes from `offset` on as they arrive, without verification. */
  read(artifact: Download, offset = 0, signal?: AbortSignal): AsyncGenerator<Uint8Array, void> {
    return read(this.fetch, { ...artifact, url: new URL(artifact.url, this.endpoint).href }, offset, signal);
  }

  /** Runs one operation, and retries it if it is repeatable. */
  private ask<T>(query: string, variables: Record<string, unknown>, options?: CallOptions): Promise<T> {
    return repeat(this.tries, options?.signal, () => this.call<T>(query, variables, options?.signal));
  }

  private async call<T>(query: string, variables: Record<string, unknown>, signal?: AbortSignal): Promise<T> {
    let answer: Response, body: string;
    try {
      const timeout = AbortSignal.timeout(callTimeout);
      answer = await this.fetch(this.endpoint, {
        method: "POST",
        headers: {
          "Content-Type": "application/json", Authorization: `Bearer ${this.apiKey}`,
          Accept: "application/graphql-response+json, application/json;q=0.9",
        },
        body: JSON.stringify({ query, variables }),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      body = await answer.text();
    } catch (error) {
      signal?.throwIfAborted();
      throw unreachable(this.endpoint.host, error);
    }
    let result: { data?: T | null; errors?: { message: string; extensions?: Record<string, unknown> }[] } = {};
    try {
      result = JSON.parse(body);
    } catch {
      // The answer is not from the API. Its status tells what happened.
    }
    if (result?.errors?.length) {
      throw fromGraphQL(result.errors);
    }
    if (!answer.ok || !result?.data) {
      throw fromStatus(this.endpoint.host, answer.status, body, answer.headers.get("Retry-After"));
    }
    return result.data;
  }

  /** Follows a subscription until it completes after its last event, and reconnects as often as needed. */
  private async *follow<T>(
    query: string, variables: () => Record<string, unknown>, signal: AbortSignal | undefined, last: (event: T) => boolean,
  ): AsyncGenerator<T, void> {
    for (let failures = 0; ; failures++) {
      let asked = 0;
      try {
        for await (const event of this.sockets.subscribe<T>(query, variables(), signal)) {
          failures = 0;
          const over = last(event);
          yield event;
          if (over) {
            return;
          }
        }
        return;
      } catch (error) {
        if (!(error instanceof ReelayError) || !error.retryable) {
          throw error;
        }
        asked = error.retryAfterSeconds ?? 0;
      }
      await sleep(Math.max(backoff(failures + 1), Math.min(asked, 30) * 1000), signal);
    }
  }
}

function keyed(input: SubmitJobInput): SubmitJobInput {
  return { ...input, idempotencyKey: input.idempotencyKey ?? `ts-${crypto.randomUUID()}` };
}

function found<T>(value: T | null, kind: string, id: string): T {
  if (value === null) {
    throw new ReelayError("NOT_FOUND", `there is no ${kind} ${id}`);
  }
  return value;
}
