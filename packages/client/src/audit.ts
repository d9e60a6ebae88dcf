import type { Json } from '@gantry/contract'
import type { Http } from './http.ts'
import type { Waiting } from './options.ts'
import type { Paged } from './types.ts'

/** A row of the audit record. */
export interface AuditView {
  readonly seq: number
  readonly at: string
  readonly tenant: string
  readonly principal: string
  /** The call, or what else was acted on. */
  readonly callId: string
  /** `start`, `intent`, `end`, `lost`, `released`; `refused`; `admin`, `redrive`, `discard`. */
  readonly phase: string
  /** The tool, or what was done. */
  readonly tool: string
  readonly fence: number
  readonly worker?: string
  readonly status?: string
  readonly code?: string
  /** The version of the configuration, with its policy, that decided. */
  readonly config?: string
  readonly details?: Json
}

/** Something that is not as it was sealed, and where. */
export interface AuditFinding {
  readonly what: 'changed' | 'missing' | 'inserted' | 'order' | 'seal' | 'chain' | 'key' | 'head'
  readonly seq?: number
  readonly seal?: number
  readonly message: string
}

/** Whether the audit record is as it was sealed. */
export interface AuditVerdict {
  readonly ok: boolean
  readonly seals: number
  readonly rows: number
  /** Rows at the end that no seal stands for yet. */
  readonly unsealed: number
  /** The last seal, as `number:hash`: kept elsewhere, it shows later that the end was not cut off. */
  readonly head?: string
  /** The last seal that the retention removed. */
  readonly retired?: { readonly seal: number; readonly uptoSeq: number; readonly at: string }
  /** The first hundred. */
  readonly findings: readonly AuditFinding[]
  readonly findingsTotal: number
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
      return (await http.json({ path: '/v1/audit', query: { ...asked }, signal })).body as Paged<AuditView>
    },
    export: ({ signal, ...asked } = {}) => http.open({ path: '/v1/audit/export', query: { ...asked }, signal }),
    async verify({ signal, head } = {}) {
      const body = head === undefined ? {} : { head }
      const request = { path: '/v1/audit/verify', body, signal, timeoutMs: verifyMs } as const
      return (await http.json({ method: 'POST', ...request })).body as AuditVerdict
    },
  }
}
