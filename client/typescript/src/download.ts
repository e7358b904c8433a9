import { AwsCrc32c } from "@aws-crypto/crc32c";
import { fromStatus, ReelayError, unreachable } from "./error.js";

/** The fields of an artifact that a download needs. */
export interface Download {
  id: string;
  url: string;
  sizeBytes: number | string;
  /** CRC32C, big-endian, base64. */
  checksum: string;
}

/** Computes the CRC32C of bytes incrementally. */
export class Checksum {
  private readonly crc = new AwsCrc32c();

  update(bytes: Uint8Array): void {
    if (bytes.length > 0) {
      this.crc.update(bytes);
    }
  }

  /** The checksum in the API's format: four bytes, big-endian, base64. */
  async base64(): Promise<string> {
    return btoa(String.fromCharCode(...await this.crc.digest()));
  }
}

/** Throws CHECKSUM_MISMATCH unless the bytes are the object that the artifact describes. */
export async function verify(artifact: Download, size: number, checksum: Checksum): Promise<void> {
  if (size !== Number(artifact.sizeBytes) || await checksum.base64() !== artifact.checksum) {
    throw new ReelayError("CHECKSUM_MISMATCH", `the ${size} bytes that came are not those of ${artifact.id}`);
  }
}

/** Yields an object's bytes from `offset` on. A link carries its own permission: no key is sent. */
export async function* read(
  fetch: typeof globalThis.fetch, artifact: Download, offset: number, signal?: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  const host = new URL(artifact.url).host;
  let answer: Response;
  try {
    answer = await fetch(artifact.url, { headers: offset > 0 ? { Range: `bytes=${offset}-` } : {}, signal: signal ?? null });
  } catch (error) {
    signal?.throwIfAborted();
    throw unreachable(host, error);
  }
  if (answer.status !== (offset > 0 ? 206 : 200) || !answer.body) {
    throw fromStatus(host, answer.status, (await answer.text()).slice(0, 1000), answer.headers.get("Retry-After"));
  }
  const reader = answer.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      yield value;
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw unreachable(host, error);
  } finally {
    reader.cancel().catch(() => {});
  }
}
