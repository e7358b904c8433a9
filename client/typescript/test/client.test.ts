import assert from "node:assert/strict";
import { mkdtemp, readFile, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { once } from "node:events";
import { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Reelay, ReelayError, type Job, type JobEvent } from "reelay-client";
import { download } from "reelay-client/node";
import { apiKey, video, reelay, Way } from "./support.js";

const code = (want: string) => (error: unknown) => error instanceof ReelayError && error.code === want;

describe("submitJob", { concurrency: true }, () => {
  it("turns a prompt into a video that is whole", async () => {
    const client = reelay();
    const { job, deduplicated } = await client.submitJob(video);
    assert.equal(deduplicated, false);

    const done = await client.waitForJob(job.id);

    assert.equal(done.status, "COMPLETED");
    const bytes = await client.fetchArtifact(done.result!);
    assert.equal(bytes.length, Number(done.result!.sizeBytes));
    assert.equal(Buffer.from(bytes.subarray(4, 8)).toString(), "ftyp");
  });

  it("makes one job of it although the answer is lost", async () => {
    const way = await Way.open();
    way.losesAnswers = true;
    const calls: number[] = [];
    const client = reelay({ endpoint: way.endpoint, fetch: async (...args) => {
      calls.push(way.connections);
      if (calls.length === 2) {
        way.losesAnswers = false;
      }
      return fetch(...args);
    } });

    const { job, deduplicated } = await client.submitJob({ ...video, userId: `lost-${crypto.randomUUID()}` });

    assert.equal(deduplicated, true);
    assert.ok(calls.length >= 2);
    const found = await client.jobs({ userId: job.userId });
    assert.deepEqual(found.jobs.map((j) => j.id), [job.id]);
    way.close();
  });

  it("begins a video from an image", async () => {
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGM4ISICRAwQCgAdHgPBfBJ9GQAAAABJRU5ErkJggg==";
    let lost = 0;
    const client = reelay({ fetch: async (url, init) => {
      if (init?.method === "PUT" && lost++ === 0) {
        throw new TypeError("fetch failed");
      }
      return fetch(url, init);
    } });

    const referenceImage = await client.uploadInput("image/png", Buffer.from(png, "base64"));
    const { job } = await client.submitJob({ ...video, params: { ...video.params, referenceImage } });

    assert.equal(lost, 2);
    assert.equal((await client.waitForJob(job.id)).status, "COMPLETED");
  });

  it("names the field that is wrong", async () => {
    await assert.rejects(reelay().submitJob({ ...video, params: { durationSeconds: -1 } }),
      (error) => code("INVALID_INPUT")(error) && (error as ReelayError).field === "params.durationSeconds");
  });

  it("submits many, and tells of each", async () => {
    const runAt = new Date(Date.now() + 3_600_000).toISOString();
    const bad = { ...video, params: { durationSeconds: -1 } };

    const { results, accepted, rejected } = await reelay().submitJobs([{ ...video, runAt }, bad, { ...video, runAt }]);

    assert.deepEqual([accepted, rejected], [2, 1]);
    assert.equal(results[0]!.job!.status, "SCHEDULED");
    assert.equal(results[1]!.error!.code, "INVALID_INPUT");
    assert.deepEqual(results[1]!.error!.field, ["params", "durationSeconds"]);
    await Promise.all([0, 2].map((i) => reelay().cancelJob(results[i]!.job!.id)));
  });

  it("refuses a wrong key everywhere", async () => {
    const stranger = reelay({ apiKey: "rl_wrong" });

    await assert.rejects(stranger.viewer(), code("UNAUTHENTICATED"));
    await assert.rejects(stranger.jobEvents("job_00000000-0000-7000-8000-000000000000").next(), code("UNAUTHENTICATED"));
  });

  it("tells an unreachable server from a refusal", async () => {
    const nobody = new Reelay({ endpoint: "http://127.0.0.1:1", apiKey, tries: 1 });

    await assert.rejects(nobody.viewer(), code("UNAVAILABLE"));
    assert.throws(() => new Reelay({ endpoint: "localhost", apiKey }), code("INVALID_INPUT"));
  });
});

describe("jobs", { concurrency: true }, () => {
  it("goes through all pages and knows none twice", async () => {
    const client = reelay();
    const userId = `pages-${crypto.randomUUID()}`;
    const wanted = new Set<string>();
    for (let i = 0; i < 3; i++) {
      wanted.add((await client.submitJob({ ...video, userId })).job.id);
    }

    const first = await client.jobs({ userId }, { first: 2 });
    const second = await client.jobs({ userId }, { first: 2, after: first.next });
    const all: string[] = [];
    for await (const job of client.allJobs({ userId })) {
      all.push(job.id);
    }

    assert.equal(first.totalCount, 3);
    assert.equal(second.next, undefined);
    assert.deepEqual([...first.jobs, ...second.jobs].map((j) => j.id), all);
    assert.deepEqual(new Set(all), wanted);
  });

  it("knows no job of nobody", async () => {
    await assert.rejects(reelay().job("job_00000000-0000-7000-8000-000000000000"), code("NOT_FOUND"));
  });

  it("cancels, retries and deletes", async () => {
    const client = reelay();
    const { job } = await client.submitJob({ ...video, runAt: new Date(Date.now() + 3_600_000).toISOString() });

    assert.equal((await client.cancelJob(job.id)).status, "CANCELLED");
    assert.equal((await client.retryJob(job.id)).run, 2);
    assert.equal((await client.waitForJob(job.id)).status, "COMPLETED");
    assert.ok((await client.deleteJob(job.id)).deletedAt);
  });
});

describe("a job's surroundings", { concurrency: true }, () => {
  it("are its wait, its attempts and who cancelled it", async () => {
    const client = reelay();
    const runAt = new Date(Date.now() + 3_600_000).toISOString();
    const { job } = await client.submitJob({ ...video, runAt });

    const { waitingFor, estimatedWaitSeconds } = await client.wait(job.id);
    assert.equal(waitingFor[0]!.code, "NOT_BEFORE");
    assert.ok(estimatedWaitSeconds === null || estimatedWaitSeconds > 3000);
    assert.ok((await client.cancelJob(job.id)).cancellation!.requestedAt);
    assert.deepEqual(await client.attempts(job.id), []);

    await client.retryJob(job.id);
    await client.waitForJob(job.id);
    const [attempt] = await client.attempts(job.id);
    assert.equal(attempt!.status, "SUCCEEDED");
    assert.ok(attempt!.worker!.id);
    await assert.rejects(client.attempts("job_00000000-0000-7000-8000-000000000000"), code("NOT_FOUND"));
  });

  it("are guessed before the submit", async () => {
    const userId = `guess-${crypto.randomUUID()}`;

    const { position, waitSeconds } = await reelay().estimate({ ...video, userId });

    assert.ok(position >= 1);
    assert.ok(waitSeconds === null || waitSeconds >= 0);
    assert.equal((await reelay().jobs({ userId })).totalCount, 0);
  });
});

describe("jobChanges", { concurrency: true }, () => {
  it("tells of each status of the jobs that are asked for, and of a connection that breaks", async () => {
    const way = await Way.open();
    const client = reelay();
    const userId = `changes-${crypto.randomUUID()}`;
    const changes = reelay({ endpoint: way.endpoint }).jobChanges({ userId });
    const next = changes.next();
    const made: string[] = [];
    // Nothing tells when the subscription has begun: jobs come until it has told of one.
    const submitting = (async () => {
      let told = false;
      void next.then(() => { told = true; });
      while (!told) {
        made.push((await client.submitJob({ ...video, userId })).job.id);
        await client.waitForJob(made.at(-1)!);
      }
    })();

    const first = (await next).value as Job;
    await submitting;

    assert.ok(made.includes(first.id));
    assert.equal(first.userId, userId);
    way.close();
    await assert.rejects(async () => {
      for await (const job of changes) {
        assert.equal(job.userId, userId);
      }
    }, code("UNAVAILABLE"));
  });
});

describe("webhooks", { concurrency: true }, () => {
  it("are told where the account wants it, and show what became of it", async () => {
    const received: string[] = [];
    const receiver = createServer((request, response) => {
      received.push(String(request.headers["webhook-id"]));
      response.end();
    });
    receiver.listen(0, "127.0.0.1").unref();
    await once(receiver, "listening");
    const { webhooks } = reelay();

    const { endpoint, secret } = await webhooks.create(`http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`, { events: ["job.failed"] });
    assert.match(secret, /^whsec_/);
    assert.deepEqual(endpoint.events, ["job.failed"]);
    assert.ok((await webhooks.endpoints()).some((e) => e.id === endpoint.id));
    assert.notEqual((await webhooks.rotateSecret(endpoint.id)).secret, secret);
    assert.equal((await webhooks.enable(endpoint.id)).disabled, false);

    const { eventId } = await webhooks.test(endpoint.id);
    // The account's other jobs may fail meanwhile, and be told to this endpoint, too.
    const told = async (tries: number) => {
      for (;;) {
        const { deliveries } = await webhooks.deliveries({ endpointId: endpoint.id });
        const found = deliveries.find((d) => d.eventId === eventId);
        if (found?.delivered && found.tries.length === tries) {
          return found;
        }
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    };
    const delivery = await told(1);
    assert.equal(delivery.lastStatusCode, 200);
    assert.equal((await webhooks.redeliver(delivery.id)).id, delivery.id);
    await told(2);
    assert.deepEqual(received.filter((id) => id === eventId), [eventId, eventId]);

    await webhooks.delete(endpoint.id);
    assert.ok(!(await webhooks.endpoints()).some((e) => e.id === endpoint.id));
    await assert.rejects(webhooks.enable(endpoint.id), code("NOT_FOUND"));
  });
});

describe("jobEvents", { concurrency: true }, () => {
  it("misses nothing and repeats nothing when connections break", async () => {
    const way = await Way.open();
    const client = reelay({ endpoint: way.endpoint });
    const { job } = await client.submitJob({ ...video, params: { durationSeconds: 1, pace: 3 } });

    const seen: JobEvent[] = [];
    for await (const event of client.jobEvents(job.id)) {
      seen.push(event);
      if (seen.length % 2 === 0) {
        way.cut();
      }
    }

    assert.deepEqual(seen.map((event) => event.seq), seen.map((_, i) => i + 1));
    assert.equal(seen.at(-1)!.type, "COMPLETED");
    assert.ok(way.connections > 2);
    way.close();
  });

  it("begins where it is told, and ends at once on a job that is over", async () => {
    const client = reelay();
    const { job } = await client.submitJob(video);
    await client.waitForJob(job.id);
    const all: number[] = [];
    for await (const event of client.jobEvents(job.id)) {
      all.push(event.seq);
    }

    const rest: number[] = [];
    for await (const event of client.jobEvents(job.id, { afterSeq: 2 })) {
      rest.push(event.seq);
    }

    assert.deepEqual(rest, all.slice(2));
  });

  it("ends with its signal", async () => {
    const client = reelay();
    const { job } = await client.submitJob({ ...video, runAt: new Date(Date.now() + 3_600_000).toISOString() });
    const stop = new AbortController();

    await assert.rejects(async () => {
      for await (const _ of client.jobEvents(job.id, { signal: stop.signal })) {
        stop.abort(new Error("enough"));
      }
    }, /enough/);
    await client.cancelJob(job.id);
  });

  it("watches more jobs than one socket may carry", async () => {
    const client = reelay();
    const runAt = new Date(Date.now() + 3_600_000).toISOString();
    const jobs = await Promise.all(Array.from({ length: 25 }, async () => (await client.submitJob({ ...video, runAt })).job));

    const watches = jobs.map((job) => client.waitForJob(job.id));
    await Promise.all(jobs.map((job) => client.cancelJob(job.id)));

    for (const job of await Promise.all(watches)) {
      assert.equal(job.status, "CANCELLED");
    }
  });
});

describe("download", { concurrency: true }, () => {
  // serves bytes and breaks off in the middle of each answer but the last
  async function store(bytes: Buffer, breaks: number) {
    const ranges: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      ranges.push(request.headers.range);
      const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
      const rest = bytes.subarray(from);
      response.writeHead(from > 0 ? 206 : 200, { "Content-Length": rest.length });
      if (ranges.length > breaks) {
        response.end(rest);
      } else {
        response.write(rest.subarray(0, Math.floor(rest.length / 2)), () => response.destroy());
      }
    });
    server.listen(0, "127.0.0.1").unref();
    await once(server, "listening");
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, ranges };
  }

  it("goes on where it broke off", async () => {
    const bytes = Buffer.alloc(100_000, "a frame ");
    const { url, ranges } = await store(bytes, 2);
    const folder = await mkdtemp(join(tmpdir(), "reelay-"));

    // The checksum is that of the API's own algorithm: see the Go client's tests.
    await download(reelay(), { id: "art_1", url, sizeBytes: bytes.length, checksum: await crc(bytes) }, join(folder, "video.mp4"));

    assert.deepEqual(await readFile(join(folder, "video.mp4")), bytes);
    assert.deepEqual(await readdir(folder), ["video.mp4"]);
    assert.equal(ranges.length, 3);
    assert.equal(ranges[0], undefined);
  });

  it("refuses other bytes than the API told of", async () => {
    const { url } = await store(Buffer.from("123456789"), 0);
    const folder = await mkdtemp(join(tmpdir(), "reelay-"));
    const artifact = { id: "art_1", url, sizeBytes: 9, checksum: "AAAAAA==" };

    await assert.rejects(download(reelay(), artifact, join(folder, "video.mp4")), code("CHECKSUM_MISMATCH"));
    await assert.rejects(reelay().fetchArtifact(artifact), code("CHECKSUM_MISMATCH"));
    assert.deepEqual(await readdir(folder), []);
  });

  it("reckons CRC32C as its standard says", async () => {
    const { url } = await store(Buffer.from("123456789"), 0);

    const bytes = await reelay().fetchArtifact({ id: "art_1", url, sizeBytes: 9, checksum: Buffer.from([0xe3, 0x06, 0x92, 0x83]).toString("base64") });

    assert.equal(Buffer.from(bytes).toString(), "123456789");
  });
});

async function crc(bytes: Buffer): Promise<string> {
  const { AwsCrc32c } = await import("@aws-crypto/crc32c");
  const sum = new AwsCrc32c();
  sum.update(bytes);
  return Buffer.from(await sum.digest()).toString("base64");
}
