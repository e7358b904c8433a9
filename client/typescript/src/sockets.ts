import { type Client, createClient } from "graphql-ws";
import { fromGraphQL, ReelayError, unreachable } from "./error.js";

/** How many subscriptions the API allows on one socket. */
const perSocket = 20;

interface Socket {
  client: Client;
  running: number;
}

/** Opens sockets for subscriptions and closes those without any. */
export class Sockets {
  private open: Socket[] = [];

  constructor(private readonly url: string, private readonly apiKey: string, private readonly impl?: unknown) {}

  /** Runs one subscription on one connection until it completes or fails, or the caller stops iterating. */
  async *subscribe<T>(query: string, variables: Record<string, unknown>, signal?: AbortSignal): AsyncGenerator<T, void> {
    signal?.throwIfAborted();
    const socket = await this.take();
    const results = socket.client.iterate<Record<string, T>>({ query, variables });
    const stop = () => void results.return?.();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      for await (const { data, errors } of results) {
        if (errors?.length) {
          throw fromGraphQL(errors);
        }
        yield Object.values(data ?? {})[0] as T;
      }
      signal?.throwIfAborted();
    } catch (error) {
      signal?.throwIfAborted();
      throw this.explain(error);
    } finally {
      signal?.removeEventListener("abort", stop);
      stop();
      this.release(socket);
    }
  }

  private async take(): Promise<Socket> {
    const impl = this.impl ?? globalThis.WebSocket ?? (await import("ws")).WebSocket;
    let socket = this.open.find((s) => s.running < perSocket);
    if (!socket) {
      const client = createClient({
        url: this.url, webSocketImpl: impl, lazy: true, retryAttempts: 0, keepAlive: 15_000,
        connectionParams: { authorization: `Bearer ${this.apiKey}` },
        // A server that does not answer a ping is gone, so close its socket.
        on: { ping: (received) => { if (!received) { this.expectPong(socket!); } }, pong: () => this.gotPong(socket!) },
      });
      socket = { client, running: 0 };
      this.open.push(socket);
    }
    socket.running++;
    return socket;
  }

  private readonly pongs = new Map<Socket, ReturnType<typeof setTimeout>>();

  private expectPong(socket: Socket): void {
    clearTimeout(this.pongs.get(socket));
    this.pongs.set(socket, setTimeout(() => socket.client.terminate(), 10_000));
  }

  private gotPong(socket: Socket): void {
    clearTimeout(this.pongs.get(socket));
    this.pongs.delete(socket);
  }

  private release(socket: Socket): void {
    socket.running--;
    if (socket.running === 0) {
      this.open = this.open.filter((s) => s !== socket);
      this.gotPong(socket);
      void socket.client.dispose();
    }
  }

  /** Converts the cause of a connection's end to a ReelayError. */
  private explain(error: unknown): unknown {
    if (error instanceof ReelayError) {
      return error;
    }
    if (Array.isArray(error)) {
      return fromGraphQL(error);
    }
    const host = new URL(this.url).host;
    const { code, reason } = (error ?? {}) as { code?: number; reason?: string };
    switch (code) {
      case 4401:
      case 4403:
        return new ReelayError("UNAUTHENTICATED", "the key is missing, unknown or revoked");
      case undefined:
        return unreachable(host, error instanceof Error ? error : new Error("the connection failed"));
    }
    return unreachable(host, new Error(`the connection was closed (${code}${reason ? ` ${reason}` : ""})`));
  }
}
