import type { AuditVerdict, AuditView, Paged } from '@gantry/contract'
import type { Http } from './http.ts'
import type { Waiting } from './options.ts'

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
