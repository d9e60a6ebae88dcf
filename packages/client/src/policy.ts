import type { Isolation, JsonObject } from '@gantry/contract'
import type { Http } from './http.ts'
import type { Waiting } from './options.ts'

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

/** Who would make a call that is asked about: oneself, as far as nothing else is said. */
export interface PolicyTestOptions extends Waiting {
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
      return (await http.json({ path: '/v1/policy', signal })).body as PolicyView
    },
    async set(document, { signal } = {}) {
      // Whole, because a member that is misspelt is for the service to refuse, and not to be lost.
      return (await http.json({ method: 'POST', path: '/v1/policy', body: document, signal })).body as PolicyView
    },
    async test(tool, args, { signal, ...who } = {}) {
      const body = { tool, args, ...who }
      return (await http.json({ method: 'POST', path: '/v1/policy/test', body, signal })).body as PolicyAnswer
    },
  }
}
