import { ReelayError } from "./error.js";

/** The longest that a call waits because the API asks it to. */
const maxPauseSeconds = 30;

/** Milliseconds after so many failures in a row: 250, 500, … 8000, each shortened by up to a half. */
export function backoff(failures: number): number {
  return 250 * 2 ** Math.min(failures - 1, 5) * (0.5 + Math.random() / 2);
}

/** Resolves after so many milliseconds, or rejects with the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Calls up to `tries` times, while what fails may succeed later. */
export async function repeat<T>(tries: number, signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      const asked = error instanceof ReelayError ? error.retryAfterSeconds ?? 0 : 0;
      if (!(error instanceof ReelayError) || !error.retryable || attempt >= tries || asked > maxPauseSeconds) {
        throw error;
      }
      await sleep(Math.max(backoff(attempt), asked * 1000), signal);
    }
  }
}
