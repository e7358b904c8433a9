import { createReadStream } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type CallOptions, type Reelay } from "./client.js";
import { Checksum, type Download, verify } from "./download.js";
import { ReelayError } from "./error.js";
import { repeat } from "./retry.js";

/**
 * Fetches an object into a file. After a broken connection it continues where it stopped, even in a later call: until
 * the object is complete and verified, its bytes are in a hidden file beside `path`.
 */
export async function download(reelay: Reelay, artifact: Download, path: string, options: CallOptions & {
  tries?: number; onProgress?: (bytes: number, of: number) => void;
} = {}): Promise<void> {
  const part = join(dirname(path), `.${basename(path)}.${artifact.id}.part`);
  const size = Number(artifact.sizeBytes);
  const file = await open(part, "a");
  const checksum = new Checksum();
  try {
    let length = await digest(part, checksum);
    await repeat(options.tries ?? 4, options.signal, async () => {
      if (length >= size) {
        return;
      }
      for await (const chunk of reelay.read(artifact, length, options.signal)) {
        await file.write(chunk);
        checksum.update(chunk);
        length += chunk.length;
        options.onProgress?.(length, size);
      }
      if (length < size) {
        throw new ReelayError("UNAVAILABLE", `${artifact.id} broke off after ${length} of ${size} bytes`);
      }
    });
    await verify(artifact, length, checksum);
    await file.sync();
  } catch (error) {
    if (error instanceof ReelayError && error.code === "CHECKSUM_MISMATCH") {
      await rm(part, { force: true });
    }
    throw error;
  } finally {
    await file.close();
  }
  await rename(part, path);
}

/** Adds the bytes that an earlier call left to the checksum and returns their number. */
async function digest(path: string, checksum: Checksum): Promise<number> {
  let length = 0;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    checksum.update(chunk);
    length += chunk.length;
  }
  return length;
}
