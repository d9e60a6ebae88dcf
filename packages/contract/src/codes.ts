import type { ResultStatus } from './result.ts'

/** The stage of the pipeline, or the part around it, that an error comes from. */
export type Stage =
  | 'lookup'
  | 'validate-input'
  | 'authorize'
  | 'resolve'
  | 'execute'
  | 'normalize'
  | 'validate-output'
  | 'admit'
  | 'define'
  | 'chain'
  | 'internal'

/** What a failed call may have changed: `none` means that it certainly changed nothing. */
export type EffectRisk = 'none' | 'possible'

/** One row of the error table. */
export interface CodeInfo {
  readonly stage: Stage
  /** The same call, sent again unchanged, may succeed. */
  readonly retryable: boolean
  readonly effect: EffectRisk
  /** The status of a Result that ends with this code. */
  readonly status: Exclude<ResultStatus, 'ok'>
  readonly http: number
  readonly exit: number
  /** What happened, then what to do. */
  readonly summary: string
  readonly remedy: string
}

/** The one table of error codes; docs/errors.md is generated from it and compared by a test. */
export const codes = {
  TOOL_ID_INVALID: {
    stage: 'lookup',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 400,
    exit: 2,
    summary: 'The tool id is not `namespace:name` or `namespace:name:version`.',
    remedy: 'Correct the id; names use letters, digits, `_`, `.` and `-`.',
  },
  TOOL_NOT_FOUND: {
    stage: 'lookup',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 404,
    exit: 2,
    summary: 'No tool, or no version of it, has this id.',
    remedy: 'Use one of the near names in `details.nearest`, or search the catalog.',
  },
  TOOL_INVALID: {
    stage: 'define',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 400,
    exit: 2,
    summary: 'A tool definition is wrong or collides with one that exists.',
    remedy: 'Correct the definition at the paths in `details.issues`.',
  },
  SCHEMA_INVALID: {
    stage: 'define',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 400,
    exit: 2,
    summary: 'A JSON Schema is malformed, refers outside its document, or is too costly to check safely.',
    remedy: 'Correct the schema at the paths in `details.issues`.',
  },
  CONFIG_INVALID: {
    stage: 'define',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 400,
    exit: 2,
    summary: 'The configuration has an unknown key or a wrong value.',
    remedy: 'Correct the key at the path in `details.issues`; `gantry config check` lists them all.',
  },
  INPUT_INVALID: {
    stage: 'validate-input',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 400,
    exit: 2,
    summary: 'The arguments do not fit the input schema, or are not plain JSON.',
    remedy: 'Correct the arguments at the paths in `details.issues`.',
  },
  PAYLOAD_INVALID: {
    stage: 'admit',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 400,
    exit: 2,
    summary: 'The message is not a call: malformed JSON, too large, too deep or of the wrong shape.',
    remedy: 'Correct the message; the limits are in `details`.',
  },
  UNAUTHENTICATED: {
    stage: 'authorize',
    retryable: false,
    effect: 'none',
    status: 'denied',
    http: 401,
    exit: 3,
    summary: 'The caller is not known.',
    remedy: 'Send valid credentials.',
  },
  DENIED: {
    stage: 'authorize',
    retryable: false,
    effect: 'none',
    status: 'denied',
    http: 403,
    exit: 3,
    summary: 'The policy, or the tool itself, refuses this caller.',
    remedy: 'Ask for the permission named in the message.',
  },
  APPROVAL_REQUIRED: {
    stage: 'authorize',
    retryable: false,
    effect: 'none',
    status: 'denied',
    http: 403,
    exit: 3,
    summary: 'A person must approve this exact call first.',
    remedy: 'Have it approved, then send the same call again.',
  },
  POLICY_UNAVAILABLE: {
    stage: 'authorize',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 503,
    exit: 5,
    summary: 'The policy could not decide; nothing runs without a decision.',
    remedy: 'Restore the policy source, then retry.',
  },
  AUDIT_UNAVAILABLE: {
    stage: 'execute',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 503,
    exit: 5,
    summary: 'The intent could not be recorded; nothing runs off the record.',
    remedy: 'Restore the audit store, then retry.',
  },
  CATALOG_STALE: {
    stage: 'lookup',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 409,
    exit: 2,
    summary: 'The tool changed since the caller read its schema.',
    remedy: 'Describe the tool again and rebuild the call.',
  },
  NO_BACKEND: {
    stage: 'resolve',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 503,
    exit: 5,
    summary: 'Nothing is registered that can run this tool.',
    remedy: 'Register or enable the backend named in the message.',
  },
  SECRET_UNAVAILABLE: {
    stage: 'execute',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 503,
    exit: 5,
    summary: 'A secret the tool declares could not be resolved.',
    remedy: 'Provide the secret named in the message.',
  },
  CIRCUIT_OPEN: {
    stage: 'execute',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 503,
    exit: 5,
    summary: 'The backend failed too often and rests.',
    remedy: 'Retry after the time in `details.retryAfterMs`.',
  },
  RATE_LIMITED: {
    stage: 'execute',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 429,
    exit: 5,
    summary: 'Too many calls at once or in this period.',
    remedy: 'Retry after the time in `details.retryAfterMs`.',
  },
  BACKEND_FAILED: {
    stage: 'execute',
    retryable: false,
    effect: 'possible',
    status: 'failed',
    http: 502,
    exit: 1,
    summary: 'The tool ran and reported a failure.',
    remedy: 'Read the message and `cause`; they are the tool’s own.',
  },
  BACKEND_UNAVAILABLE: {
    stage: 'execute',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 503,
    exit: 5,
    summary: 'The backend could not be reached; the tool did not start.',
    remedy: 'Retry later, or check the backend.',
  },
  TIMEOUT: {
    stage: 'execute',
    retryable: true,
    effect: 'possible',
    status: 'timeout',
    http: 504,
    exit: 4,
    summary: 'The call did not end within its time.',
    remedy: 'Allow more time, or make the call smaller.',
  },
  CANCELLED: {
    stage: 'execute',
    retryable: false,
    effect: 'possible',
    status: 'cancelled',
    http: 499,
    exit: 6,
    summary: 'The caller cancelled the call.',
    remedy: 'Nothing to do.',
  },
  LIMIT_EXCEEDED: {
    stage: 'execute',
    retryable: false,
    effect: 'possible',
    status: 'failed',
    http: 422,
    exit: 1,
    summary: 'A limit of the run (memory, output, steps, calls) was reached.',
    remedy: 'Raise the limit named in the message, or ask for less.',
  },
  RUNTIME_UNAVAILABLE: {
    stage: 'execute',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 503,
    exit: 5,
    summary: 'No runtime here gives the isolation that was asked for.',
    remedy: 'Install the runtime named in the message; `gantry doctor` tells how.',
  },
  SANDBOX_INIT_FAILED: {
    stage: 'execute',
    retryable: true,
    effect: 'none',
    status: 'failed',
    http: 503,
    exit: 5,
    summary: 'The sandbox did not start.',
    remedy: 'Retry; if it stays, run `gantry doctor`.',
  },
  OUTPUT_INVALID: {
    stage: 'validate-output',
    retryable: false,
    effect: 'possible',
    status: 'failed',
    http: 502,
    exit: 1,
    summary: 'The output does not fit the output schema, or is not plain JSON.',
    remedy: 'Correct the tool or its schema; the result is kept.',
  },
  RESULT_TOO_LARGE: {
    stage: 'normalize',
    retryable: false,
    effect: 'possible',
    status: 'failed',
    http: 502,
    exit: 1,
    summary: 'The output is larger or deeper than allowed.',
    remedy: 'Ask for less, or raise `limits.resultBytes` or `limits.resultDepth`.',
  },
  CHAIN_INVALID: {
    stage: 'chain',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 400,
    exit: 2,
    summary: 'The chain is malformed.',
    remedy: 'Correct the step at the path in `details.issues`.',
  },
  REFERENCE_INVALID: {
    stage: 'chain',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 400,
    exit: 2,
    summary: 'A `{{reference}}` names a step or a path that does not exist.',
    remedy: 'Correct the reference named in the message.',
  },
  IDEMPOTENCY_CONFLICT: {
    stage: 'admit',
    retryable: false,
    effect: 'none',
    status: 'failed',
    http: 409,
    exit: 2,
    summary: 'The idempotency key was used before with other arguments.',
    remedy: 'Use a new key for a new call.',
  },
  OUTCOME_UNKNOWN: {
    stage: 'execute',
    retryable: false,
    effect: 'possible',
    status: 'unknown',
    http: 502,
    exit: 7,
    summary: 'The tool may have run, and nothing can tell.',
    remedy: 'Check the effect by hand before you send it again.',
  },
  INTERNAL: {
    stage: 'internal',
    retryable: true,
    effect: 'possible',
    status: 'failed',
    http: 500,
    exit: 1,
    summary: 'A fault in Gantry itself.',
    remedy: 'Please report it with the call id.',
  },
} as const satisfies Record<string, CodeInfo>

/** Every code that can end a call or refuse a definition. */
export type ErrorCode = keyof typeof codes
