import { once } from "node:events";
import { createServer, connect, type AddressInfo, type Socket } from "node:net";
import { Reelay, type ReelayOptions } from "reelay-client";

const env = (name: string): string => {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set: the tests need a running Reelay`);
  }
  return value;
};

export const endpoint = env("REELAY_ENDPOINT");
export const apiKey = env("REELAY_API_KEY");

export function reelay(more: Partial<ReelayOptions> = {}): Reelay {
  return new Reelay({ endpoint, apiKey, ...more });
}

/** A quick video. */
export const video = { model: "testcard", prompt: "a lighthouse", params: { durationSeconds: 1, pace: 0 } };

/** A way to Reelay that can be cut. */
export class Way {
  readonly endpoint: string;
  private readonly sockets = new Set<Socket>();
  connections = 0;
  /** Cuts a connection as soon as its answer begins. */
  losesAnswers = false;

  static async open(): Promise<Way> {
    const target = new URL(endpoint);
    const server = createServer((near) => {
      way.connections++;
      const far = connect(Number(target.port), target.hostname);
      const loses = way.losesAnswers;
      way.sockets.add(near);
      const end = () => {
        near.destroy();
        far.destroy();
        way.sockets.delete(near);
      };
      near.on("close", end).on("error", end);
      far.on("close", end).on("error", end);
      near.pipe(far);
      if (loses) {
        far.on("data", end);
      } else {
        far.pipe(near);
      }
    });
    server.listen(0, "127.0.0.1").unref();
    await once(server, "listening");
    const way: Way = new Way(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, () => server.close());
    return way;
  }

  private constructor(endpoint: string, private readonly stop: () => void) {
    this.endpoint = endpoint;
  }

  cut(): void {
    for (const socket of this.sockets) {
      socket.destroy();
    }
  }

  close(): void {
    this.stop();
    this.cut();
  }
}
