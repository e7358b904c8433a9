/** The kind of an error, with the codes of the API: see docs/users/errors.md. */
export type ErrorCode =
  | "UNAUTHENTICATED" | "FORBIDDEN" | "NOT_FOUND" | "INVALID_INPUT" | "IDEMPOTENCY_CONFLICT" | "CONFLICT"
  | "CHECKSUM_MISMATCH" | "CONTENT_POLICY" | "RATE_LIMITED" | "QUOTA_EXCEEDED" | "BUDGET_EXCEEDED" | "OVERLOADED" | "QUERY_TOO_COMPLEX"
  | "UNAVAILABLE" | "INTERNAL" | (string & {});

/** The error of a failed call. Its message is a sentence for people. */
export class ReelayError extends Error {
  override readonly name = "ReelayError";
  readonly code: ErrorCode;
  /** The invalid input, such as `params.durationSeconds`, if there is one. */
  readonly field: string | undefined;
  /** How many seconds the API asks to wait before a retry. */
  readonly retryAfterSeconds: number | undefined;
  /** Identifies the error in the server's log, if the server is at fault. */
  readonly requestId: string | undefined;

  constructor(code: ErrorCode, message: string, more: {
    field?: string; retryAfterSeconds?: number; requestId?: string; cause?: unknown;
  } = {}) {
    super(message, { cause: more.cause });
    this.code = code;
    this.field = more.field;
    this.retryAfterSeconds = more.retryAfterSeconds;
    this.requestId = more.requestId;
  }

  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return this.code === "UNAVAILABLE" || this.code === "OVERLOADED" || this.code === "RATE_LIMITED";
  }
}

interface GraphQLErrorLike {
  message: string;
  extensions?: Record<string, unknown>;
}

/** The first error of a GraphQL answer. */
export function fromGraphQL(errors: readonly GraphQLErrorLike[]): ReelayError {
  const { message, extensions = {} } = errors[0] ?? { message: "the API answered with an error that it did not name" };
  const text = (name: string) => (typeof extensions[name] === "string" ? extensions[name] as string : undefined);
  const wait = extensions["retryAfterSeconds"];
  return new ReelayError(text("code") ?? "INTERNAL", message, {
    field: text("field"), requestId: text("requestId"), retryAfterSeconds: typeof wait === "number" ? wait : undefined,
  });
}

const codes: Record<number, ErrorCode> = {
  400: "INVALID_INPUT", 401: "UNAUTHENTICATED", 413: "INVALID_INPUT", 422: "INVALID_INPUT", 429: "RATE_LIMITED",
};

/** The error of an answer that is not GraphQL, such as a proxy's page, or from a server that is starting or stopping. */
export function fromStatus(host: string, status: number, body: string, retryAfter: string | null): ReelayError {
  const wait = Number(retryAfter);
  const excerpt = body.replace(/\s+/g, " ").trim().slice(0, 200);
  return new ReelayError(codes[status] ?? "UNAVAILABLE", `${host} answered ${status}${excerpt && `: ${excerpt}`}`, {
    retryAfterSeconds: retryAfter !== null && Number.isFinite(wait) && wait >= 0 ? wait : undefined,
  });
}

/** The error of a request without an answer. */
export function unreachable(host: string, cause: unknown): ReelayError {
  const why = cause instanceof Error ? (cause.cause instanceof Error ? cause.cause.message : cause.message) : String(cause);
  return new ReelayError("UNAVAILABLE", `${host} cannot be reached: ${why}`, { cause });
}
