import { ReelayError } from "./error.js";

/** The longest time that a call waits at the API's request. */
const maxPauseSeconds = 30;

/** Milliseconds to wait after this many consecutive failures: 250, 500, … 8000, each reduced at random by up to half. */
export function backoff(failures: number): number {
  return 250 * 2 ** Math.min(failures - 1, 5) * (0.5 + Math.random() / 2);
}

/** Resolves after this many milliseconds, or rejects with the signal's reason. */
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

/** Calls up to `tries` times, as long as the error is one that a retry can fix. */
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
