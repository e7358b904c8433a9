import { fromStatus, unreachable } from "./error.js";

/** The target of an upload: a signed link that is valid for one attempt. */
export interface Target {
  url: string;
  method: string;
  headers: Record<string, string>;
}

/** Sends an object's bytes to its target. No key is sent. */
export async function write(fetch: typeof globalThis.fetch, target: Target, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
  const host = new URL(target.url).host;
  let answer: Response, text: string;
  try {
    answer = await fetch(target.url, {
      method: target.method, headers: target.headers, body: bytes as Uint8Array<ArrayBuffer>, signal: signal ?? null,
    });
    text = await answer.text();
  } catch (error) {
    signal?.throwIfAborted();
    throw unreachable(host, error);
  }
  if (!answer.ok) {
    throw fromStatus(host, answer.status, text.slice(0, 1000), answer.headers.get("Retry-After"));
  }
}
