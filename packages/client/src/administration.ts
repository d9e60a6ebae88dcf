import type { AuditVerdict, AuditView, Isolation, JsonObject, KeyView, Paged } from '@gantry/contract'
import { type Http, type Request, segment } from './http.ts'
import type { Waiting } from './options.ts'

/** A key to be made; it can do no more than its maker. */
export interface KeyOptions extends Waiting {
  readonly name: string
  /** The principal of its calls; `key:` and the name when absent. */
  readonly principal?: string | undefined
  /** One's own when absent. */
  readonly tenant?: string | undefined
  readonly permissions?: readonly string[] | undefined
  readonly roles?: readonly string[] | undefined
  /** Patterns of the tools that are there for it. */
  readonly tools?: readonly string[] | undefined
  /** 90 days when absent. */
  readonly expiresMs?: number | undefined
  /** Of an Ed25519 pair, for a key that signs: its 32 bytes in base64url. */
  readonly publicKey?: string | undefined
}

export interface RotateOptions extends Waiting {
  /** How long the old one stays good; a day when absent. */
  readonly overlapMs?: number | undefined
  readonly expiresMs?: number | undefined
  readonly publicKey?: string | undefined
}

export interface RevokeOptions extends Waiting {
  readonly cancelCalls?: boolean | undefined
}

/** A key that was made; `text` is the key itself, shown this once, and absent for one that signs. */
export interface MadeKey {
  readonly key: KeyView
  readonly text?: string
}

/** Keys of the API, for those who hold `gantry:keys`. Nothing of it is sent again by itself but lists. */
export interface Keys {
  /** Newest first; `tenant` may be another one, or `*`, for those who hold `gantry:tenants`. */
  list(
    options?: Waiting & {
      readonly limit?: number | undefined
      readonly cursor?: string | undefined
      readonly tenant?: string | undefined
    },
  ): Promise<Paged<KeyView>>
  create(options: KeyOptions): Promise<MadeKey>
  /** Makes the successor of a key, which itself ends after the overlap. */
  rotate(id: string, options?: RotateOptions): Promise<MadeKey>
  /** Ends a key at once; queued calls of its principal are cancelled when `cancelCalls` says so. */
  revoke(id: string, options?: RevokeOptions): Promise<KeyView>
}

export function keysOf(http: Http): Keys {
  const post = async <T>(path: string, { signal, ...body }: Waiting = {}, retries?: number): Promise<T> => {
    const often = retries === undefined ? {} : { retries }
    return (await http.json<T>({ method: 'POST', path, body, signal, ...often })).body
  }
  return {
    async list({ signal, ...query } = {}) {
      return (await http.json<Paged<KeyView>>({ path: '/v1/keys', query, signal })).body
    },
    // A retry could make a second key that its owner does not know of, which is worse than an error.
    create: (options) => post('/v1/keys', options, 0),
    rotate: async (id, options) => post(`/v1/keys/${segment(id)}/rotate`, options, 0),
    revoke: async (id, options) => post(`/v1/keys/${segment(id)}/revoke`, options),
  }
}

/** Rules as they are written in a configuration. */
export interface PolicyDocument {
  readonly rules: readonly JsonObject[]
  /** For calls that no rule is about; `deny` when absent. */
  readonly default?: 'allow' | 'deny' | undefined
}

/** The policy as it is at work. */
export interface PolicyView {
  /** Of the snapshot that calls see now, as it stands in the audit. */
  readonly version: string
  /** What was set over the API; absent while nothing was. */
  readonly stored?: {
    readonly version: number
    readonly document: PolicyDocument
    readonly createdAt: string
    readonly createdBy: string
  }
}

/** The identity that a decision is about: the caller's own when absent. */
export interface PolicyTestOptions extends Waiting {
  /** The id of a key, whose caller is tested; excludes the others. */
  readonly key?: string | undefined
  readonly principal?: string | undefined
  readonly tenant?: string | undefined
  readonly permissions?: readonly string[] | undefined
  readonly roles?: readonly string[] | undefined
  readonly tools?: readonly string[] | undefined
}

/** What would be decided on a call, and why. */
export interface PolicyAnswer {
  readonly version: string
  readonly tool: string
  readonly effect: 'allow' | 'deny' | 'ask' | 'unavailable'
  readonly reason: string
  readonly rule?: string
  readonly missing: readonly string[]
  readonly floor?: Isolation
  readonly approvers?: readonly string[]
  readonly exists: boolean
  readonly visible: boolean
  readonly valid: boolean
}

/** The policy of the service, for those who hold `gantry:policy`; reading and setting it needs `gantry:tenants` too. */
export interface PolicyAccess {
  read(options?: Waiting): Promise<PolicyView>
  /** Replaces what was set before. */
  set(document: PolicyDocument, options?: Waiting): Promise<PolicyView>
  /** Explains what would be decided on a call; nothing runs. */
  test(tool: string, args?: JsonObject, options?: PolicyTestOptions): Promise<PolicyAnswer>
}

export function policyOf(http: Http): PolicyAccess {
  return {
    async read({ signal } = {}) {
      return (await http.json<PolicyView>({ path: '/v1/policy', signal })).body
    },
    async set(document, { signal } = {}) {
      // Whole, because a member that is misspelt is for the service to refuse, and not to be lost.
      return (await http.json<PolicyView>({ method: 'POST', path: '/v1/policy', body: document, signal })).body
    },
    async test(tool, args, { signal, ...who } = {}) {
      const body = { tool, args, ...who }
      return (await http.json<PolicyAnswer>({ method: 'POST', path: '/v1/policy/test', body, signal })).body
    },
  }
}

/** Which rows; `tenant` may be another one, or `*`, for those who hold `gantry:tenants`. */
export interface AuditOptions extends Waiting {
  readonly tenant?: string | undefined
  readonly principal?: string | undefined
  readonly tool?: string | undefined
  readonly call?: string | undefined
  readonly status?: string | undefined
  readonly phase?: string | undefined
  readonly since?: string | undefined
  readonly until?: string | undefined
}

/** The audit record, for those who hold `gantry:audit`. */
export interface AuditReads {
  /** Newest first. A page with few rows or none may still have a cursor to go on from. */
  list(
    options?: AuditOptions & { readonly limit?: number | undefined; readonly cursor?: string | undefined },
  ): Promise<Paged<AuditView>>
  /** Lines of JSON, oldest first; the caller reads the body, or cancels it. */
  export(options?: AuditOptions): Promise<Response>
  /** Looks through the record of all tenants; needs `gantry:tenants` too. */
  verify(options?: Waiting & { readonly head?: string | undefined }): Promise<AuditVerdict>
}

/** A long record takes its time. */
const verifyMs = 3_600_000

export function auditOf(http: Http): AuditReads {
  return {
    async list({ signal, ...asked } = {}) {
      return (await http.json<Paged<AuditView>>({ path: '/v1/audit', query: { ...asked }, signal })).body
    },
    export: ({ signal, ...asked } = {}) => http.open({ path: '/v1/audit/export', query: { ...asked }, signal }),
    async verify({ signal, head } = {}) {
      const body = head === undefined ? {} : { head }
      const request: Request = { method: 'POST', path: '/v1/audit/verify', body, signal, timeoutMs: verifyMs }
      return (await http.json<AuditVerdict>(request)).body
    },
  }
}
